"""What is said of models is what was measured, with an uncertainty that is not too small, or without a verdict."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Trained, office
from test_bad_input import refused

from selvedge_ml import faults
from selvedge_ml.baselines import ewma, z_score
from selvedge_ml.evaluate import DETECTORS, _aucs, _better, _forecast, _scored, _skab, _table
from selvedge_ml.intervals import Case, figures
from selvedge_ml.plots import auc_plot
from selvedge_ml.predictors import KINDS, WINDOW_READINGS
from selvedge_ml.series import Series, windows
from selvedge_ml.sources import SKAB_FEATURES


def mean_of(values: list[np.ndarray]):
    return lambda at, drawn: [float(values[at][drawn].mean())]


def width(values: list[np.ndarray], runs: list[str]) -> float:
    (found,) = figures([Case(run, len(v)) for run, v in zip(runs, values, strict=True)], mean_of(values))
    return found.high - found.low


def test_readings_that_follow_each_other_are_no_independent_samples() -> None:
    rng = np.random.default_rng(1)
    independent = rng.normal(0, 1, 1_000)
    correlated = np.repeat(rng.normal(0, 1, 20), 50)
    assert width([correlated], ["a"]) > 3 * width([independent], ["a"])


def test_series_of_one_run_make_it_no_surer() -> None:
    rng = np.random.default_rng(2)
    levels = rng.normal(0, 1, 8)
    values = [level + rng.normal(0, 0.01, 200) for level in levels]
    runs = [f"run {n}" for n in range(8)]
    assert width(values * 4, runs * 4) == pytest.approx(width(values, runs), rel=0.2)


def test_of_a_few_runs_the_range_is_given() -> None:
    values = [np.full(100, level) for level in (1.0, 2.0, 6.0)]
    (found,) = figures([Case(f"run {n}", 100) for n in range(3)], mean_of(values))
    assert (found.mean, found.low, found.high, found.of) == (3.0, 1.0, 6.0, "range")


def test_naive_scores_are_distances_in_deviations_of_training() -> None:
    times = np.datetime64("2026-01-01", "ms") + np.arange(6) * np.timedelta64(60_000, "ms")
    training = Series("made", ("a",), 60.0, times, np.array([[1.0], [3.0]] * 3))
    later = times.copy()
    later[4:] += np.timedelta64(3_600_000, "ms")
    series = Series("made", ("a",), 60.0, later, np.array([[2.0], [2.0], [7.0], [2.0], [9.0], [9.0]]))
    assert z_score(training, series).tolist() == [0, 0, 5, 0, 7, 7]
    assert ewma(training, series) == pytest.approx([0, 0, 5, 1, 0, 0])


@pytest.fixture(scope="session")
def scored(trained: dict[str, Trained]) -> list:
    """Spikes in five seeds' series of the office, by the models of the session."""
    models = {kind: trained[kind].model for kind in KINDS}
    training, test = office(1_500, seed=1), office(1_000, seed=7)
    return [
        _scored(f"seed {seed}", "spike", models, training, faults.inject(test, "spike", 8, seed), 0)
        for seed in range(5)
    ]


def test_models_are_compared_with_the_better_baseline(scored: list, tmp_path: Path) -> None:
    found = _aucs(scored)
    assert set(found) == set(DETECTORS)
    assert found["regression"].mean > 0.9
    assert found["regression"].low <= found["regression"].mean <= found["regression"].high
    better = _better(scored, found)
    naive = max(("z-score", "EWMA"), key=lambda name: found[name].mean)
    for kind in KINDS:
        assert better[kind]["than"] == naive
        assert better[kind]["mean"] == pytest.approx(found[kind].mean - found[naive].mean)
        low, high = better[kind]["low"], better[kind]["high"]
        assert better[kind]["verdict"] == ("yes" if low > 0 else "no" if high < 0 else "undecided")
    table = _table("Office", {"spike": found, "all": found}, better)
    assert max(len(line) for line in table.splitlines()) <= 100
    assert f"{found['lstm-ed'].mean:.3f}" in table
    auc_plot("Office", {"spike": found, "all": found}, tmp_path / "office.png")
    assert (tmp_path / "office.png").read_bytes().startswith(b"\x89PNG")


def test_two_runs_give_no_verdict(scored: list) -> None:
    better = _better(scored[:2], _aucs(scored[:2]))
    assert {better[kind]["verdict"] for kind in KINDS} == {"too few runs to say"}


def test_a_forecast_is_put_beside_persistence(trained: dict[str, Trained]) -> None:
    cut, _ = windows(office(1_500, seed=8), WINDOW_READINGS)
    found = _forecast(trained["regression"].model, cut)
    assert found["ratio"].mean == pytest.approx(found["regression"].mean / found["persistence"].mean)
    assert found["ratio"].high < 1


def test_a_file_of_the_water_loop_without_enough_normal_readings_is_left_out(tmp_path: Path) -> None:
    header = ";".join(("datetime", *SKAB_FEATURES, "anomaly", "changepoint"))
    for name, first in (("short.csv", 100), ("long.csv", 420)):
        rows = [
            f"2020-03-01 15:{n // 60:02}:{n % 60:02};{';'.join([str(n % 7)] * 8)};{int(n >= first)};0"
            for n in range(600)
        ]
        (tmp_path / name).write_text("\n".join((header, *rows)))
    assert [(series.name, readings) for series, readings in _skab(tmp_path, quick=False)] == [("long.csv", 400)]


def test_data_that_is_not_there_is_named(tmp_path: Path, capsys) -> None:
    said = refused(capsys, "evaluate", "--data", tmp_path, "--out", tmp_path / "out")
    assert f"No such file or directory: '{tmp_path / 'occupancy' / 'datatraining.txt'}'" in said
