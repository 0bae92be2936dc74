"""Training or predicting again and again, as a container does it that is measured: a line of each turn."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .model import Model
from .predictors import Kind, predictor
from .series import Series
from .training import Order, train

PAUSE_S = 0.001

Turn = Callable[[], list[float]]


@dataclass(frozen=True)
class Work:
    """What is done in a turn: a training of so many epochs, or so many predictions of a window each."""

    kind: Kind
    task: str
    epochs: int
    predictions: int


def serve(work: Work, series: Series, folder: Path, number: int) -> None:
    """Makes ready, says so, waits for `go`, and works until it is ended.

    A turn is a line of `turns-NUMBER`: when it began and ended by the machine's monotonic clock, and of predictions how
    many microseconds each took.
    """
    turn = _training(work, series) if work.task == "training" else _prediction(work, series)
    (folder / f"ready-{number}").touch()
    go = folder / "go"
    while not go.exists():
        time.sleep(PAUSE_S)
    # Byte by byte, as half a line is none.
    with open(folder / f"turns-{number}", "wb", buffering=0) as turns:
        while True:
            began_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            values = turn()
            said: dict[str, Any] = {"began_ns": began_ns, "ended_ns": time.clock_gettime_ns(time.CLOCK_MONOTONIC)}
            turns.write(json.dumps({**said, "values": values}).encode() + b"\n")


def _trained(work: Work, series: Series, epochs: int) -> Model:
    model, _ = train(Order(work.kind, "work", "1", 1, epochs), series, (), None, lambda *_: None)
    return model


def _training(work: Work, series: Series) -> Turn:
    # Libraries are there before the first turn: to load them is part of the start.
    import sklearn.linear_model  # noqa: F401

    predictor(work.kind, len(series.features), seed=1)

    def turn() -> list[float]:
        _trained(work, series, work.epochs)
        return []

    return turn


def _prediction(work: Work, series: Series) -> Turn:
    from .predictors import WINDOW_READINGS
    from .series import windows

    model = _trained(work, series, 1)
    cut, _ = windows(series, WINDOW_READINGS)
    rng = np.random.default_rng(1)

    def turn() -> list[float]:
        took = []
        for at in rng.integers(len(cut), size=work.predictions):
            began_ns = time.perf_counter_ns()
            model.predict(cut[at : at + 1])
            took.append((time.perf_counter_ns() - began_ns) / 1e3)
        return took

    turn()
    return turn
