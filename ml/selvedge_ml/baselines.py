"""What a model is to be better than: the naive ways to find what is unusual, one score a reading."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .series import Series, Values

EWMA_WEIGHT = 0.2


def z_score(training: Series, series: Series) -> Values:
    """Distance from the mean of training, in its deviations; the largest of the features."""
    return np.asarray(np.abs(_standardised(training, series)).max(axis=1), dtype=np.float64)


def ewma(training: Series, series: Series) -> Values:
    """Distance from the exponentially weighted moving average of the readings before, which starts anew after a gap."""
    standardised = _standardised(training, series)
    scores = np.zeros(len(standardised))
    for run in series.runs():
        average = standardised[run.start]
        for at in range(run.start, run.stop):
            scores[at] = np.abs(standardised[at] - average).max()
            average = average + EWMA_WEIGHT * (standardised[at] - average)
    return scores


def _standardised(training: Series, series: Series) -> Values:
    return np.asarray((series.values - training.values.mean(axis=0)) / training.values.std(axis=0), dtype=np.float64)


BASELINES: dict[str, Callable[[Series, Series], Values]] = {"z-score": z_score, "EWMA": ewma}
