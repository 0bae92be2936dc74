"""Readings of one place, one row a reading, and what makes them fit to learn from."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Times = NDArray[np.datetime64]

# The median step is that which was said but for this part of it; those of the office are 59 and 60 s.
INTERVAL_TOLERANCE = 0.5
# Readings further apart than this do not follow each other; the water loop leaves out one in sixteen.
GAP_INTERVALS = 2.5


class DataError(ValueError):
    """Data that nothing is to be learnt from. Says where, what is there, and what would be right."""


@dataclass(frozen=True)
class Series:
    """Readings in the order of their times.

    `values` is [readings, features] in the units of the source; `anomalous` is [readings], absent where nobody has
    labelled them.
    """

    name: str
    features: tuple[str, ...]
    interval_s: float
    times: Times
    values: Values
    anomalous: NDArray[np.bool_] | None = None

    def check(self) -> None:
        """Refuses what no model can learn from: empty, not finite, constant, out of order."""
        if len(self.values) == 0:
            raise DataError(f"{self.name}: there are no readings")
        bad = np.argwhere(~np.isfinite(self.values))
        if len(bad):
            row, column = bad[0]
            raise DataError(
                f"{self.name}, reading {row + 1}, {self.features[column]}: {self.values[row, column]} is no reading;"
                f" {len(bad)} of {self.values.size} are not finite numbers"
            )
        for column, feature in enumerate(self.features):
            if np.ptp(self.values[:, column]) == 0:
                raise DataError(
                    f"{self.name}, {feature}: all {len(self.values)} readings are {self.values[0, column]};"
                    " nothing can be learnt of a constant"
                )
        steps = np.diff(self.times)
        backwards = np.argwhere(steps <= np.timedelta64(0))
        if len(backwards):
            at = int(backwards[0][0]) + 1
            raise DataError(
                f"{self.name}, reading {at + 1}: {self.times[at]} is not after {self.times[at - 1]};"
                " readings are to be in order"
            )
        if len(steps):
            usual_s = float(np.median(steps / np.timedelta64(1, "ms"))) / 1e3
            if abs(usual_s - self.interval_s) > INTERVAL_TOLERANCE * self.interval_s:
                raise DataError(
                    f"{self.name}: readings are {usual_s:g} s apart, and were to be {self.interval_s:g} s apart"
                )

    def part(self, readings: slice) -> Series:
        """Only these readings."""
        labels = None if self.anomalous is None else self.anomalous[readings]
        return replace(self, times=self.times[readings], values=self.values[readings], anomalous=labels)

    def runs(self) -> list[slice]:
        """Where readings follow each other without a gap, longest possible, in order."""
        if len(self.times) == 0:
            return []
        apart_s = np.diff(self.times) / np.timedelta64(1, "ms") / 1e3
        ends = np.flatnonzero(apart_s > GAP_INTERVALS * self.interval_s) + 1
        edges = [0, *ends.tolist(), len(self.times)]
        return [slice(start, end) for start, end in zip(edges, edges[1:], strict=False)]


def windows(series: Series, length: int) -> tuple[Values, NDArray[np.int64]]:
    """All windows of `length` readings without a gap: [windows, length, features]; and the reading each ends with."""
    parts: list[Values] = []
    ends: list[NDArray[np.int64]] = []
    for run in series.runs():
        values = series.values[run]
        if len(values) < length:
            continue
        view = np.lib.stride_tricks.sliding_window_view(values, length, axis=0)
        parts.append(np.ascontiguousarray(view.transpose(0, 2, 1)))
        ends.append(np.arange(run.start + length - 1, run.stop, dtype=np.int64))
    if not parts:
        raise DataError(f"{series.name}: no {length} readings follow each other without a gap")
    return np.concatenate(parts), np.concatenate(ends)
