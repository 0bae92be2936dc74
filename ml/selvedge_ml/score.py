"""How unlike training a window is: one number a window, so simple that the exported graph computes it too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

# Level and variation are those of a window's last readings: a stuck sensor is to be seen before it has filled a window.
RECENT_READINGS = 16
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
    """Length of a vector of three terms, each the largest of the features and about 1 at the 99 % quantile of training.

    Error: of the prediction at the window's last reading. Level: how far the mean of the recent readings is from that
    of training. Variation: how far the logarithm of their mean absolute step is from its median, to either side, as a
    sensor that is stuck varies too little and one that fails too much.
    """

    error_scale: Floats
    level_scale: Floats
    variation_median: Floats
    variation_scale: Floats

    @staticmethod
    def of(windows: Floats, predictions: Floats) -> Score:
        """That by which scaled training windows, and what was predicted for them, are about 1 at most."""
        log = _log_variation(windows)
        median = np.median(log, axis=0).astype(np.float32)
        return Score(
            _scale(_last_error(windows, predictions)), _scale(_level(windows)), median, _scale(np.abs(log - median))
        )

    def __call__(self, windows: Floats, predictions: Floats) -> Floats:
        """Of scaled windows and predictions, one each."""
        error = _last_error(windows, predictions) / self.error_scale
        return np.asarray(np.sqrt(error * error + self.without_model(windows) ** 2), dtype=np.float32)

    def without_model(self, windows: Floats) -> Floats:
        """Level and variation alone, which take no prediction: what is left is what the model adds."""
        level = (_level(windows) / self.level_scale).max(axis=1)
        variation = (np.abs(_log_variation(windows) - self.variation_median) / self.variation_scale).max(axis=1)
        return np.asarray(np.sqrt(level * level + variation * variation), dtype=np.float32)


def _scale(terms: Floats) -> Floats:
    quantile = np.quantile(terms, SCALE_QUANTILE, axis=0)
    return np.asarray(np.maximum(quantile, SCALE_LEAST), dtype=np.float32)


def _last_error(windows: Floats, predictions: Floats) -> Floats:
    """Of a forecast [windows, features], or of a reconstruction [windows, length, features] at its last reading."""
    last = predictions if predictions.ndim == 2 else predictions[:, -1]
    return np.asarray(np.abs(last - windows[:, -1]).max(axis=1), dtype=np.float32)


def _level(windows: Floats) -> Floats:
    return np.asarray(np.abs(windows[:, -RECENT_READINGS:].mean(axis=1)), dtype=np.float32)


def _log_variation(windows: Floats) -> Floats:
    steps = np.abs(np.diff(windows[:, -RECENT_READINGS:], axis=1))
    return np.asarray(np.log(steps.mean(axis=1) + VARIATION_FLOOR), dtype=np.float32)
