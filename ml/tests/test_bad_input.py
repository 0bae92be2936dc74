"""What cannot be right is refused, with where it is, what it is and what would be right; the command ends with 2."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import FEATURES, Trained, office, write_office

from selvedge_ml.__main__ import main
from selvedge_ml.series import DataError, Series

NAN_ROW = 700


def refused(capsys: pytest.CaptureFixture[str], *command: object) -> str:
    """What the command says where it ends with 2."""
    capsys.readouterr()
    assert main([str(part) for part in command]) == 2
    return capsys.readouterr().err


def changed(series: Series, column: int, value: object) -> Series:
    values = series.values.astype(object)
    values[NAN_ROW, column] = value
    return replace(series, values=values)


def with_gaps(series: Series) -> Series:
    apart = np.arange(len(series.times)) // 25 * np.timedelta64(3_600_000, "ms")
    return replace(series, times=series.times + apart)


def constant(series: Series) -> Series:
    values = series.values.copy()
    values[:, 2] = 400.0
    return replace(series, values=values)


def slower(series: Series) -> Series:
    return replace(series, times=series.times[0] + (series.times - series.times[0]) * 10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (with_gaps, "no 30 readings follow each other without a gap"),
        (lambda s: changed(s, 3, "warm"), "line 702, CO2: 'warm' is no number"),
        (lambda s: changed(s, 0, "nan"), "reading 701, Temperature: nan is no reading"),
        (lambda s: changed(s, 1, "-inf"), "reading 701, Humidity: -inf is no reading"),
        (constant, "Light: all 1500 readings are 400.0"),
        (slower, "readings are 600 s apart, and were to be 60 s apart"),
        (lambda s: replace(s, times=s.times[600:800], values=s.values[600:800]), "171 windows, and at least 300"),
    ],
)
def test_data_that_nothing_is_learnt_from_is_refused(tmp_path: Path, capsys, change, words: str) -> None:
    data = write_office(tmp_path / "office.txt", change(office(1_500, seed=1)))
    said = refused(capsys, "train", "--kind", "regression", "--data", data, "--out", tmp_path / "out")
    assert "office.txt" in said
    assert words in said
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_no_text_is_refused(tmp_path: Path, capsys) -> None:
    (tmp_path / "office.txt").write_bytes(bytes(range(256)))
    said = refused(capsys, "train", "--kind", "regression", "--data", tmp_path / "office.txt", "--out", tmp_path)
    assert "line 1: " in said


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capsys) -> None:
    missing = tmp_path / "office.txt"
    said = refused(capsys, "train", "--kind", "regression", "--data", missing, "--out", tmp_path)
    assert f"No such file or directory: '{missing}'" in said


def test_columns_that_are_swapped_do_not_fit_the_model(tmp_path: Path, capsys, trained: dict[str, Trained]) -> None:
    swapped = office(1_500, seed=2)
    data = write_office(tmp_path / "office.txt", replace(swapped, values=swapped.values[:, [3, 1, 2, 0]]))
    said = refused(capsys, *continued(trained, "regression", data, tmp_path))
    assert "office.txt does not fit model office-climate:1: 100% of the readings of Temperature are outside" in said
    assert "look like Light or CO2: are columns swapped?" in said


def test_a_dropout_of_a_sensor_still_fits_the_model(trained: dict[str, Trained]) -> None:
    dropped = office(1_500, seed=2)
    dropped.values[400:700, 0] = 0.0
    trained["regression"].model.description.check_fits(dropped)


def test_a_model_goes_on_as_its_own_kind_with_its_columns_and_interval(
    tmp_path: Path, capsys, trained: dict[str, Trained], office_file: Path
) -> None:
    said = refused(capsys, *continued(trained, "regression", office_file, tmp_path, start="autoencoder"))
    assert "model office-climate:1 is of kind autoencoder, and cannot go on as regression" in said
    description = trained["regression"].model.description
    series = office(1_500, seed=2)
    with pytest.raises(DataError, match="its readings are 10 s apart, and not 60 s"):
        description.check_fits(replace(series, interval_s=10.0))
    with pytest.raises(DataError, match="its columns are a, b, c, d, and are to be Temperature, "):
        description.check_fits(replace(series, features=("a", "b", "c", "d")))
    assert description.features == FEATURES


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda f: (f / "weights.npz").unlink(), "weights.npz: is not there"),
        (lambda f: (f / "trained.json").unlink(), "trained.json: is not there"),
        (lambda f: cut(f / "weights.npz"), "its SHA-256 is"),
        (lambda f: cut(f / "trained.json"), "it is not the JSON that was written"),
        (lambda f: say(f / "trained.json", kind="forest"), "kind is 'forest', and is to be one of regression"),
        (lambda f: say(f / "trained.json", surprise=1), "surprise"),
        (lambda f: say(f / "trained.json", features=["Temperature"]), "weights are"),
    ],
)
def test_a_model_that_is_not_whole_is_refused(tmp_path: Path, capsys, trained, office_file, harm, words) -> None:
    folder = tmp_path / "harmed"
    shutil.copytree(trained["regression"].folder, folder)
    harm(folder)
    said = refused(capsys, "export", folder, "--out", tmp_path / "out")
    assert str(folder) in said
    assert words in said
    assert not (tmp_path / "out").exists()


def continued(trained: dict[str, Trained], kind: str, data: Path, tmp_path: Path, start: str = "") -> list[object]:
    folder = trained[start or kind].folder
    return ["train", "--kind", kind, "--data", data, "--out", tmp_path / "out", "--from", folder]


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def say(path: Path, **words: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **words}))
