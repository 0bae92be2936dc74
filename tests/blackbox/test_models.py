"""`selvedge evaluate rtt --model`: device to cloud, through an edge, and to the edge, each with servers of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import machine
from brokers import BINARY

pytestmark = pytest.mark.contract

# Some messages of each model: enough to see that they come back, too few for a figure.
SHORT = ["--interval", "50ms", "--duration", "500ms", "--blocks", "1", "--seed", "7"]
MODELS = ["--model", "d-c,d-e-c,d-e"]


def evaluate(out: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """Runs `selvedge evaluate rtt` to its end."""
    words = [*prefix, BINARY, "evaluate", "rtt", *arguments, "--out", str(out)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


def raw_files(out: Path) -> list[dict]:
    """What was measured, in the order of the plan."""
    return [json.loads(path.read_text()) for path in sorted(out.glob("rtt-*.json"))]


def round_trips_ms(run: dict) -> dict[str, list[float]]:
    """Answered messages by model."""
    found: dict[str, list[float]] = {}
    for block in run["blocks"]:
        counters, samples = block["counters"], block["samples"]
        assert counters["answered"] == counters["scheduled"] > 0, (run["arms"][block["arm"]]["name"], counters)
        times = zip(samples["sent_ns"], samples["received_ns"], strict=True)
        name = run["arms"][block["arm"]]["name"]
        found.setdefault(name, []).extend((received - sent) / 1e6 for sent, received in times)
    return found


@pytest.fixture
def hosts() -> None:
    """Hosts of their own take network namespaces."""
    machine.require("namespaces")


@pytest.mark.parametrize(
    "extra", [[], ["--tls"], ["--qos", "0"], ["--qos", "2"]], ids=["plain", "tls", "qos-0", "qos-2"]
)
def test_every_message_of_every_model_is_answered_and_none_is_faster_than_its_line(tmp_path, hosts, extra):
    """The delay of the line is a bound that no machine breaks."""
    done = evaluate(tmp_path, *MODELS, *SHORT, "--wan-rtt", "60ms", *extra)
    assert done.returncode == 0, done.stderr
    [run] = raw_files(tmp_path)
    assert not run["skipped"], run["skipped"]
    found = round_trips_ms(run)
    assert set(found) == {"d-c", "d-e-c", "d-e", "d-c-again"}
    for name in ("d-c", "d-e-c", "d-c-again"):
        assert min(found[name]) >= 60, name
    network = run["network"]
    assert network["network"]["plan"]["edge_cloud"]["emulated"]["round_trip_us"] == 60_000
    assert [ns for ns in network["measured"]["round_trips_ns"] if ns], "the line was not measured"


def test_the_messages_of_the_models_cross_the_line_and_those_to_the_edge_do_not(tmp_path, hosts):
    """Bytes on the line, as it counts them."""
    done = evaluate(tmp_path, *MODELS, *SHORT, "--payload", "10k", "--bandwidth", "10mbit")
    assert done.returncode == 0, done.stderr
    [run] = raw_files(tmp_path)
    for block in run["blocks"]:
        payload = 10_000 * block["counters"]["sent"]
        up, _ = block["line"]
        crossed = up["delivered_bytes"] >= payload
        assert crossed == (run["arms"][block["arm"]]["name"] != "d-e"), up


def test_what_was_measured_is_not_measured_again_by_a_run_that_resumes(tmp_path, hosts):
    """Each load has a raw file; the report is of all of them."""
    loads = ["--model", "d-e", *SHORT, "--payload", "64,1k"]
    assert evaluate(tmp_path, *loads).returncode == 0
    first, second = sorted(tmp_path.glob("rtt-*.json"))
    second.unlink()
    kept = first.read_bytes()
    done = evaluate(tmp_path, *loads, "--resume", "--output", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("measured before") == 1
    assert first.read_bytes() == kept
    assert len(list(tmp_path.glob("rtt-*.json"))) == 2
    cells = json.loads(done.stdout)["experiments"][0]["cells"]
    assert [cell["cell"]["payload_bytes"] for cell in cells] == [64, 1_000]


def test_a_run_of_a_model_is_measured_again_from_its_raw_file(tmp_path, hosts):
    """`evaluate replay` sends the same schedule to the same model over the same line."""
    assert evaluate(tmp_path, "--model", "d-c", *SHORT, "--wan-rtt", "5ms").returncode == 0
    [before] = raw_files(tmp_path)
    [path] = tmp_path.glob("rtt-*.json")
    again = tmp_path / "again"
    words = [BINARY, "evaluate", "replay", str(path), "--out", str(again)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    [after] = raw_files(again)
    assert after["schedule_hash"] == before["schedule_hash"]
    assert after["network"]["network"]["plan"] == before["network"]["network"]["plan"]


def test_without_hosts_of_their_own_the_models_are_measured_on_loopback_and_it_is_said(tmp_path):
    """Who owns nothing measures too, and loads that would differ in the line alone are one."""
    prefix = ("unshare", "--user") if os.geteuid() == 0 else ()
    lines = ["--wan-rtt", "5ms,30ms", "--bandwidth", "8kbit,unshaped"]
    done = evaluate(tmp_path, *MODELS, *SHORT, *lines, prefix=prefix)
    if done.stderr.startswith("unshare:"):
        machine.lacking(f"a user namespace: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert "Not varied: hosts of their own cannot be made here" in done.stderr
    [run] = raw_files(tmp_path)
    assert set(round_trips_ms(run)) == {"d-c", "d-e-c", "d-e", "d-c-again"}
    assert run["network"]["network"]["not_varied"]
    assert "wan" not in run["cells"][0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bandwidth", "8kbit"], "--bandwidth is about the network of the models: add --model d-c,d-e-c,d-e"),
        (["--model", "d-x"], "no model `d-x`: d-c, d-e-c, d-e, or d-e-c-disk"),
        (["--model", "d-c", "--bandwidth", "12"], "`12` is no bandwidth: write 8kbit, 10mbit or unshaped"),
        (["--quick", "--preset", "link"], "cannot be used with"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_starts(tmp_path, arguments, words):
    """With the value, and what would be right."""
    done = evaluate(tmp_path / "out", *arguments)
    assert done.returncode != 0
    assert words in done.stderr
    assert not (tmp_path / "out").exists()
