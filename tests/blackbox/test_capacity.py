"""`selvedge evaluate capacity` of an edge and its cloud: a thin line, many edges, a cut with crashes, PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import machine
from brokers import BINARY

pytestmark = pytest.mark.contract

# Each as short as it can be and still show something; none of the figures is a result.
SHORT = {
    "thin": ["--thin", "4s"],
    "storm": ["--edges", "8", "--outage", "1s"],
    "cut": ["--cut", "2s"],
    "drain-postgresql": ["--queued", "3000"],
    "drain-far": ["--queued", "40000"],
}


def command(out: Path, part: str, *prefix: str) -> list[str]:
    """The words that measure one part."""
    words = [BINARY, "evaluate", "capacity", "--parts", part, "--blocks", "1", "--seed", "7", "--out", str(out)]
    return [*prefix, *words, "--mosquitto", "/nowhere/mosquitto", *SHORT[part]]


def measure(out: Path, part: str, *prefix: str) -> subprocess.CompletedProcess:
    """Measures one part to its end."""
    return subprocess.run(command(out, part, *prefix), capture_output=True, text=True, timeout=120, check=False)


def figures(out: Path, part: str) -> dict[str, float | None]:
    """What was measured, by name."""
    done = measure(out, part)
    assert done.returncode == 0, done.stderr
    run = json.loads((out / "capacity.json").read_text())["run"]
    found = {sample["figure"]: sample["value"] for sample in run["samples"] if sample["part"] == part}
    assert found, run["skipped"]
    return found


def children(pid: int) -> set[int]:
    """Processes that any of its threads has started, and those that these have."""
    direct: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # One that has ended has none.
            direct += [int(child) for child in thread.read_text().split()]
    return set(direct).union(*(children(child) for child in direct))


@pytest.fixture
def hosts() -> None:
    """Lines of their own take network namespaces."""
    machine.require("namespaces")


def test_a_line_of_8_kbit_per_s_carries_readings_for_most_of_its_bytes_and_a_call_beside_them(tmp_path, hosts):
    """The share over some seconds swings by a batch; that of a minute is what the benchmark is for."""
    found = figures(tmp_path, "thin")
    assert 0.5 < found["thin_payload_share"] < found["thin_up_payload_share"] < 1
    assert 0.5 < found["thin_use"] < 1.5
    assert found["calls_messages"] == 1
    assert found["calls_lost_messages"] == 0
    # What is measured waits for a batch that was under way, and then crosses the line twice.
    assert 60 < found["call_max_ms"] < 5_000


def test_every_edge_comes_back_to_its_cloud_and_one_that_was_not_cut_off_loses_nothing(tmp_path, hosts):
    """Both ways to lose a cloud."""
    found = figures(tmp_path, "storm")
    assert found["line_missing_edges"] == found["cloud_missing_edges"] == found["live_lost_messages"] == 0
    assert 0 < found["line_sync_ms"] < 60_000
    assert 0 < found["cloud_sync_ms"] < 60_000
    assert found["live_p99_us"] > 7_500, "faster than its line"


def test_a_cut_with_crashes_of_both_sides_costs_no_acknowledged_message_and_doubles_none(tmp_path, hosts):
    """Every message is acknowledged, or in doubt at a crash and counted as such."""
    found = figures(tmp_path, "cut")
    assert found["cut_sent_messages"] == 12_000
    assert found["cut_acknowledged_messages"] + found["cut_in_doubt_messages"] == 12_000
    assert found["cut_rows_messages"] == found["cut_acknowledged_messages"] + found["cut_further_messages"]
    assert found["cut_further_messages"] <= found["cut_in_doubt_messages"]
    for nothing in ("lost", "duplicate", "unknown", "unbalanced"):
        assert found[f"cut_{nothing}_messages"] == 0, nothing


def test_a_backlog_goes_into_a_postgresql_that_is_started_for_it_and_is_gone_afterwards(tmp_path):
    """Without a database to be named."""
    if not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")):
        machine.lacking("no PostgreSQL under /usr/lib/postgresql: tools/install.sh system")
    found = figures(tmp_path, "drain-postgresql")
    assert found["drained_per_s"] > 0
    assert found["stored_per_s"] > 0


def test_a_line_of_300_ms_is_kept_full_by_a_backlog(tmp_path, hosts):
    """One that is not carries a few hundred messages a second: a hundredth of what it carries without delay."""
    found = figures(tmp_path, "drain-far")
    assert found["far_drained_per_s"] > found["near_drained_per_s"] / 20


def test_nothing_that_was_started_outlives_a_run_that_is_killed(tmp_path, hosts):
    """`kill -9`, after which nobody can tidy up; Ctrl-C leaves no more."""
    # Its files stay; the path of a socket among them has 108 bytes at most.
    with tempfile.TemporaryDirectory(prefix="killed-") as here:
        ends_with_its_starter(command(tmp_path, "storm"), here)


def ends_with_its_starter(words: list[str], directory: str) -> None:
    """Starts a run, kills it, and waits until nothing is left."""
    environment = os.environ | {"TMPDIR": directory}
    run = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while len(started := children(run.pid)) < 10:
        assert time.monotonic() < deadline and run.poll() is None, started
        time.sleep(0.02)  # A process gives no event when it starts others.
    run.send_signal(signal.SIGKILL)
    run.wait(10)
    deadline = time.monotonic() + 30
    while left := [pid for pid in started if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)  # The kernel tells their end to nobody but their parent.


def test_without_hosts_of_their_own_it_is_said_what_is_lacking_and_the_promise_is_undecided(tmp_path):
    """Who owns nothing has no line to cut."""
    prefix = ("unshare", "--user") if os.geteuid() == 0 else ()
    done = measure(tmp_path, "cut", *prefix)
    if done.stderr.startswith("unshare:"):
        machine.lacking(f"a user namespace: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    words = " ".join(done.stdout.split())
    assert "it takes a line of its own, and hosts of their own cannot be made here" in words
    assert "run as root" in words
    assert "≤ 0 undecided" in words
