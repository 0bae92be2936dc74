"""Faults of sensors, injected where data has no labels: which reading is wrong is then known."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from .series import Series

Kind = Literal["stuck", "drift", "spike", "offset", "dropout"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# How large a fault is, in standard deviations of what the sensor says without one.
SIZE_DEVIATIONS = 2.0
LENGTH_READINGS = (10, 60)


def inject(series: Series, kind: Kind, faults: int, seed: int) -> Series:
    """`series` with `faults` faults of one kind, each at one sensor and apart from the others.

    Labelled is what says something else than it would have: a light that is off at night cannot drop out.

    Stuck: the reading before it, again and again. Drift: rises or falls to SIZE_DEVIATIONS by its end.
    Spike: one reading, off by that much. Offset: all off by that much. Dropout: zero, as a sensor without power says.
    """
    rng = np.random.default_rng(seed)
    values = series.values.copy()
    deviations = series.values.std(axis=0)
    share = len(values) // faults
    shortest, longest = LENGTH_READINGS
    if share < 2 * longest:
        raise ValueError(f"{series.name}: {len(values)} readings are too few for {faults} faults of up to {longest}")
    for fault in range(faults):
        length = 1 if kind == "spike" else int(rng.integers(shortest, longest + 1))
        start = fault * share + int(rng.integers(1, share - length))
        column = int(rng.integers(len(series.features)))
        size = float(rng.choice((-1.0, 1.0))) * SIZE_DEVIATIONS * float(deviations[column])
        at = slice(start, start + length)
        match kind:
            case "stuck":
                values[at, column] = values[start - 1, column]
            case "drift":
                values[at, column] += size * np.arange(1, length + 1) / length
            case "spike" | "offset":
                values[at, column] += size
            case "dropout":
                values[at, column] = 0.0
    return replace(series, values=values, anomalous=(values != series.values).any(axis=1))
