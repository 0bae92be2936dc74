"""How good scores are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .series import Values


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
