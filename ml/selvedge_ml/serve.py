"""A window a line in, a score a line out: what an edge without Selvedge's own inference would run."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np

from .export import DESCRIPTION_FILE, GRAPH_FILE
from .model import ModelError, load, read_json
from .predictors import WINDOW_READINGS
from .series import DataError, Values

LONGEST_LINE = 1_000_000

Predict = Callable[[Values], float]


def serve(runtime: str, folder: Path, lines: IO[str], answers: IO[str]) -> None:
    """Answers `[[reading of each feature], ...]` by its score and the time it took, no window by `error`.

    The first prediction, which compiles, is made before `ready` is said.
    """
    features, predict = _keras(folder) if runtime == "keras" else _onnxruntime(folder)
    predict(np.zeros((1, WINDOW_READINGS, features)))
    print("ready", file=sys.stderr, flush=True)
    while line := lines.readline(LONGEST_LINE):
        try:
            window = _window(line, features)
        except DataError as error:
            answer: dict[str, float | str] = {"error": str(error)}
        else:
            start_ns = time.perf_counter_ns()
            score = predict(window)
            answer = {"score": score, "predict_us": (time.perf_counter_ns() - start_ns) / 1e3}
        print(json.dumps(answer), file=answers, flush=True)


def _keras(folder: Path) -> tuple[int, Predict]:
    model = load(folder)
    return len(model.description.features), lambda window: float(model.predict(window)[1][0])


def _onnxruntime(folder: Path) -> tuple[int, Predict]:
    import onnxruntime

    described = read_json(folder / DESCRIPTION_FILE)
    try:
        features = len(described["features"])
        session = onnxruntime.InferenceSession(folder / GRAPH_FILE, providers=["CPUExecutionProvider"])
    except KeyError as error:
        raise ModelError(f"{folder / DESCRIPTION_FILE}: has no {error}; it is not what `export` writes") from None
    except Exception as error:  # its errors have no base of their own
        raise ModelError(f"{folder / GRAPH_FILE}: {error}") from None
    return features, lambda window: float(session.run(["score"], {"window": window.astype(np.float32)})[0][0])


def _window(line: str, features: int) -> Values:
    wanted = f"is to be {WINDOW_READINGS} readings of {features} numbers"
    try:
        window = np.array([json.loads(line)], dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise DataError(f"window: {error}; it {wanted}") from None
    if window.shape != (1, WINDOW_READINGS, features) or not np.isfinite(window).all():
        raise DataError(f"window: is {window.shape[1:]}, or not finite; it {wanted}")
    return window
