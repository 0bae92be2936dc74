"""What is read is what the files say, and what is not fit to learn from is refused by its place."""

from pathlib import Path

import numpy as np
import pytest

from selvedge_ml import faults, metrics, sources
from selvedge_ml.series import DataError, Series, windows

HEADER = '"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'
ROW = '"{n}","2015-02-04 17:{n:02}:00",23.{n:02},27.{n:02},4{n:02},7{n:02},0.004,1\n'


def occupancy(tmp_path: Path, rows: list[str]) -> Series:
    path = tmp_path / "office.txt"
    path.write_text(HEADER + "".join(rows))
    return sources.occupancy(path)


def rows(count: int) -> list[str]:
    return [ROW.format(n=n) for n in range(count)]


def series(values: np.ndarray) -> Series:
    times = np.datetime64("2026-01-01T00:00:00", "ms") + np.arange(len(values)) * np.timedelta64(60_000, "ms")
    return Series("made", tuple(f"f{n}" for n in range(values.shape[1])), 60.0, times, values)


def test_a_row_is_read_by_the_names_of_its_columns(tmp_path: Path) -> None:
    read = occupancy(tmp_path, rows(5))
    assert read.values[3].tolist() == [23.03, 27.03, 403.0, 703.0]
    assert read.features == ("Temperature", "Humidity", "Light", "CO2")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda r: [*r[:2], r[2].replace("23.02", "warm"), *r[3:]], "line 4, Temperature: 'warm' is no number"),
        (lambda r: [*r[:2], r[2].replace("23.02", "nan"), *r[3:]], "reading 3, Temperature: nan is no reading"),
        (lambda r: [*r[:2], r[2].replace("402", "inf"), *r[3:]], "reading 3, Light: inf is no reading"),
        (lambda r: [*r[:2], r[2].replace(",1\n", "\n"), *r[3:]], "line 4: 7 columns, and 8 are to be there"),
        (lambda r: [x.replace(f"4{n:02},", "400,") for n, x in enumerate(r)], "Light: all 5 readings are 400.0"),
        (lambda r: [x.replace("17:", "1") for x in r], "is no time such as"),
        (lambda r: [r[1], r[0], *r[2:]], "reading 2: .* is not after"),
        (
            lambda r: [x.replace("02-04 17:0", "02-0").replace(":00", " 17:00", 1) for x in r[1:]],
            "s apart, and were to be 60 s",
        ),
        (lambda r: [], "there are no readings"),
    ],
)
def test_what_cannot_be_learnt_from_is_refused_by_its_place(tmp_path, change, words) -> None:
    with pytest.raises(DataError, match=words):
        occupancy(tmp_path, change(rows(5)))


def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "office.txt"
    path.write_text(HEADER.replace("CO2", "Carbon") + "".join(rows(5)))
    with pytest.raises(DataError, match="no column CO2; there are row, date, Temperature"):
        sources.occupancy(path)


def test_no_window_spans_a_gap() -> None:
    whole = series(np.arange(20.0).reshape(10, 2))
    times = whole.times.copy()
    times[6:] += np.timedelta64(3_600_000, "ms")
    cut, ends = windows(Series(whole.name, whole.features, 60.0, times, whole.values), 3)
    assert ends.tolist() == [2, 3, 4, 5, 8, 9]
    assert cut[4].tolist() == whole.values[6:9].tolist()


def test_labels_of_the_water_loop_are_read_where_they_are(tmp_path: Path) -> None:
    path = tmp_path / "loop.csv"
    names = ";".join(("datetime", *sources.SKAB_FEATURES))
    lines = [f"2020-03-01 15:44:{n:02};" + ";".join(f"{n}.{m}" for m in range(8)) for n in range(4)]
    path.write_text("\n".join((names, *lines)))
    assert sources.skab(path).anomalous is None
    labelled = [f"{line};{label};0.0" for line, label in zip(lines, ("0.0", "1.0", "1.0", "0.0"), strict=True)]
    path.write_text("\n".join((f"{names};anomaly;changepoint", *labelled)))
    read = sources.skab(path)
    assert read.values[2].tolist() == [2.0, 2.1, 2.2, 2.3, 2.4, 2.5, 2.6, 2.7]
    assert read.anomalous is not None
    assert read.anomalous.tolist() == [False, True, True, False]


def test_of_a_time_that_comes_twice_the_first_reading_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "machine.csv"
    minutes = (0, 5, 10, 5, 10, 15, 20)
    path.write_text("timestamp,value\n" + "".join(f"2014-01-07 02:{m:02}:00,{70 + n}\n" for n, m in enumerate(minutes)))
    spans = tmp_path / "combined_windows.json"
    spans.write_text('{"known/machine.csv": [["2014-01-07 02:10:00.000000", "2014-01-07 02:15:00.000000"]]}')
    read = sources.nab(path, spans, 300.0)
    assert read.values[:, 0].tolist() == [70, 71, 72, 75, 76]
    assert read.anomalous is not None
    assert read.anomalous.tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("kind", faults.KINDS)
def test_a_fault_changes_what_is_labelled_and_nothing_else(kind: faults.Kind) -> None:
    whole = series(np.random.default_rng(1).normal(20, 1, size=(2_000, 3)))
    faulty = faults.inject(whole, kind, 8, seed=2)
    assert faulty.anomalous is not None
    changed = (faulty.values != whole.values).any(axis=1)
    assert (changed == faulty.anomalous).all()
    assert np.count_nonzero(np.diff(changed.astype(int)) == 1) == 8
    assert (faulty.values == faults.inject(whole, kind, 8, seed=2).values).all()


def test_auc_counts_ties_by_half_and_order_alone() -> None:
    labels = np.array([False, False, True, True])
    assert metrics.auc(np.array([1.0, 2.0, 3.0, 4.0]), labels) == 1.0
    assert metrics.auc(np.array([4.0, 3.0, 2.0, 1.0]), labels) == 0.0
    assert metrics.auc(np.array([1.0, 1.0, 1.0, 1.0]), labels) == 0.5
    assert metrics.auc(np.array([1.0, 3.0, 2.0, 4.0]), labels) == 0.75
