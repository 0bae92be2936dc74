"""Autoencoder and LSTM encoder-decoder by Keras on JAX; both reconstruct the window."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .predictors import WINDOW_READINGS, Kind, Progress
from .score import Floats

# Keras takes its backend from here when it is imported, and else from a file of the user's home.
os.environ["KERAS_BACKEND"] = "jax"
import keras  # noqa: E402

DENSE_UNITS = (64, 16, 64)
LSTM_UNITS = 32
BATCH = 64
PREDICT_BATCH = 4096


class Network:
    """A Keras model and what it is asked for."""

    def __init__(self, kind: Kind, features: int, seed: int) -> None:
        keras.utils.set_random_seed(seed)
        self.keras = _autoencoder(features) if kind == "autoencoder" else _lstm_encoder_decoder(features)
        self.keras.compile(optimizer="adam", loss="mse")

    def fit(self, training: Floats, held_out: Floats, epochs: int, progress: Progress) -> None:
        def told(epoch: int, logs: dict[str, float]) -> None:
            progress(epoch + 1, epochs, logs["loss"], logs["val_loss"])

        self.keras.fit(
            training,
            training,
            epochs=epochs,
            batch_size=BATCH,
            validation_data=(held_out, held_out),
            validation_batch_size=PREDICT_BATCH,
            verbose=0,
            callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=told)],
        )

    def predict(self, windows: Floats) -> Floats:
        return np.asarray(self.keras.predict(windows, batch_size=PREDICT_BATCH, verbose=0), dtype=np.float32)

    def weights(self) -> list[Floats]:
        return [np.asarray(array, dtype=np.float32) for array in self.keras.get_weights()]

    def set_weights(self, weights: list[Floats]) -> None:
        self.keras.set_weights(weights)


def _autoencoder(features: int) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((WINDOW_READINGS, features)),
            layers.Flatten(),
            *(layers.Dense(units, activation="relu") for units in DENSE_UNITS),
            layers.Dense(WINDOW_READINGS * features),
            layers.Reshape((WINDOW_READINGS, features)),
        ]
    )


def _lstm_encoder_decoder(features: int) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((WINDOW_READINGS, features)),
            layers.LSTM(LSTM_UNITS),
            layers.RepeatVector(WINDOW_READINGS),
            layers.LSTM(LSTM_UNITS, return_sequences=True),
            layers.Dense(features),
        ]
    )
