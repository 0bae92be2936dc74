"""The data sets as they are published, read into a Series each."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np

from .series import DataError, Series

OCCUPANCY_FEATURES = ("Temperature", "Humidity", "Light", "CO2")
LONGEST_HEADER = 10_000
SKAB_FEATURES = (
    "Accelerometer1RMS",
    "Accelerometer2RMS",
    "Current",
    "Pressure",
    "Temperature",
    "Thermocouple",
    "Voltage",
    "Volume Flow RateRMS",
)


def read(path: Path) -> Series:
    """A file of the office or of the water loop, told apart by what its first line has between its columns."""
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline(LONGEST_HEADER)
    return skab(path) if ";" in first else occupancy(path)


def occupancy(path: Path) -> Series:
    """An office, a reading a minute (Candanedo and Feldheim 2016). The header names no column for the row's number."""
    header, rows = _rows(path, ",")
    series = _series(path, ["row", *header], rows, "date", OCCUPANCY_FEATURES, 60.0)
    series.check()
    return series


def skab(path: Path) -> Series:
    """A water loop, a reading a second (Skoltech Anomaly Benchmark); `anomaly-free.csv` has no labels."""
    header, rows = _rows(path, ";")
    series = _series(path, header, rows, "datetime", SKAB_FEATURES, 1.0)
    series.check()
    if "anomaly" not in header:
        return series
    at = header.index("anomaly")
    labels = np.array([_number(path, line, "anomaly", row[at]) != 0 for line, row in rows])
    return replace(series, anomalous=labels)


def nab(path: Path, windows_path: Path, interval_s: float) -> Series:
    """One sensor (Numenta Anomaly Benchmark); anomalous within the windows of `combined_windows.json`.

    An hour of the machine's temperature is there twice, with other readings: of a time, the first is kept.
    """
    header, rows = _rows(path, ",")
    series = _series(path, header, rows, "timestamp", ("value",), interval_s)
    found = [spans for name, spans in json.loads(windows_path.read_text()).items() if Path(name).name == path.name]
    if len(found) != 1:
        raise DataError(f"{windows_path}: {len(found)} entries for {path.name}, and one is to be there")
    latest_before = np.concatenate((series.times[:1] - 1, np.maximum.accumulate(series.times)[:-1]))
    kept = series.times > latest_before
    times = series.times[kept]
    labels = np.zeros(len(times), dtype=np.bool_)
    for start, end in found[0]:
        labels |= (times >= np.datetime64(start)) & (times <= np.datetime64(end))
    series = replace(series, times=times, values=series.values[kept], anomalous=labels)
    series.check()
    return series


def _rows(path: Path, delimiter: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.reader(file, delimiter=delimiter)
        try:
            header = next(reader, None)
            if header is None:
                raise DataError(f"{path}: the file is empty, and its first line is to name the columns")
            return header, [(reader.line_num, row) for row in reader]
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(f"{path}, line {reader.line_num + 1}: {error}; it is to be text in columns") from None


def _series(
    path: Path,
    header: Sequence[str],
    rows: list[tuple[int, list[str]]],
    time: str,
    features: tuple[str, ...],
    interval_s: float,
) -> Series:
    missing = [name for name in (time, *features) if name not in header]
    if missing:
        raise DataError(f"{path}, line 1: no column {missing[0]}; there are {', '.join(header)}")
    for line, row in rows:
        if len(row) != len(header):
            raise DataError(f"{path}, line {line}: {len(row)} columns, and {len(header)} are to be there")
    at = [header.index(name) for name in features]
    times = [_time(path, line, time, row[header.index(time)]) for line, row in rows]
    values = [
        [_number(path, line, name, row[column]) for name, column in zip(features, at, strict=True)]
        for line, row in rows
    ]
    return Series(
        path.name,
        features,
        interval_s,
        np.array(times, dtype="datetime64[ms]"),
        np.array(values, dtype=np.float64).reshape(-1, len(features)),
    )


def _number(path: Path, line: int, column: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"{path}, line {line}, {column}: {text!r} is no number") from None


def _time(path: Path, line: int, column: str, text: str) -> np.datetime64:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is not None:
        raise DataError(f"{path}, line {line}, {column}: {text!r} is no time such as 2015-02-04 17:51:00")
    return np.datetime64(time, "ms")
