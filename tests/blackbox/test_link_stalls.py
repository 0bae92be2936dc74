"""What could hold up a link: a cloud whose log stands still, or that stops, and calls beyond what a shard takes in.

Edges are heard and answered all the same, and know what is.
"""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import wire
from brokers import ENVIRONMENT, Settings
from paho_client import Client
from raw import dial
from raw_edge import RawEdge
from sites import PASSWORD, TELEMETRY, Cloud, Pump, numbers
from test_disk import SMALL_SEGMENTS
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]

# After as much silence an edge gives its connection up.
SILENCE_S = 20
RECEIVE_MAXIMUM = 256
TASKS = 1_024
# Calls beyond a shard's inbox of 1,024 and within what may wait to be told to an edge; all of them within what may wait
# of a tenant.
BURSTS, BURST = 3, 3_000


def on(disk: Path) -> type[Cloud]:
    """A cloud whose data lie on this file system."""

    class OnDisk(Cloud):
        def __init__(self, directory: Path, settings: Settings):
            super().__init__(directory, settings)
            self.data = disk / "data"
            settings.configuration = SMALL_SEGMENTS

    return OnDisk


@contextlib.contextmanager
def frozen(disk: Path) -> Iterator[None]:
    """Whoever writes to the file system waits meanwhile."""
    subprocess.run(["fsfreeze", "--freeze", str(disk)], check=True, timeout=30, env=ENVIRONMENT)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", str(disk)], check=True, timeout=30, env=ENVIRONMENT)


@pytest.mark.machine("ext4")
def test_while_the_clouds_log_stands_still_an_edge_that_sends_a_great_deal_stays_connected_and_is_called(
    site, own_disk
):
    """It has used up its Receive Maximum: signs of life, calls and their results pass all the same."""
    one = site(cloud=on(own_disk))
    one.cloud.run("app", "add", "dash", "--password", PASSWORD)
    pump = Pump(one)
    device = pump.client()
    device.subscribe("devices/pump-7/methods/+/+", qos=0)
    since = one.edge.link()["since_s"]
    with frozen(own_disk):
        began = time.monotonic()
        for number in range(4 * RECEIVE_MAXIMUM):
            device.publish(TELEMETRY, json.dumps({"n": number}), qos=1)
        assert one.edge.ledger()["queued"] > RECEIVE_MAXIMUM
        while time.monotonic() < began + SILENCE_S + 6:
            called = threading.Thread(target=device.answer_call, kwargs={"qos": 0}, daemon=True)
            called.start()
            assert json.loads(one.cloud.run("call", "pump-7", "stop", "7").stdout) == 7
            called.join()
            time.sleep(2)  # The silence that must not be one.
        assert one.edge.link()["is_connected"] and one.edge.link()["since_s"] > SILENCE_S + since
    assert sorted(numbers(one.cloud.has_rows(4 * RECEIVE_MAXIMUM, 60))) == list(range(4 * RECEIVE_MAXIMUM))
    device.disconnect()


@pytest.mark.machine("ext4")
def test_an_edge_that_has_used_up_its_receive_maximum_is_heard_and_one_that_exceeds_it_is_told_so(tmp_path, own_disk):
    """MQTT 3.3.4."""
    cloud = on(own_disk)(tmp_path / "cloud", Settings(anonymous=False))
    cloud.directory.mkdir()
    cloud.start()
    cloud.run("app", "add", "dash", "--password", PASSWORD)
    dash = Client(cloud.port, "dash", user="dash", password=PASSWORD).opened()
    dash.subscribe("devices/pump-7/methods/+/+/result", qos=0)
    edge = RawEdge(cloud)
    assert dict(edge.stream.connack.properties)["receive_maximum"] == RECEIVE_MAXIMUM
    edge.stream.send(edge.batch())
    assert edge.stream.expect(Kind.PUBACK).reason == 0
    with frozen(own_disk):
        edge.stream.send(*(edge.batch() for _ in range(RECEIVE_MAXIMUM)))
        edge.stream.ping()
        dash.publish("devices/pump-7/methods/stop/1", b"now", qos=0)
        token = dict(edge.stream.expect(Kind.PUBLISH).properties)["correlation_data"]
        result = b'{"status": 200, "payload": 7}'
        edge.stream.publish("$link/result", result, properties=[("correlation_data", token)])
        assert dash.receive().payload == result
        edge.stream.send(edge.batch())
        assert edge.stream.verdict() == 0x93
    dash.disconnect()
    cloud.stop()


