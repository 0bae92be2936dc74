"""What an edge keeps of its devices' telemetry, and shows while its cloud is away."""

from __future__ import annotations

import contextlib
import http.client
import json
import sqlite3
import subprocess

import pytest

from brokers import Selvedge, Settings
from http_api import Api
from paho_client import Client
from raw import PATIENCE_S
from sites import PASSWORD, Site, wait_until
from test_live import PATIENCE_OF_RIGHTS_S, watching

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "user")]

OF_DEVICE = "/v1/tenants/default/devices/pump-7/telemetry"

HISTORY = "\n[history]\nenabled = true\n"


def edge_with(directory, history: str) -> Selvedge:
    """An edge without a cloud, with a device and a viewer."""
    directory.mkdir(parents=True, exist_ok=True)
    edge = Selvedge(directory, Settings(anonymous=False, http=True, configuration=history))
    edge.start()
    edge.run("device", "add", "pump-7", "--password", PASSWORD)
    edge.run("user", "add", "default/vera", "--role", "viewer", "--password", PASSWORD)
    return edge


@pytest.fixture
def edge(tmp_path):
    """An edge with a history."""
    made = edge_with(tmp_path, HISTORY)
    yield made
    made.stop()


def viewer(edge: Selvedge) -> Api:
    return Api(edge).log_in("default/vera", PASSWORD)


