"""`selvedge up`: a cloud, an edge, devices and an application in one command, which leaves nothing running."""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from brokers import BINARY, ENVIRONMENT, PORTS, selvedge
from paho_client import Client
from raw import PATIENCE_S
from sites import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("up")]


class Up:
    """The command, running."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.ports = {"--mqtt": PORTS.take(), "--cloud-mqtt": PORTS.take(), "--http": PORTS.take()}
        self.data = directory / "state"
        self.said = directory / "said"
        self.process: subprocess.Popen | None = None

    def start(self, *more: str) -> Up:
        """Starts it and waits until it has said what to try."""
        words = [BINARY, "up", "--data", str(self.data)]
        words += [word for flag, port in self.ports.items() for word in (flag, str(port))]
        with self.said.open("wb") as said:
            self.process = subprocess.Popen([*words, *more], stdout=said, stderr=subprocess.STDOUT, env=ENVIRONMENT)
        wait_until(lambda: "Stop with" in self.said.read_text() or self.process.poll() is not None, 2 * PATIENCE_S)
        return self

    def stop(self, how: int = signal.SIGINT) -> int:
        """Ctrl-C; its exit status."""
        self.process.send_signal(how)
        return self.process.wait(2 * PATIENCE_S)

    def tries(self) -> list[list[str]]:
        """The commands that it says to try."""
        lines = self.said.read_text().replace("Try:", "").splitlines()
        return [shlex.split(line)[1:] for line in lines if line.strip().startswith("selvedge ")]

    def left(self) -> list[str]:
        """Command lines of processes that have its directory in them."""
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return [line for line in lines if str(self.data) in line]

    def cloud(self, *words: str) -> subprocess.CompletedProcess:
        """A command at the cloud."""
        return selvedge(*words, "--data", str(self.data / "cloud"))

    def edge(self, *words: str) -> subprocess.CompletedProcess:
        """A command at the edge."""
        return selvedge(*words, "--data", str(self.data / "edge"))


@pytest.fixture
def up(tmp_path):
    """The command, started."""
    made = Up(tmp_path).start()
    yield made
    if made.process.poll() is None:
        made.stop()


def test_what_it_says_to_try_works_as_it_is_printed(up):
    assert len(up.tries()) >= 4, up.said.read_text()
    for words in up.tries():
        selvedge(*words)
    wait_until(lambda: '"interval_s": 5' in up.cloud("twin", "get", "pump-1").stdout.split("reported")[-1])


def test_readings_are_watched_in_the_cloud_and_asked_of_the_edge_as_is_printed(up):
    lines = [line.strip() for line in up.said.read_text().splitlines() if line.strip().startswith("curl ")]
    live, latest = (shlex.split(line) for line in lines)
    said = subprocess.run([*live, "-sS", "--max-time", "5"], capture_output=True, text=True, timeout=30, check=False)
    assert said.stdout.count('"device":"pump-1"') >= 2, said
    said = subprocess.run([*latest, "-sSf"], capture_output=True, text=True, timeout=30, check=True)
    assert json.loads(said.stdout)["streams"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_ends_it_leaves_nothing_running(up, how):
    assert len(up.left()) == 3
    ended = up.stop(how)
    assert ended == (-9 if how == signal.SIGKILL else 0)
    wait_until(lambda: not up.left())


def test_started_again_it_goes_on_with_its_state(up):
    wait_until(lambda: json.loads(up.edge("get", "link", "--output", "json").stdout)["ledgers"][0]["delivered"] > 3)
    up.cloud("twin", "set", "pump-2", '{"interval_s": 0.2}')
    wait_until(lambda: "0.2" in up.edge("twin", "get", "pump-2").stdout.split("reported")[-1])
    before = json.loads(up.edge("get", "link", "--output", "json").stdout)["ledgers"][0]["received"]
    assert up.stop() == 0
    up.start()
    assert json.loads(up.edge("get", "link", "--output", "json").stdout)["ledgers"][0]["received"] >= before
    assert "0.2" in up.cloud("twin", "get", "pump-2").stdout


def test_its_edge_has_joined_as_every_edge_does_once_until_its_cloud_is_another(up):
    """With a certificate for a token, and nothing of its cloud in its configuration."""
    member = up.data / "edge/membership.json"
    credentials = json.loads(up.cloud("edge", "show", "edge-1", "--output", "json").stdout)["credentials"]
    assert credentials and all("certificate" in credential for credential in credentials), credentials
    assert "link" not in (up.data / "edge/edge.toml").read_text()
    first = member.read_text()
    up.stop()
    up.start()
    assert "Stop with" in up.said.read_text() and member.read_text() == first
    up.stop()
    shutil.rmtree(up.data / "cloud")
    up.start()
    assert "Stop with" in up.said.read_text(), up.said.read_text()
    assert json.loads(member.read_text())["authority_pem"] != json.loads(first)["authority_pem"]
    # Somebody else has one of the ports that it joined at.
    up.stop()
    second = member.read_text()
    with socket.create_server(("127.0.0.1", int(json.loads(second)["cloud_url"].rsplit(":", 1)[1]))):
        up.start()
        assert "Stop with" in up.said.read_text(), up.said.read_text()
        assert member.read_text() != second


def test_its_application_has_a_warm_pump_rest_and_tells_the_cloud(up):
    up.cloud("app", "add", "board", "--password", "of the board")
    board = Client(up.ports["--cloud-mqtt"], "board", user="board", password="of the board").opened()
    board.subscribe("apps/cooling/alarms/+")
    up.edge("app", "add", "near", "--password", "of the neighbour")
    near = Client(up.ports["--mqtt"], "near", user="near", password="of the neighbour").opened()
    near.subscribe("devices/+/methods/rest/+/result")
    alarm = board.receive(60)
    assert json.loads(alarm.payload)["celsius"] > 44
    assert json.loads(near.receive(60).payload)["status"] == 200
    for client in (board, near):
        client.disconnect()


def test_a_port_that_is_taken_is_named_and_nothing_is_left(up, tmp_path):
    second = Up(tmp_path / "second")
    second.directory.mkdir()
    second.ports["--mqtt"] = up.ports["--mqtt"]
    second.start()
    assert second.process.wait(PATIENCE_S) == 1
    assert f"127.0.0.1:{up.ports['--mqtt']} is in use" in second.said.read_text()
    wait_until(lambda: not second.left())
    assert up.process.poll() is None
