"""A trained model: what it says of itself, and a folder that keeps it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from .predictors import KINDS, Kind, Predictor, predictor
from .score import Floats, Scaling, Score
from .series import DataError, Series, Values

DESCRIPTION_FILE = "trained.json"
WEIGHTS_FILE = "weights.npz"
# Above this part of a column's readings outside of the model's range, the data is not what the model has learnt from.
OUTSIDE_PART = 0.5


class ModelError(ValueError):
    """A model that cannot be used. Says where, what is there, and what would be right."""


@dataclass(frozen=True)
class Data:
    """What was learnt from: which file, how much, and when it was read by the sensors."""

    name: str
    sha256: str
    readings: int
    since: str
    until: str

    @staticmethod
    def of(path: Path, series: Series) -> Data:
        """That of a file which was read into `series`."""
        first, last = (str(series.times[at].astype("datetime64[s]")) for at in (0, -1))
        return Data(path.name, sha256(path.read_bytes()), len(series.values), first, last)


@dataclass(frozen=True)
class Description:
    """What a model says of itself; with the hash of the graph it is the `model.json` of an exported one."""

    name: str
    version: str
    kind: Kind
    features: tuple[str, ...]
    interval_s: float
    threshold: float
    ranges: tuple[tuple[float, float], ...]
    seed: int
    data: tuple[Data, ...]
    continued_from: str | None

    def check_fits(self, series: Series) -> None:
        """Refuses data of other columns or another interval, and columns that are mostly out of what was learnt."""
        who = f"{series.name} does not fit model {self.name}:{self.version}"
        if series.features != self.features:
            raise DataError(
                f"{who}: its columns are {', '.join(series.features)}, and are to be {', '.join(self.features)}"
            )
        if series.interval_s != self.interval_s:
            raise DataError(f"{who}: its readings are {series.interval_s:g} s apart, and not {self.interval_s:g} s")
        for feature, column, (low, high) in zip(self.features, series.values.T, self.ranges, strict=True):
            outside = float(((column < low) | (column > high)).mean())
            if outside > OUTSIDE_PART:
                middle = float(np.median(column))
                others = [f for f, (a, b) in zip(self.features, self.ranges, strict=True) if a <= middle <= b]
                hint = f"; they look like {' or '.join(others)}: are columns swapped?" if others else ""
                raise DataError(
                    f"{who}: {outside:.0%} of the readings of {feature} are outside of {low:g} to {high:g}{hint}"
                )


@dataclass(frozen=True)
class Model:
    """A description, and what makes predictions and scores of it."""

    description: Description
    scaling: Scaling
    score: Score
    predictor: Predictor

    def predict(self, windows: Values) -> tuple[Floats, Floats]:
        """Predictions in the units of the sensors, and scores, of windows in the units of the sensors."""
        scaled = self.scaling.scaled(windows)
        predictions = self.predictor.predict(scaled)
        return self.scaling.unscaled(predictions), self.score(scaled, predictions)

    def save(self, folder: Path) -> None:
        """Writes the model into `folder`, over the one that is there."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {
            **{f"scaling_{name}": array for name, array in asdict(self.scaling).items()},
            **{f"score_{name}": array for name, array in asdict(self.score).items()},
            **{f"weights_{n}": array for n, array in enumerate(self.predictor.weights())},
        }
        weights = folder / WEIGHTS_FILE
        np.savez(weights, allow_pickle=False, **arrays)
        said = {**asdict(self.description), "weights_sha256": sha256(weights.read_bytes())}
        (folder / DESCRIPTION_FILE).write_text(json.dumps(said, indent=2) + "\n")


def load(folder: Path) -> Model:
    """The model that `save` wrote; refuses one that is incomplete or was changed."""
    description_path, weights_path = folder / DESCRIPTION_FILE, folder / WEIGHTS_FILE
    for path in (description_path, weights_path):
        if not path.is_file():
            raise ModelError(f"{path}: is not there; a trained model is {DESCRIPTION_FILE} and {WEIGHTS_FILE}")
    said = read_json(description_path)
    found, wanted = sha256(weights_path.read_bytes()), said.pop("weights_sha256", None)
    if found != wanted:
        raise ModelError(f"{weights_path}: its SHA-256 is {found}, and {wanted} was written; train it again")
    try:
        description = _description(said)
        with np.load(weights_path, allow_pickle=False) as arrays:
            weights = [arrays[f"weights_{n}"] for n in range(sum(name.startswith("weights_") for name in arrays))]
            scaling = Scaling(arrays["scaling_mean"], arrays["scaling_deviation"])
            score = Score(*(arrays[f"score_{field.name}"] for field in fields(Score)))
        trained = predictor(description.kind, len(description.features), description.seed)
        trained.set_weights(weights)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{description_path}: {error}; it is not what `train` writes") from None
    return Model(description, scaling, score, trained)


def _description(said: dict[str, Any]) -> Description:
    said = dict(said)
    if said.get("kind") not in KINDS:
        raise TypeError(f"kind is {said.get('kind')!r}, and is to be one of {', '.join(KINDS)}")
    said["features"] = tuple(said["features"])
    said["ranges"] = tuple((low, high) for low, high in said["ranges"])
    said["data"] = tuple(Data(**data) for data in said["data"])
    return Description(**said)


def read_json(path: Path) -> dict[str, Any]:
    """The object that a file holds."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: {error}; it is not the JSON that was written") from None
    if not isinstance(said, dict):
        raise ModelError(f"{path}: holds no JSON object")
    return said


def sha256(data: bytes) -> str:
    """In lower-case hexadecimal."""
    return hashlib.sha256(data).hexdigest()
