"""An edge whose cloud is any broker of MQTT 5: Debian's Mosquitto."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from brokers import Mosquitto, Settings
from paho_client import Client
from sites import PASSWORD, TELEMETRY, Edge, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]


class Broker(Mosquitto):
    """Mosquitto, whatever the other tests run against."""

    def command(self) -> list[str]:
        """Debian's own."""
        return ["mosquitto", *super().command()[1:]]


@pytest.fixture
def plant(tmp_path: Path):
    """A broker that lets the edge write telemetry but no alarms, and the edge with a device."""
    rules = tmp_path / "rules"
    rules.write_text("topic read #\ntopic write devices/+/telemetry\n")
    settings = Settings(configuration=f"acl_file {rules}")
    broker, edge = Broker(tmp_path / "broker", settings), Edge(tmp_path / "edge", Settings(anonymous=False))
    for one in (broker, edge):
        one.directory.mkdir()
    edge.settings.configuration = f'[link]\nurl = "mqtt://127.0.0.1:{broker.port}"\nuser_name = "hall-1"\n'
    broker.start()
    edge.start()
    edge.run("device", "add", "pump-7", "--password", PASSWORD)
    edge.is_connected()
    yield broker, edge
    edge.stop()
    broker.stop()


def device(edge: Edge) -> Client:
    """The pump."""
    return Client(edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()


def test_messages_arrive_as_they_are_with_where_they_had_their_place(plant):
    broker, edge = plant
    app = Client(broker.port, "app").opened()
    app.subscribe("devices/#", qos=1)
    pump = device(edge)
    pump.publish(TELEMETRY, b'{"n": 1}', qos=1, ContentType="application/json", UserProperty=("hall", "1"))
    got = app.receive()
    assert (got.topic, got.payload, got.properties.ContentType) == (TELEMETRY, b'{"n": 1}', "application/json")
    said = dict(got.properties.UserProperty)
    assert said["hall"] == "1" and said["selvedge-sequence"] == "0" and int(said["selvedge-epoch"]) > 0
    wait_until(lambda: edge.ledger()["delivered"] == 1)
    for client in (app, pump):
        client.disconnect()


def test_a_message_that_the_broker_refuses_is_counted_and_holds_up_nobody(plant):
    _, edge = plant
    pump = device(edge)
    for number in range(10):
        pump.publish(f"{TELEMETRY}/alarms", b"forbidden", qos=1)
        pump.publish(TELEMETRY, json.dumps({"n": number}), qos=1)
    wait_until(lambda: edge.ledger()["queued"] == 0)
    assert (edge.ledger()["delivered"], edge.ledger()["dropped"]) == (10, {"refused": 10})
    pump.disconnect()


def test_a_message_that_no_packet_of_the_broker_takes_is_dropped_and_counted_and_holds_up_nobody(plant):
    """Its Maximum Packet Size is 1 MiB: with the properties that tell its place, the message is longer."""
    _, edge = plant
    pump = device(edge)
    pump.publish(TELEMETRY, bytes((1 << 20) - 50))
    pump.publish(TELEMETRY, b'{"n": 1}')
    wait_until(lambda: edge.ledger()["queued"] == 0)
    assert (edge.ledger()["delivered"], edge.ledger()["dropped"]) == (1, {"refused": 1})
    pump.disconnect()


def test_a_broker_that_was_away_gets_all_of_it_in_order(plant):
    broker, edge = plant
    broker.stop()
    pump = device(edge)
    for number in range(200):
        pump.publish(TELEMETRY, json.dumps({"n": number}), qos=1)
    pump.disconnect()
    assert edge.ledger()["queued"] == 200
    edge.stop()
    broker.start()
    app = Client(broker.port, "app").opened()
    app.subscribe("devices/#", qos=1)
    edge.start()
    assert [json.loads(payload)["n"] for payload in app.payloads(200)] == list(range(200))
    wait_until(lambda: edge.ledger()["queued"] == 0)
    app.disconnect()


def test_twins_and_calls_stay_at_the_edge_and_work_there(plant):
    _, edge = plant
    pump = device(edge)
    pump.subscribe("devices/pump-7/twin/desired")
    edge.run("twin", "set", "pump-7", '{"speed": 2}')
    assert json.loads(pump.receive().payload)["speed"] == 2
    pump.disconnect()
