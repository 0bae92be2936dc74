"""How good scores and forecasts are, with intervals over blocks of readings: those that follow each other are alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .series import Values

RESAMPLES = 1_000


@dataclass(frozen=True)
class Estimate:
    """A figure, and its 95 % interval."""

    value: float
    low: float
    high: float


def rmse(error: Values) -> float:
    """Of errors of any shape, in their unit."""
    return float(np.sqrt(np.mean(np.square(error))))


def auc(scores: Values, anomalous: NDArray[np.bool_]) -> float:
    """Chance that an anomalous reading has a higher score than a normal one, ties by half; NaN of one kind alone."""
    positives = int(anomalous.sum())
    negatives = len(anomalous) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    ranks = (last - (count - 1) / 2)[place]
    return float((ranks[anomalous].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def over_blocks(readings: int, block: int, seed: int, figure: Callable[[NDArray[np.int64]], float]) -> Estimate:
    """`figure` of all readings, and its interval by bootstrap of blocks of `block` readings that follow each other."""
    rng = np.random.default_rng(seed)
    blocks = [np.arange(start, min(start + block, readings)) for start in range(0, readings, block)]
    drawn = [
        figure(np.concatenate([blocks[at] for at in rng.integers(len(blocks), size=len(blocks))]))
        for _ in range(RESAMPLES)
    ]
    low, high = np.nanpercentile(drawn, (2.5, 97.5))
    return Estimate(figure(np.arange(readings)), float(low), float(high))