def pump(edge: Selvedge) -> Client:
    return Client(edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()


def numbers(user: Api) -> list:
    status, said = user.ask("GET", f"{OF_DEVICE}/n?limit=10000")
    assert status == 200, said
    return [point["value"] for point in said["points"]]


def test_telemetry_is_asked_of_the_edge_as_of_the_cloud(edge):
    """Range, buckets, latest: with all that was acknowledged before the question."""
    device, user = pump(edge), viewer(edge)
    for number in range(20):
        device.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
    assert numbers(user) == list(range(20))
    device.publish("devices/pump-7/telemetry/deep/er", b"21.5", qos=1)
    assert Api(edge).basic("pump-7", PASSWORD).ask("POST", "/v1/devices/pump-7/telemetry", {"n": 20})[0] == 204
    _, latest = user.ask("GET", OF_DEVICE)
    assert {name: point["value"] for name, point in latest["streams"].items()} == {"n": 20, "deep/er": 21.5}
    _, said = user.ask("GET", f"{OF_DEVICE}/n?from_ms=0&to_ms=4102444800000&bucket_ms=4102444800000")
    assert [(bucket["count"], bucket["max"]) for bucket in said["buckets"]] == [(21, 20.0)]
    device.disconnect()


def test_a_good_stop_keeps_all_and_a_later_start_goes_on_behind(edge):
    """Though its clock gives no order."""
    for start in range(2):
        device = pump(edge)
        for number in range(5):
            device.publish("devices/pump-7/telemetry", json.dumps({"n": 10 * start + number}), qos=1)
        device.disconnect()
        assert edge.stop() == 0
        edge.start()
    assert numbers(viewer(edge)) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    _, latest = viewer(edge).ask("GET", OF_DEVICE)
    assert latest["streams"]["n"]["value"] == 14


def test_what_comes_in_is_watched_at_the_edge_and_gone_on_with(edge):
    """From the history."""
    device, user = pump(edge), viewer(edge)
    with watching(user, "?device=pump-7") as curl:
        for number in range(3):
            device.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
        events = [curl.next() for _ in range(3)]
        assert [data["value"] for _, _, data in events] == [0, 1, 2]
    device.publish("devices/pump-7/telemetry", b'{"n": 3}', qos=1)
    with watching(user, last=events[0][1]) as curl:
        assert curl.values(3) == [1, 2, 3]
        device.publish("devices/pump-7/telemetry", b'{"n": 4}', qos=1)
        assert curl.values(1) == [4]
    device.disconnect()


def test_an_edge_that_keeps_nothing_shows_what_comes_in_all_the_same(tmp_path):
    """And says of questions where to ask them."""
    edge = edge_with(tmp_path, "")
    try:
        device, user = pump(edge), viewer(edge)
        device.publish("devices/pump-7/telemetry", b'{"n": 0}', qos=1)
        with watching(user) as curl:
            device.publish("devices/pump-7/telemetry", b'{"n": 1, "t": "x"}', qos=1)
            assert curl.values(2) == [1, "x"]
        status, said = user.ask("GET", OF_DEVICE)
        assert status == 404 and "history.enabled" in said["error"]
        assert not (edge.data / "history.db").exists()
        device.disconnect()
    finally:
        edge.stop()


def test_the_edges_history_is_there_while_the_cloud_is_away(tmp_path):
    """And the cloud gets it all when it is back."""
    site = Site(tmp_path)
    try:
        site.edge.stop()
        site.edge.settings.configuration += HISTORY
        site.edge.start()
        site.edge.is_connected()
        site.line.cut()
        device = pump(site.edge)
        for number in range(10):
            device.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
        device.disconnect()
        assert numbers(Control(site.edge)) == list(range(10))
        site.line.mend()
        assert sorted(row[2] for row in site.cloud.has_rows(10, 60)) == list(range(10))
    finally:
        site.close()


class Control:
    """The control socket, asked as `Api` is."""

    def __init__(self, node: Selvedge):
        self.node = node

    def ask(self, method: str, path: str) -> tuple[int, object]:
        words = ["curl", "-sSf", "-X", method, "--unix-socket", str(self.node.data / "control.sock")]
        ran = subprocess.run(
            [*words, f"http://x{path}"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        )
        return 200, json.loads(ran.stdout)


def test_a_history_that_cannot_be_written_holds_up_no_message(edge):
    """It says so, and goes on when it can."""
    device, user = pump(edge), viewer(edge)
    device.publish("devices/pump-7/telemetry", b'{"n": 0}', qos=1)
    assert numbers(user) == [0]
    with contextlib.closing(sqlite3.connect(edge.data / "history.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with watching(user):
            for number in range(1, 50):
                device.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
            # SQLite itself waits for 10 s first.
            wait_until(lambda: "the history of telemetry waits" in edge.log.read_text(), 30)
        other.execute("ROLLBACK")
    wait_until(lambda: numbers(user) == list(range(50)), 30)
    device.disconnect()


def metric(edge: Selvedge, name: str) -> float:
    """A figure of the page of metrics."""
    connection = http.client.HTTPConnection("127.0.0.1", edge.http_port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"selvedge_{name} ")).split()[1])


def test_rows_that_are_too_old_go_and_a_file_stays_within_its_bytes(tmp_path):
    """Oldest first; the latest value of a stream stays, and what comes in goes in meanwhile."""
    edge = edge_with(tmp_path, HISTORY + 'retention = "1h"\nbytes = 16777216\n')
    try:
        device, user = pump(edge), viewer(edge)
        device.publish("devices/pump-7/telemetry", b'{"old": 1}', qos=1)
        _, said = user.ask("GET", f"{OF_DEVICE}/old")
        assert len(said["points"]) == 1
        edge.stop()
        with contextlib.closing(sqlite3.connect(edge.data / "history.db")) as file:
            file.execute("UPDATE telemetry SET stored_at_ms = stored_at_ms - 3700000")
            series = file.execute("SELECT id FROM series").fetchone()[0]
            row = "(?, 0, 0, (SELECT max(stored_at_ms) FROM telemetry) + 3700000, 1, 1, 1, 0, 6, zeroblob(1000))"
            columns = "series, source_time_ms, received_at_ms, stored_at_ms, epoch, sequence, edge, part, kind, body"
            insert = f"INSERT INTO telemetry ({columns}) VALUES {row}"
            file.executemany(insert, [(series,)] * 30_000)
            file.commit()
        edge.start()
        device, user = pump(edge), viewer(edge)
        device.publish("devices/pump-7/telemetry", b'{"new": 2}', qos=1)

        def is_within() -> bool:
            with contextlib.closing(sqlite3.connect(f"file:{edge.data}/history.db?mode=ro", uri=True)) as file:
                used = (
                    file.execute("PRAGMA page_count").fetchone()[0]
                    - file.execute("PRAGMA freelist_count").fetchone()[0]
                )
                return used * 4096 <= 16_777_216

        wait_until(is_within, 30)
        _, said = user.ask("GET", f"{OF_DEVICE}/old?limit=1")
        assert said["points"] == [] or said["points"][0]["value"] is None
        _, latest = user.ask("GET", OF_DEVICE)
        assert {name: point["value"] for name, point in latest["streams"].items()} == {"old": 1, "new": 2}
        assert metric(edge, "history_lost_total") == 0
        device.disconnect()
    finally:
        edge.stop()


def test_a_watcher_of_an_edge_goes_away_and_nothing_is_copied_any_more(tmp_path):
    """Who is not there costs nothing."""
    edge = edge_with(tmp_path, "")
    try:
        device, user = pump(edge), viewer(edge)
        before = edge.descriptors()
        with watching(user) as curl:
            device.publish("devices/pump-7/telemetry", b'{"n": 1}', qos=1)
            assert curl.values(1) == [1]
        wait_until(lambda: edge.descriptors() <= before, PATIENCE_OF_RIGHTS_S)
        device.disconnect()
    finally:
        edge.stop()
