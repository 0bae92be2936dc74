"""`selvedge evaluate simulate`: which node would answer, on sites that fit on no machine."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from brokers import BINARY, ENVIRONMENT

pytestmark = [pytest.mark.contract]

POLICIES = {"round-robin", "random", "local", "least-request", "local-first"}


def simulated(out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What was printed."""
    command = [BINARY, "evaluate", "simulate", "--out", str(out), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=ENVIRONMENT)


def cells(out: Path) -> list[dict]:
    """What follows from it."""
    return json.loads((out / "report.json").read_text())["simulations"][0]["cells"]


@pytest.fixture(name="out", scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run, with a seed."""
    out = tmp_path_factory.mktemp("simulated")
    done = simulated(out, "--quick", "--seed", "7", "--nodes", "10,60")
    assert done.returncode == 0, done.stderr
    # But for where the files are, which is as long as the test's own name.
    assert max(len(line) for line in done.stdout.splitlines() if str(out) not in line) <= 100
    (out / "said").write_text(done.stdout)
    return out


def test_every_policy_is_in_every_cell_and_all_are_asked_the_same(out):
    for cell in cells(out):
        assert {row["policy"] for row in cell["rows"]} == POLICIES
    run = json.loads((out / "simulation.json").read_text())
    asked: dict[tuple, set] = {}
    for done in run["done"]:
        key = (json.dumps(done["cell"]), done["unit"])
        asked.setdefault(key, set()).add(done["figures"]["asked_per_s"])
    assert all(len(figures) == 1 for figures in asked.values())


def test_it_says_who_wins_where_and_what_local_first_costs_at_worst(out):
    said = (out / "said").read_text()
    for words in ("Least mean", "Least p99", "Best for sure", "At worst local-first"):
        assert words in said
    page = (out / "report.html").read_text()
    assert "Which node would answer, simulated" in page
    assert "At worst local-first" in page


def test_local_keeps_up_only_while_its_node_can_answer_all_and_local_first_always(out):
    """The map's cells, by what the node is asked of what it can do."""
    for cell in cells(out):
        asked = cell["cell"].get("map")
        if asked is None or asked["load_percent"] == 100:
            continue  # As much as it can do: chance says.
        kept = {row["policy"] for row in cell["rows"] if row["keeps_up"]}
        assert ("local" in kept) == (asked["load_percent"] < 100), asked
        assert "local-first" in kept, asked


def test_the_same_seed_is_the_same_outcome_and_another_is_another(out, tmp_path):
    raw = out / "simulation.json"
    again = subprocess.run(
        [BINARY, "evaluate", "replay", str(raw), "--out", str(tmp_path / "again")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=ENVIRONMENT,
    )
    assert again.returncode == 0, again.stderr
    before = json.loads(raw.read_text())["done"]
    assert json.loads((tmp_path / "again" / "simulation-again.json").read_text())["done"] == before
    other = simulated(tmp_path / "other", "--quick", "--seed", "8", "--parts", "scale", "--nodes", "10")
    assert other.returncode == 0, other.stderr
    of_ten = [done["figures"] for done in before if done["cell"].get("scale", {}).get("nodes") == 10]
    others = [done["figures"] for done in json.loads((tmp_path / "other" / "simulation.json").read_text())["done"]]
    assert of_ten and others and not any(figures in of_ten for figures in others)


def test_what_is_wrong_in_the_readings_of_a_day_is_named(tmp_path):
    readings = tmp_path / "readings.csv"
    readings.write_text("date,Temperature\n2026-01-01 00:00:00,21\n")
    done = simulated(tmp_path / "out", "--quick", "--replay", str(readings))
    assert done.returncode == 1
    assert "readings.csv" in done.stderr
    none = simulated(tmp_path / "out", "--quick", "--replay", str(tmp_path / "none.csv"))
    assert none.returncode == 1
    assert "none.csv" in none.stderr
