"""The three kinds of models, on scaled windows. Each is its list of weights, which is what is kept and exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, get_args

import numpy as np

from .score import Floats

Kind = Literal["regression", "autoencoder", "lstm-ed"]
KINDS: tuple[Kind, ...] = get_args(Kind)

WINDOW_READINGS = 30
RIDGE_ALPHA = 1.0
EPOCHS: dict[Kind, int] = {"regression": 1, "autoencoder": 40, "lstm-ed": 25}

# Called after each epoch with its number, its number of all, and the loss on training and held-out windows.
Progress = Callable[[int, int, float, float], None]


class Predictor(Protocol):
    """A kind of model. Windows are [windows, WINDOW_READINGS, features], scaled."""

    def fit(self, training: Floats, held_out: Floats, epochs: int, progress: Progress) -> None:
        """Learns from `training`, going on from the weights that are there."""

    def predict(self, windows: Floats) -> Floats:
        """A forecast of the last reading [windows, features], or a reconstruction of the window."""

    def weights(self) -> list[Floats]:
        """What was learnt."""

    def set_weights(self, weights: list[Floats]) -> None:
        """Takes what another of this kind and these features has learnt; ValueError where shapes differ."""


def predictor(kind: Kind, features: int, seed: int) -> Predictor:
    """An untrained one."""
    if kind == "regression":
        return Regression(features)
    from .networks import Network  # takes seconds, which a regression is not to wait for

    return Network(kind, features, seed)


class Regression:
    """Ridge regression of the last step on the differences of the readings before it to the last-but-one reading.

    Going on from weights is a ridge regression of what they leave over: without evidence against them, they stay.
    """

    def __init__(self, features: int) -> None:
        inputs = (WINDOW_READINGS - 2) * features
        self._slopes = np.zeros((inputs, features), dtype=np.float32)
        self._steps = np.zeros(features, dtype=np.float32)

    def fit(self, training: Floats, held_out: Floats, epochs: int, progress: Progress) -> None:
        from sklearn.linear_model import Ridge

        left_over = training[:, -1] - self.predict(training)
        ridge = Ridge(alpha=RIDGE_ALPHA).fit(_differences(training), left_over)
        self._slopes = self._slopes + np.atleast_2d(ridge.coef_).T.astype(np.float32)
        self._steps = self._steps + np.asarray(ridge.intercept_, dtype=np.float32).reshape(-1)
        losses = [float(((w[:, -1] - self.predict(w)) ** 2).mean()) for w in (training, held_out)]
        progress(1, 1, losses[0], losses[1])

    def predict(self, windows: Floats) -> Floats:
        return windows[:, -2] + _differences(windows) @ self._slopes + self._steps

    def weights(self) -> list[Floats]:
        return [self._slopes, self._steps]

    def set_weights(self, weights: list[Floats]) -> None:
        shapes = [array.shape for array in weights]
        wanted = [array.shape for array in self.weights()]
        if shapes != wanted:
            raise ValueError(f"weights are {shapes}, and are to be {wanted}")
        self._slopes, self._steps = weights


def _differences(windows: Floats) -> Floats:
    return (windows[:, :-2] - windows[:, -2:-1]).reshape(len(windows), -1)
