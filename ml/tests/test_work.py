"""What is measured in containers: work that is told by files to go, and leaves a line for each turn."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

PATIENCE_S = 60


def turns(tmp_path: Path, office_file: Path, task: str, least: int) -> list[dict]:
    words = ["work", "--kind", "regression", "--task", task, "--data", office_file, "--directory", tmp_path]
    words += ["--number", "7", "--predictions", "5"]
    working = subprocess.Popen([sys.executable, "-m", "selvedge_ml", *map(str, words)])
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (tmp_path / "ready-7").exists():
            assert working.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        assert not (tmp_path / "turns-7").exists()
        (tmp_path / "go").touch()
        lines: list[str] = []
        while len(lines) < least:
            assert working.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
            if (tmp_path / "turns-7").exists():
                lines = [line for line in (tmp_path / "turns-7").read_text().splitlines(True) if line.endswith("\n")]
    finally:
        working.kill()
        working.wait()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(("task", "values"), [("training", 0), ("prediction", 5)])
def test_turns_follow_each_other_once_it_is_told_to_go(tmp_path, office_file, task, values) -> None:
    all_turns = turns(tmp_path, office_file, task, 3)
    for before, after in zip(all_turns, all_turns[1:], strict=False):
        assert before["began_ns"] < before["ended_ns"] <= after["began_ns"]
    assert all(len(turn["values"]) == values and all(us > 0 for us in turn["values"]) for turn in all_turns)
