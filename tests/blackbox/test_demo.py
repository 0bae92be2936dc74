"""`make demo`: shows `selvedge up` at work, then measures; ends with the measured table and the report."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import pytest

from brokers import BINARY, ENVIRONMENT, ROOT
from raw import PATIENCE_S

pytestmark = [pytest.mark.contract, pytest.mark.needs("up")]


def demo(directory: Path, program: str = BINARY) -> subprocess.CompletedProcess:
    """What `make demo` does before it measures."""
    words = [ROOT / "tools/demo.sh", program, "up"]
    return subprocess.run(
        words, cwd=directory, env=ENVIRONMENT, capture_output=True, text=True, timeout=4 * PATIENCE_S, check=False
    )


def left(directory: Path) -> list[str]:
    """Command lines of processes that run there."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink() == directory:
                found.append((process / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_the_demo_shows_readings_a_call_and_a_twin_across_the_link_and_leaves_nothing_running(tmp_path):
    done = demo(tmp_path)
    assert done.returncode == 0, done
    for pump in (1, 2, 3):
        assert len(re.findall(rf"^pump-{pump}   [\d.]+ °C   message \d+ of edge-1$", done.stdout, re.MULTILINE)) >= 2
    assert '"times": 3' in done.stdout.split("$ ")[1]
    assert '"reported": {\n    "$version": 1,\n    "interval_s": 0.5' in done.stdout
    received, delivered, queued = re.search(r"default/telemetry +(\d+) +(\d+) +(\d+)", done.stdout).groups()
    assert int(received) == int(delivered) + int(queued) >= 9
    assert re.search(r"^edge-1 +connected", done.stdout, re.MULTILINE)
    assert not left(tmp_path)


def test_a_demo_that_does_not_come_up_fails_with_the_reason(tmp_path):
    """Somebody has the port that it takes."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = tmp_path / "selvedge"
        program.write_text(f'#!/bin/sh\nexec "{BINARY}" up --data "$3" --mqtt {port}\n')
        program.chmod(0o755)
        done = demo(tmp_path, str(program))
    assert done.returncode == 1, done
    assert f"127.0.0.1:{port} is in use" in done.stderr and "did not come up" in done.stderr
    assert not left(tmp_path)


def test_make_demo_starts_up_then_measures_and_ends_with_the_report():
    said = subprocess.run(["make", "-n", "demo"], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True)
    shown, measured = [line for line in said.stdout.splitlines() if "target/fast/selvedge" in line][-2:]
    assert shown.startswith("tools/demo.sh target/fast/selvedge ")
    assert "evaluate rtt --preset demo-models" in measured and "--out target/demo" in measured
