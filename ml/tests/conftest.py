"""An office that was never there, and models of it: small, trained once, used by all tests."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from selvedge_ml.__main__ import main
from selvedge_ml.model import Model, load
from selvedge_ml.predictors import KINDS
from selvedge_ml.series import Series

FEATURES = ("Temperature", "Humidity", "Light", "CO2")


def office(readings: int, seed: int) -> Series:
    """Days and nights with the means, steps and rounding of a real office; the light is off at night."""
    rng = np.random.default_rng(seed)
    minutes = np.arange(readings)
    day = np.clip(np.sin(2 * np.pi * (minutes / 1440 - 0.25)) * 3, 0, 1)
    temperature = 20.5 + 1.5 * day + np.cumsum(rng.normal(0, 0.01, readings))
    humidity = 26 + 3 * np.sin(minutes / 900) + np.cumsum(rng.normal(0, 0.03, readings))
    light = day * (430 + rng.normal(0, 15, readings))
    co2 = 480 + 400 * day + 20 * np.sin(minutes / 40) + rng.normal(0, 3, readings)
    values = np.column_stack((temperature.round(2), humidity.round(2), light.round(1), co2.round(1)))
    times = np.datetime64("2026-02-04T17:51:00", "ms") + minutes * np.timedelta64(60_000, "ms")
    return Series("office", FEATURES, 60.0, times, values)


def write_office(path: Path, series: Series) -> Path:
    """`series` as Occupancy Detection is published."""
    header = ",".join(f'"{name}"' for name in ("date", *FEATURES, "HumidityRatio", "Occupancy"))
    rows = [
        f'"{n + 1}","{str(time.astype("datetime64[s]")).replace("T", " ")}",{",".join(map(str, row))},0.004,1'
        for n, (time, row) in enumerate(zip(series.times, series.values.tolist(), strict=True))
    ]
    path.write_text("\n".join((header, *rows)) + "\n")
    return path


@dataclass(frozen=True)
class Trained:
    """Where `train` and `export` wrote a model to, and the model."""

    folder: Path
    exported: Path
    model: Model


@pytest.fixture(scope="session")
def office_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_office(tmp_path_factory.mktemp("data") / "office.txt", office(1_500, seed=1))


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """JAX, which reads this when it is imported, compiles a network for the session and not for each model."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(tmp_path_factory.mktemp("jax"))
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


@pytest.fixture(scope="session")
def trained(compiled_once: None, tmp_path_factory: pytest.TempPathFactory, office_file: Path) -> dict[str, Trained]:
    """A model of each kind, by the command line."""
    made = {}
    for kind in KINDS:
        folder = tmp_path_factory.mktemp(kind)
        out, exported = str(folder / "trained"), folder / "exported"
        command = ["train", "--kind", kind, "--data", str(office_file), "--seed", "1", "--epochs", "3", "--out", out]
        assert main(command) == 0
        assert main(["export", out, "--out", str(exported)]) == 0
        made[kind] = Trained(folder / "trained", exported, load(folder / "trained"))
    return made
