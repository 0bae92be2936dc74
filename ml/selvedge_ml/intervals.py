"""How sure a figure is: bootstrap over runs, and over blocks within them, as readings of a run are correlated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

BLOCKS = 20
DRAWS = 500
# With so few runs there is no interval of them, and what is given is their range.
RUNS_FOR_A_RANGE = 4

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Case:
    """One series of `length` windows. Cases of one `run` (a seed, a file) are not independent and drawn together."""

    run: str
    length: int


@dataclass(frozen=True)
class Figure:
    """A mean with its 95 % interval, or with the range of the runs."""

    mean: float
    low: float
    high: float
    of: Literal["interval", "range"]


def figures(cases: list[Case], statistic: Callable[[int, Indices], list[float]], draws: int = DRAWS) -> list[Figure]:
    """Of each of what `statistic` makes of a case's number and which of its windows are drawn, the mean of the runs.

    All figures of a draw are of the same windows: a difference is to be one of `statistic`'s.
    """
    rng = np.random.default_rng(0)
    runs: dict[str, list[int]] = {}
    for at, case in enumerate(cases):
        runs.setdefault(case.run, []).append(at)
    whole = [statistic(at, np.arange(case.length)) for at, case in enumerate(cases)]
    by_run = np.array([np.nanmean([whole[at] for at in members], axis=0) for members in runs.values()])
    mean = by_run.mean(axis=0)
    if 1 < len(runs) <= RUNS_FOR_A_RANGE:
        low, high = by_run.min(axis=0), by_run.max(axis=0)
        return [Figure(float(m), float(a), float(b), "range") for m, a, b in zip(mean, low, high, strict=True)]
    drawn = []
    for _ in range(draws):
        chosen = rng.choice(len(runs), len(runs))
        members = [at for run in chosen for at in list(runs.values())[run]]
        drawn.append(np.nanmean([statistic(at, _blocks(cases[at].length, rng)) for at in members], axis=0))
    low, high = np.nanquantile(drawn, (0.025, 0.975), axis=0)
    return [Figure(float(m), float(a), float(b), "interval") for m, a, b in zip(mean, low, high, strict=True)]


def _blocks(length: int, rng: np.random.Generator) -> Indices:
    block = max(length // BLOCKS, 1)
    starts = rng.integers(0, length - block + 1, size=-(-length // block))
    return (starts[:, None] + np.arange(block)).ravel()[:length]
