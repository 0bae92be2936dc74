"""From a series to a model, or from a model and a newer series to the next one."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .model import Data, Description, Model, ModelError
from .predictors import WINDOW_READINGS, Kind, Progress, predictor
from .score import Floats, Scaling, Score
from .series import DataError, Series, Values, windows

LEAST_WINDOWS = 300
# Every fifth block of windows is held out: of a twentieth of the data, so that each part of it is in training as well.
BLOCKS = 20
HELD_OUT_EVERY = 5
# A score above this quantile of those of held-out windows is anomalous.
THRESHOLD_QUANTILE = 0.995
# A range is that of training and this part of it to either side.
RANGE_WIDENED_BY = 0.5


@dataclass
class Course:
    """How a training went."""

    training_loss: list[float] = field(default_factory=list)
    held_out_loss: list[float] = field(default_factory=list)
    held_out_scores: Floats = field(default_factory=lambda: np.zeros(0, dtype=np.float32))


@dataclass(frozen=True)
class Order:
    """What is to be trained."""

    kind: Kind
    name: str
    version: str
    seed: int
    epochs: int


def train(
    order: Order, series: Series, data: tuple[Data, ...], start: Model | None, progress: Progress
) -> tuple[Model, Course]:
    """A model of `series`; of `start`, which it goes on from, it has the scaling and the scales of the score."""
    if start is not None:
        _check_continues(order, start, series)
    cut, _ = windows(series, WINDOW_READINGS)
    if len(cut) < LEAST_WINDOWS:
        raise DataError(f"{series.name}: {len(cut)} windows, and at least {LEAST_WINDOWS} are to be there")
    held = held_out(len(cut))
    used = apart(held)
    trained = predictor(order.kind, len(series.features), order.seed)
    if start is not None:
        trained.set_weights(start.predictor.weights())
    scaling = start.scaling if start is not None else Scaling.of(cut[used & ~held])
    training, unseen = scaling.scaled(cut[used & ~held]), scaling.scaled(cut[used & held])
    course = Course()

    def told(epoch: int, epochs: int, loss: float, held_out_loss: float) -> None:
        course.training_loss.append(loss)
        course.held_out_loss.append(held_out_loss)
        progress(epoch, epochs, loss, held_out_loss)

    trained.fit(training, unseen, order.epochs, told)
    score = start.score if start is not None else Score.of(training, trained.predict(training))
    course.held_out_scores = score(unseen, trained.predict(unseen))
    threshold = float(np.quantile(course.held_out_scores, THRESHOLD_QUANTILE))
    before = start.description if start is not None else None
    description = Description(
        name=order.name,
        version=order.version,
        kind=order.kind,
        features=series.features,
        interval_s=series.interval_s,
        threshold=threshold,
        ranges=_ranges(series.values, before),
        seed=order.seed,
        data=((*before.data, *data) if before is not None else data),
        continued_from=f"{before.name}:{before.version}" if before is not None else None,
    )
    return Model(description, scaling, score, trained), course


def held_out(count: int) -> NDArray[np.bool_]:
    """Which of so many windows are held out, in blocks of two windows' length at least."""
    block = max(count // BLOCKS, 2 * WINDOW_READINGS)
    return np.asarray(np.arange(count) // block % HELD_OUT_EVERY == HELD_OUT_EVERY - 1)


def apart(held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which windows share no reading with one of the other part that is before them."""
    used = np.ones(len(held), dtype=np.bool_)
    for change in np.flatnonzero(held[1:] != held[:-1]) + 1:
        used[change : change + WINDOW_READINGS - 1] = False
    return used


def _ranges(values: Values, before: Description | None) -> tuple[tuple[float, float], ...]:
    low, high = values.min(axis=0), values.max(axis=0)
    wider = RANGE_WIDENED_BY * (high - low)
    found = list(zip((low - wider).tolist(), (high + wider).tolist(), strict=True))
    if before is not None:
        found = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(found, before.ranges, strict=True)]
    return tuple(found)


def _check_continues(order: Order, start: Model, series: Series) -> None:
    said = start.description
    if order.kind != said.kind:
        raise ModelError(f"model {said.name}:{said.version} is of kind {said.kind}, and cannot go on as {order.kind}")
    said.check_fits(series)