@pytest.mark.machine("ext4")
def test_an_edge_that_asks_for_more_than_there_is_time_for_is_heard_and_compared_with_later(tmp_path, own_disk):
    cloud = on(own_disk)(tmp_path / "cloud", Settings(anonymous=False))
    cloud.directory.mkdir()
    cloud.start()
    edge = RawEdge(cloud)
    with frozen(own_disk):
        for _ in range(TASKS + 200):
            edge.stream.publish("$link/registry", b'{"registry": "r"}')
        edge.stream.ping()
    answers = 0
    while (told := edge.stream.expect(Kind.PUBLISH, 60)).topic != "$link/parts":
        edge.stream.answer(Kind.PUBACK, told.packet_id)
        answers += 1
    assert TASKS / 2 < answers <= TASKS
    cloud.stop()


@pytest.mark.machine("ext4")
def test_a_cloud_that_stops_acknowledges_what_is_durable_soon_and_tells_its_edges(tmp_path, own_disk):
    cloud = on(own_disk)(tmp_path / "cloud", Settings(anonymous=False))
    cloud.directory.mkdir()
    cloud.start()
    edges = [RawEdge(cloud, f"raw-{number}") for number in range(3)]
    with frozen(own_disk):
        for edge in edges:
            edge.stream.send(edge.batch())
            edge.stream.ping()
        cloud.signal(signal.SIGTERM)
        time.sleep(0.3)  # Less than the second that it waits for its log.
    for edge in edges:
        assert edge.stream.expect(Kind.PUBACK).reason == 0
        assert edge.stream.expect(Kind.DISCONNECT).reason == 0x8B
    cloud.stop()


def test_an_edge_knows_that_its_cloud_was_stopped_and_comes_back(site):
    one = site()
    one.cloud.stop()
    assert "ServerShuttingDown the cloud stops" in one.edge.link()["last_error"]
    one.cloud.start()
    one.edge.is_connected(30)


def test_a_burst_of_more_calls_than_a_shard_takes_in_at_once_holds_up_no_link(site):
    """The edge's link has them from its cloud in one go, with acknowledgements of its messages between them."""
    one = site()
    one.cloud.run("app", "add", "dash", "--password", PASSWORD)
    pump = Pump(one)
    device = pump.client()
    device.subscribe("devices/pump-7/methods/stop/+", qos=0)
    dash = dial(one.cloud.port).open("dash", user="dash", password=PASSWORD.encode())
    for burst in range(BURSTS):
        one.edge.signal(signal.SIGSTOP)
        for number in range(BURST):
            device.paho.publish(TELEMETRY, json.dumps({"n": burst * BURST + number}), qos=0)
        calls = [f"devices/pump-7/methods/nothing/{burst}-{number}" for number in range(BURST)]
        dash.send(*(wire.publish(call, properties=[("message_expiry_interval", 2)]) for call in calls))
        dash.ping()
        one.edge.signal(signal.SIGCONT)
    answering = threading.Thread(target=device.answer_call, kwargs={"qos": 0}, daemon=True)
    answering.start()
    assert json.loads(one.cloud.run("call", "pump-7", "stop", "7").stdout) == 7
    assert sorted(numbers(one.cloud.has_rows(BURSTS * BURST, 60))) == list(range(BURSTS * BURST))
    device.disconnect()
