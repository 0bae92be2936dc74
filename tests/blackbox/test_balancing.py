"""`selvedge evaluate balancing`: a few cells for real, on a site of three edges with their pods."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import machine
from brokers import BINARY, ENVIRONMENT

pytestmark = [pytest.mark.contract, pytest.mark.needs("site")]

# As short as each can be and still show something; none of the figures is a result.
SHORT = ["--blocks", "1", "--seed", "7", "--clients", "4", "--measure-ms", "300", "--warm-up-ms", "200"]
POLICIES = {"round-robin", "random", "local", "least-request", "local-first", "local-first-again"}
PROXIES = {"nginx-round-robin", "nginx-least-connections", "haproxy"}


@pytest.fixture(autouse=True)
def root() -> None:
    """Containers take an edge that runs as root, and proxies that are compared have to be there."""
    if os.geteuid() != 0:
        machine.lacking("root, which runs containers")
    for proxy in ("nginx", "haproxy"):
        if not shutil.which(proxy, path=ENVIRONMENT["PATH"]):
            machine.lacking(proxy)


@pytest.fixture(name="place")
def place_of_a_run():
    """Where a run has its files: a short path, as sockets are among them."""
    with tempfile.TemporaryDirectory(prefix="bl-") as directory:
        yield directory


def command(out: Path, *words: str) -> list[str]:
    """What measures; some cells, where nothing else is said."""
    quick = [] if "--arms" in words else ["--quick"]
    return [BINARY, "evaluate", "balancing", "--out", str(out), *quick, *SHORT, *words]


def measured(out: Path, place: str, *words: str) -> tuple[dict, str]:
    """What was seen, and what was printed of it."""
    environment = {**ENVIRONMENT, "TMPDIR": place}
    done = subprocess.run(
        command(out, *words), capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    run = json.loads((out / "balancing.json").read_text())
    # But for where the files are, which is as long as the test's own name.
    assert max(len(line) for line in done.stdout.splitlines() if str(out) not in line) <= 100
    return run, done.stdout


def of_arm(run: dict, part: str) -> dict[str, dict]:
    """What the clients of the first node saw in a cell of a part, by arm."""
    return {
        one["job"]["arm"]: one["seen"][0]
        for one in run["done"]
        if one["job"]["cell"]["part"] == part and one["job"]["cell"]["pods"] == [4, 4, 4]
    }


def naming(place: str) -> list[str]:
    """Processes whose arguments have a place in them."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place in (words := file.read_text(errors="replace")):
                found.append(words)
        except OSError:
            pass  # It has just ended.
    return found


def test_every_policy_and_proxy_answers_by_the_pods_that_it_is_to_and_nothing_is_left(tmp_path, place):
    run, table = measured(tmp_path, place, "--parts", "delay")
    seen = of_arm(run, "delay")
    assert seen.keys() == POLICIES | PROXIES, run["skipped"]
    for arm, clients in seen.items():
        assert clients["answered"] == len(clients["answers_us"]) > 0, arm
        assert None not in clients["answers_us"], arm
        # Alone or in line, and none of them faster than a pod is.
        assert min(clients["answers_us"]) >= 8_000, arm
        elsewhere = [us for us in clients["answers_us"] if us >= 38_000]
        if arm == "local":
            assert clients["here"] == clients["answered"]
        if arm in ("round-robin", "random", "nginx-round-robin"):
            assert 0 < clients["here"] < clients["answered"] and elsewhere, arm
    assert "4-4-4 pods" in table and "10-1-1 pods" in table
    assert "Measured" in table and "a full run takes" in table
    assert "Measured beside simulated, answers a second" in table
    page = (tmp_path / "report.html").read_text()
    assert "10-1-1 pods, round trip 30 ms" in page
    assert "Local scheduling beats round robin" in page
    assert naming(place) == []


def test_a_run_that_is_ended_leaves_nothing_and_is_gone_on_with(tmp_path, place):
    words = ["--parts", "pods"]
    running = subprocess.Popen(
        command(tmp_path, *words), stderr=subprocess.PIPE, text=True, env={**ENVIRONMENT, "TMPDIR": place}
    )
    raw, deadline = tmp_path / "balancing.json", time.monotonic() + 120
    while not raw.exists():
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)  # A file gives no event when it is there.
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "are gone" in said, said
    assert naming(place) == []
    before = json.loads(raw.read_text())["done"]
    run, _ = measured(tmp_path, place, *words, "--resume")
    assert run["done"][: len(before)] == before and len(run["done"]) > len(before)


def test_what_a_proxy_takes_is_seen_of_those_that_are_asked_for_beside_the_pod_itself(tmp_path, place):
    run, table = measured(tmp_path, place, "--parts", "proxy", "--arms", "direct,local-first,nginx-round-robin")
    for clients in (1, 16):
        cell = [one for one in run["done"] if one["job"]["cell"]["load"] == {"closed": [clients, 0, 0]}]
        seen = {one["job"]["arm"]: one["seen"][0] for one in cell}
        assert seen.keys() == {"direct", "local-first", "nginx-round-robin"}, run["skipped"]
        assert all(one["answered"] > 0 and None not in one["answers_us"] for one in seen.values())
        used = {arm: one["cpu_s"] for arm, one in seen.items()}
        assert used.pop("direct") is None and all(0 < cpu_s < 2 for cpu_s in used.values()), used
    assert "Processor µs of each answer: local-first" in table


def test_pods_are_programs_of_their_nodes_where_that_is_asked_for(tmp_path, place):
    words = ["--parts", "policies", "--arms", "local-first,nginx-round-robin", "--runtime", "process"]
    run, table = measured(tmp_path, place, *words)
    cells = {tuple(one["job"]["cell"]["pods"]) for one in run["done"]}
    assert cells == {(6, 6, 6), (12, 5, 1), (16, 1, 1)}, run["skipped"]
    for one in run["done"]:
        for seen in one["seen"]:
            assert None not in seen["answers_us"] and min(seen["answers_us"]) >= 8_000, one["job"]
    assert "pods of each node: processes, together" in table
    assert naming(place) == []
