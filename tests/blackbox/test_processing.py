"""`selvedge evaluate processing`: models that are trained and that predict, for real, in each place."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

import machine
from brokers import BINARY, ENVIRONMENT
from test_balancing import naming

pytestmark = [pytest.mark.contract, pytest.mark.needs("site")]

ML = Path(__file__).parents[2] / "target/ml"
# As short as each can be and still show something; none of the figures is a result.
SHORT = ["--blocks", "1", "--seed", "7", "--measure-s", "1", "--epochs", "1", "--predictions", "5"]


@pytest.fixture(autouse=True)
def root() -> None:
    """Containers take an edge that runs as root, and models a Python that has them."""
    if os.geteuid() != 0:
        machine.lacking("root, which runs containers")
    if not (ML / "bin/python").exists():
        machine.lacking("target/ml (tools/install.sh ml)")


@pytest.fixture(name="place")
def place_of_a_run():
    """Where a run has its files: a short path, as sockets are among them."""
    with tempfile.TemporaryDirectory(prefix="pr-") as directory:
        yield directory


@pytest.fixture(name="data", scope="module")
def readings(tmp_path_factory) -> Path:
    """Half a day of an office that was never there, as Occupancy Detection is published."""
    names = ("date", "Temperature", "Humidity", "Light", "CO2", "HumidityRatio", "Occupancy")
    rows = [",".join(f'"{name}"' for name in names)]
    for minute in range(800):
        wave = abs(minute % 200 - 100)
        time = f"2015-02-04 {6 + minute // 60:02}:{minute % 60:02}:00"
        values = f"{21 + wave / 90:.2f},{27 + minute % 7},{wave * 4 + minute % 5},{480 + wave}"
        rows.append(f'"{minute + 1}","{time}",{values},0.004,1')
    file = tmp_path_factory.mktemp("office") / "office.txt"
    file.write_text("\n".join(rows) + "\n")
    return file


def measure(out: Path, place: str, data: Path, *words: str, ml: Path = ML) -> subprocess.CompletedProcess:
    """What was printed."""
    environment = {**ENVIRONMENT, "TMPDIR": place}
    command = [
        BINARY,
        "evaluate",
        "processing",
        "--out",
        str(out),
        "--data",
        str(data),
        "--ml",
        str(ml),
        *SHORT,
        *words,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=environment)


def test_a_network_predicts_on_the_host_in_a_container_and_with_all_of_the_machine_and_what_it_takes_is_seen(
    tmp_path, place, data
):
    words = ("--models", "autoencoder", "--places", "host,oci,cloud", "--tasks", "prediction")
    done = measure(tmp_path, place, data, *words)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 100
    run = json.loads((tmp_path / "processing.json").read_text())
    assert run["skipped"] == []
    seen = {one["job"]["place"]: one["seen"] for one in run["done"]}
    assert seen.keys() == {"host", "host-again", "oci", "cloud"}
    for name, one in seen.items():
        assert all(len(turn["values"]) == 5 for turn in one["turns"]) and one["turns"], name
        assert one["cold_start_s"] > 0
        # Keras and JAX are in memory, and something is computed.
        assert max(look["memory_bytes"] for look in one["looks"]) > 100_000_000, name
        assert max(look["cpu_share"] for look in one["looks"]) > 0.05, name
    assert "autoencoder, prediction" in done.stdout and "The cloud side is faster" in done.stdout
    assert "What models cost at the edge" in (tmp_path / "report.html").read_text()
    assert naming(place) == []


def test_a_regression_is_trained_by_the_edge_as_a_process_and_in_a_container_of_docker(tmp_path, place, data):
    words = ("--models", "regression", "--places", "process,docker", "--tasks", "training")
    done = measure(tmp_path, place, data, *words)
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "processing.json").read_text())
    assert run["skipped"] == []
    turns = {one["job"]["place"]: one["seen"]["turns"] for one in run["done"]}
    assert turns.keys() == {"process", "docker"} and all(turns.values())
    assert naming(place) == []


def test_a_run_is_gone_on_with_and_what_it_had_is_not_measured_again(tmp_path, place, data):
    words = ("--models", "regression", "--places", "host,process", "--tasks", "training")
    assert measure(tmp_path, place, data, *words).returncode == 0
    file = tmp_path / "processing.json"
    run = json.loads(file.read_text())
    kept, taken = run["done"][:-1], run["done"][-1]
    assert all(len(one["seen"]["turns"]) > 0 for one in run["done"])
    file.write_text(json.dumps(run | {"done": kept}))
    again = measure(tmp_path, place, data, *words, "--resume")
    assert again.returncode == 0, again.stderr
    after = json.loads(file.read_text())["done"]
    assert after[:-1] == kept and after[-1]["job"] == taken["job"] and after[-1]["seen"] != taken["seen"]


def test_readings_that_are_not_there_and_a_python_without_models_are_named_with_what_would_help(tmp_path, place, data):
    missing = measure(tmp_path, place, tmp_path / "none.txt", "--places", "host")
    assert missing.returncode == 1 and "--data" in missing.stderr
    bare = measure(tmp_path, place, data, "--places", "host", ml=tmp_path)
    assert bare.returncode == 1 and "tools/install.sh ml" in bare.stderr, bare.stderr


def test_readings_that_nothing_is_learnt_from_are_said_and_the_run_ends(tmp_path, place):
    bad = tmp_path / "bad.txt"
    bad.write_text('"date","Temperature","Humidity","Light","CO2"\n')
    done = measure(tmp_path, place, bad, "--models", "regression", "--places", "process", "--tasks", "training")
    assert done.returncode == 0, done.stderr
    assert "Not measured: regression, training, process" in " ".join(done.stdout.split())
    assert "there are no readings" in " ".join(done.stdout.split()), done.stdout
