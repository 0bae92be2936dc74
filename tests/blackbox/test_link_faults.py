"""Faults between an edge and its cloud that nobody plans: clocks not set, backups, copies, full disks, mute peers."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time

import pytest

from brokers import PORTS, Settings
from clocks import Clock
from paho_client import Client
from sites import PASSWORD, TELEMETRY, Edge, Pump, numbers, wait_until
from test_disk import SMALL_SEGMENTS

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]


@pytest.mark.machine("faketime")
def test_an_edge_whose_clock_says_1970_reaches_its_cloud_and_its_readings_have_the_time_there(site, tmp_path):
    clock = Clock(tmp_path)
    one = site()
    one.edge.stop()
    clock.set(-int(time.time()) + 10)
    one.edge.settings.environment = clock.environment
    one.edge.start()
    one.edge.is_connected()
    pump = Pump(one)
    pump.send(20)
    assert numbers(one.cloud.has_rows(20)) == list(range(20))
    times_ms = [received for (received,) in one.cloud.rows("received_at_ms")]
    assert all(abs(received / 1_000 - time.time()) < 300 for received in times_ms)
    one.cloud.stop()
    pump.send(20)
    clock.set(0)
    one.edge.kill()
    one.edge.start()
    pump.send(20)
    one.cloud.start()
    rows = one.cloud.has_rows(60, 60)
    in_order = sorted((epoch // 2, sequence, int(number)) for epoch, sequence, number in rows)
    assert [number for _, _, number in in_order] == list(range(60)), "sequences go by no clock"


def test_a_cloud_from_yesterdays_backup_takes_what_is_new_and_nothing_twice(site, tmp_path):
    one = site()
    pump = Pump(one)
    pump.send(100)
    one.cloud.has_rows(100)
    one.edge.run("twin", "get", "pump-7")
    one.cloud.stop()
    shutil.copytree(one.cloud.data, tmp_path / "backup", ignore=shutil.ignore_patterns("*.sock"))
    one.cloud.start()
    pump.send(100)
    one.cloud.has_rows(200, 60)
    wait_until(lambda: one.edge.ledger()["queued"] == 0)
    one.cloud.run("twin", "set", "pump-7", '{"speed": 2}')
    wait_until(lambda: '"speed": 2' in one.edge.run("twin", "get", "pump-7").stdout)
    one.cloud.stop()
    pump.send(50)
    shutil.rmtree(one.cloud.data)
    shutil.copytree(tmp_path / "backup", one.cloud.data)
    one.cloud.start()
    rows = numbers(one.cloud.has_rows(150, 60))
    assert sorted(rows) == [*range(100), *range(200, 250)]
    pump.send(10)
    assert len(one.cloud.has_rows(160)) == 160
    wait_until(lambda: '"speed": 2' in one.cloud.run("twin", "get", "pump-7").stdout, 30)
    assert one.edge.ledger()["dropped"] == {}


def test_an_edge_that_was_cloned_with_its_data_directory_makes_no_message_of_either_come_twice_or_get_lost(
    site, tmp_path
):
    one = site()
    pump = Pump(one)
    one.cloud.stop()
    pump.send(100)
    one.edge.stop()
    clone = Edge(tmp_path / "clone", Settings(anonymous=False))
    clone.directory.mkdir()
    shutil.copytree(one.edge.data, clone.data, ignore=shutil.ignore_patterns("*.sock"))
    clone.settings.configuration = one.edge.settings.configuration
    one.cloud.start()
    one.edge.start()
    one.edge.is_connected(60)
    clone.start()
    try:
        wait_until(lambda: "is connected already" in (clone.link()["last_error"] or ""), 60)
        pump.send(20)
        of_clone = Client(clone.port, "pump-7", user="pump-7", password=PASSWORD).opened()
        for number in range(1_000, 1_020):
            of_clone.publish(TELEMETRY, json.dumps({"n": number}))
        of_clone.disconnect()
        one.cloud.has_rows(120, 60)
        one.edge.stop()
        clone.is_connected(90)
        rows = numbers(one.cloud.has_rows(140, 60))
        assert sorted(rows) == [*range(120), *range(1_000, 1_020)]
        wait_until(lambda: clone.ledger()["queued"] == 0)
    finally:
        clone.stop()


@pytest.mark.machine("mount")
def test_a_disk_that_fills_during_a_cut_stops_no_local_delivery_and_loses_nothing_that_was_acknowledged(
    site, small_disk
):
    one = site(data=small_disk / "data", more=SMALL_SEGMENTS, flags=("--shards", "1"))
    one.edge.run("app", "add", "near", "--password", PASSWORD)
    near = Client(one.edge.port, "near", user="near", password=PASSWORD).opened()
    near.subscribe(TELEMETRY, qos=0)
    one.cloud.stop()
    client = Pump(one).client()
    for number in range(1_200):
        client.publish(TELEMETRY, json.dumps({"n": number, "pad": "x" * 32_000}), qos=1)
    assert [json.loads(payload)["n"] for payload in near.payloads(1_200)] == list(range(1_200))
    ledger = one.edge.ledger()
    assert ledger["received"] == 1_200 and ledger["queued"] > 100
    lost = sum(ledger["dropped"].values())
    assert lost > 100 and set(ledger["dropped"]) <= {"full", "log_full"}, ledger
    one.cloud.start()
    wait_until(lambda: one.edge.ledger()["queued"] == 0, 90)
    kept = [number for _, _, number in one.cloud.has_rows(2 * (1_200 - lost), 60) if number is not None]
    assert len(kept) == len(set(kept)) == 1_200 - lost
    client.publish(TELEMETRY, b'{"n": 5000}', qos=1)
    wait_until(lambda: one.edge.ledger()["queued"] == 0)
    assert sum(one.edge.ledger()["dropped"].values()) == lost
    for each in (near, client):
        each.disconnect()


class Mute:
    """A server that accepts connections, reads, and never says a word."""

    def __init__(self) -> None:
        self.port = PORTS.take()
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.accepted: list[socket.socket] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                self.accepted.append(self.listener.accept()[0])
            except OSError:
                return

    def close(self) -> None:
        """Ends it."""
        for each in (self.listener, *self.accepted):
            each.close()


@pytest.mark.parametrize(
    ("scheme", "said"),
    [("mqtt", "the cloud accepts the connection and does not answer"), ("mqtts", "no end of the TLS handshake within")],
)
def test_a_cloud_that_accepts_and_never_answers_is_given_up_and_named_and_devices_notice_nothing(site, scheme, said):
    one = site()
    mute = Mute()
    one.edge.stop()
    configuration = one.edge.settings.configuration
    one.edge.settings.configuration = configuration.replace(
        f"mqtts://127.0.0.1:{one.line.port}", f"{scheme}://127.0.0.1:{mute.port}"
    )
    one.edge.start()
    Pump(one).send(100)
    assert not one.edge.link()["is_connected"]
    wait_until(lambda: said in (one.edge.link()["last_error"] or ""), 40)
    wait_until(lambda: len(mute.accepted) > 1, 40)
    assert one.edge.ledger()["queued"] == 100
    mute.close()
