"""`selvedge evaluate interference`: a cell of each kind for real, in containers of an edge, within a board."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import machine
from brokers import BINARY, ENVIRONMENT
from test_balancing import naming

pytestmark = [pytest.mark.contract, pytest.mark.needs("site")]

# As short as each can be and still show something; none of the figures is a result.
SHORT = ["--blocks", "1", "--seed", "7", "--measure-s", "1", "--divisor", "32", "--profile", "fog"]


@pytest.fixture(autouse=True)
def root() -> None:
    """Containers take an edge that runs as root."""
    if os.geteuid() != 0:
        machine.lacking("root, which runs containers")
    if not Path("/usr/sbin/bonnie++").exists():
        machine.lacking("bonnie++")


@pytest.fixture(name="place")
def place_of_a_run():
    """Where a run has its files: a short path, as sockets are among them."""
    with tempfile.TemporaryDirectory(prefix="in-") as directory:
        yield directory


def command(out: Path, *words: str) -> list[str]:
    """What measures."""
    return [BINARY, "evaluate", "interference", "--out", str(out), *SHORT, *words]


def measure(out: Path, place: str, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """What was printed."""
    environment = {**ENVIRONMENT, "TMPDIR": place}
    words = [*prefix, *command(out, *words)]
    return subprocess.run(words, capture_output=True, text=True, timeout=300, check=False, env=environment)


@pytest.mark.parametrize(("runtime", "pair"), [("oci", "S+B"), ("docker", "L+S")])
def test_services_work_beside_each_other_in_every_case_within_the_board_and_nothing_is_left(
    tmp_path, place, runtime, pair
):
    done = measure(tmp_path, place, "--parts", "pairs", "--pairs", pair, "--runtime", runtime)
    assert done.returncode == 0, done.stderr
    assert max(len(line) for line in done.stdout.splitlines() if str(tmp_path) not in line) <= 100
    run = json.loads((tmp_path / "interference.json").read_text())
    assert run["skipped"] == []
    cases = {"Alone": 2, "AloneAgain": 2, "OneContainer": 1, "Unlimited": 1, "Limited": 1}
    seen = [one["job"]["case"] for one in run["done"]]
    assert {case: seen.count(case) for case in seen} == cases
    for one in run["done"]:
        for turns in one["seen"]["services"]:
            assert turns, one["job"]
            assert all(value is None or value > 0 for turn in turns for value in turn["values"]), one["job"]
    assert pair in done.stdout and "What may share the board" in done.stdout
    page = (tmp_path / "report.html").read_text()
    assert "Which services go together on this machine" in page
    assert "64 %" in page and "41 %" in page
    assert "The paper's three questions" in page
    assert naming(place) == []


def test_the_hub_is_asked_beside_each_service_and_what_it_loses_is_counted(tmp_path, place):
    done = measure(tmp_path, place, "--parts", "hub", "--runtime", "oci")
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "interference.json").read_text())
    groups = [json.dumps(one["job"]["group"]) for one in run["done"]]
    beside = [json.dumps({"hub-beside": kind}) for kind in ("linpack", "stream", "bonnie")]
    assert sorted(groups) == sorted(['"hub"'] * 2 + beside * 2), run["skipped"]
    for one in run["done"]:
        # One every 10 ms for a second.
        assert len(one["seen"]["hub"]["responses_us"]) == 100
    assert "The hub, round trip of a device" in done.stdout


def test_a_run_that_is_ended_leaves_nothing_and_is_gone_on_with(tmp_path, place):
    words = ["--parts", "pairs", "--pairs", "L+L", "--case", "1,3", "--runtime", "oci"]
    environment = {**ENVIRONMENT, "TMPDIR": place}
    running = subprocess.Popen(
        ["env", "--default-signal=INT", *command(tmp_path, *words)],
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    raw, deadline = tmp_path / "interference.json", time.monotonic() + 120
    while not raw.exists():
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)  # A file gives no event when it is there.
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "are gone" in said, said
    assert naming(place) == []
    before = json.loads(raw.read_text())["done"]
    assert 0 < len(before) < 3
    again = measure(tmp_path, place, *words, "--resume")
    assert again.returncode == 0, again.stderr
    after = json.loads(raw.read_text())["done"]
    assert after[: len(before)] == before and len(after) == 3
    assert f"of which {len(before)} jobs are done" in again.stderr


@pytest.mark.parametrize(
    ("prefix", "words", "said"),
    [
        (machine.NOBODY, (), "run this as root"),
        (("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /usr/sbin; exec "$@"', "sh"), (), "bonnie++ is not"),
        (
            ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /usr/sbin; exec "$@"', "sh"),
            ("--parts", "pairs", "--pairs", "L+L", "--runtime", "docker"),
            "docker: dockerd is not installed",
        ),
        (
            ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64m none "$TMPDIR"; exec "$@"', "sh"),
            (),
            "name another place by TMPDIR",
        ),
    ],
    ids=["root", "bonnie++", "docker", "disk"],
)
def test_what_is_missing_is_said_before_anything_is_measured(place, prefix, words, said):
    os.chmod(place, 0o777)
    out = Path(place) / "out"
    done = measure(out, place, *words, prefix=prefix)
    assert done.returncode == 1
    assert said in " ".join(done.stderr.split()), done.stderr
    assert not (out / "interference.json").exists()


def test_more_memory_than_there_is_is_refused_with_what_would_help(tmp_path, place):
    # Its own limit of memory stands for a machine that has less.
    small = "Mem"
    hidden = f"sed 's/^{small}Available:.*/{small}Available: 1024 kB/' /proc/meminfo > $TMPDIR/m; "
    hidden += 'mount --bind "$TMPDIR/m" /proc/meminfo; exec "$@"'
    done = measure(tmp_path, place, prefix=("unshare", "--mount", "sh", "-c", hidden, "sh"))
    assert done.returncode == 1
    assert "--divisor" in done.stderr and "free memory" in done.stderr, done.stderr
