"""How unlike training a window is: one number a window, so simple that the exported graph computes it too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]

# The variation of a window is that of its last steps: a stuck sensor is to be seen before it has filled a window.
VARIATION_STEPS = 15
# Added to the variation before its logarithm, in deviations: a step that is smaller says nothing.
VARIATION_FLOOR = np.float32(1e-3)
# What a term of the score is divided by is this quantile of it on training windows.
SCALE_QUANTILE = 0.99
# Scales are no smaller than this: of data without any change, each change would be infinitely unlikely.
SCALE_LEAST = 1e-3


@dataclass(frozen=True)
class Scaling:
    """From the units of the sensors to deviations from the mean of training, and back; float32 as in the graph."""

    mean: Floats
    deviation: Floats

    @staticmethod
    def of(windows: NDArray[np.float64]) -> Scaling:
        """That of `windows`, [windows, length, features]."""
        return Scaling(windows.mean(axis=(0, 1)).astype(np.float32), windows.std(axis=(0, 1)).astype(np.float32))

    def scaled(self, values: NDArray[np.float64]) -> Floats:
        """`values`, [..., features], in deviations."""
        return (values.astype(np.float32) - self.mean) / self.deviation

    def unscaled(self, values: Floats) -> Floats:
        """`values`, [..., features], in the units of the sensors."""
        return values * self.deviation + self.mean


@dataclass(frozen=True)
class Score:
    """Sum of two terms, each about 1 at the 99 % quantile of training windows; both are the largest of the features.

    Error: of the window's last reading. Variation: how far the logarithm of the mean absolute step is from its median,
    to either side: a sensor that is stuck varies too little, one that fails too much.
    """

    error_scale: Floats
    variation_median: Floats
    variation_scale: Floats

    @staticmethod
    def of(windows: Floats, predictions: Floats) -> Score:
        """That by which scaled training windows and what was predicted for them are about 1 at most."""
        log = _log_variation(windows)
        median = np.median(log, axis=0).astype(np.float32)
        scale = np.quantile(np.abs(log - median), SCALE_QUANTILE, axis=0)
        error_scale = np.quantile(_last_error(windows, predictions), SCALE_QUANTILE)
        return Score(_no_less(error_scale), median, _no_less(scale))

    def __call__(self, windows: Floats, predictions: Floats) -> Floats:
        """Of scaled windows and predictions, one each."""
        error = _last_error(windows, predictions) / self.error_scale
        variation = np.abs(_log_variation(windows) - self.variation_median) / self.variation_scale
        return np.asarray(error + variation.max(axis=1), dtype=np.float32)


def _no_less(scale: ArrayLike) -> Floats:
    return np.maximum(np.asarray(scale, dtype=np.float32), np.float32(SCALE_LEAST))


def _last_error(windows: Floats, predictions: Floats) -> Floats:
    """Of a forecast [windows, features], or of a reconstruction [windows, length, features] at its last reading."""
    last = predictions if predictions.ndim == 2 else predictions[:, -1]
    return np.asarray(np.abs(last - windows[:, -1]).max(axis=1), dtype=np.float32)


def _log_variation(windows: Floats) -> Floats:
    steps = np.abs(np.diff(windows[:, -VARIATION_STEPS - 1 :], axis=1))
    return np.asarray(np.log(steps.mean(axis=1) + VARIATION_FLOOR), dtype=np.float32)
