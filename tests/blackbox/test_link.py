"""An edge and its cloud: what devices say is in the database once, whatever breaks between."""

from __future__ import annotations

import json
import threading
import time

import pytest

from brokers import Settings
from paho_client import Client
from raw import PATIENCE_S
from sites import PASSWORD, TELEMETRY, Edge, Pump, numbers, wait_until
from test_operation import get

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]


def test_what_a_device_says_is_in_the_database_once_and_both_sides_know(site):
    one = site()
    Pump(one).send(100)
    assert numbers(one.cloud.has_rows(100)) == list(range(100))
    wait_until(lambda: one.edge.ledger()["queued"] == 0)
    ledger = one.edge.ledger()
    assert (ledger["received"], ledger["delivered"], ledger["dropped"], ledger["bytes"]) == (100, 100, {}, 0)
    arrival, there = one.cloud.arrivals(), one.cloud.edges()[0]["ledgers"][0]
    assert (arrival["taken"], arrival["forbidden"], arrival["sent_again"], arrival["returned"]) == (100, 0, 0, 0)
    wait_until(lambda: one.cloud.edges()[0]["ledgers"][0]["delivered"] == 100)
    assert (there["tenant"], there["route"], there["edge"]) == ("default", "telemetry", "hall-1")


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_an_application_in_the_cloud_gets_what_a_device_behind_an_edge_says(site, qos):
    one = site()
    one.cloud.run("app", "add", "dash", "--password", PASSWORD)
    dash = Client(one.cloud.port, "dash", user="dash", password=PASSWORD).opened()
    dash.subscribe("devices/+/telemetry/#")
    pump = Pump(one).client()
    pump.publish(f"{TELEMETRY}/vib", b"\x00\xff any bytes", qos=qos, ContentType="x/y", UserProperty=("hall", "1"))
    got = dash.receive()
    assert (got.topic, got.payload, got.qos) == (f"{TELEMETRY}/vib", b"\x00\xff any bytes", qos)
    assert (got.properties.ContentType, got.properties.UserProperty) == ("x/y", [("hall", "1")])
    for client in (dash, pump):
        client.disconnect()


@pytest.mark.parametrize("order", ["live-first", "in-order"])
def test_a_cloud_that_was_away_gets_all_that_was_said_meanwhile(site, order):
    one = site(order=order)
    pump = Pump(one)
    pump.send(50)
    one.cloud.has_rows(50)
    one.cloud.kill()
    pump.send(500)
    assert one.edge.ledger()["queued"] == 500
    one.cloud.start()
    rows = one.cloud.has_rows(550, 60)
    assert sorted(numbers(rows)) == list(range(550))
    if order == "in-order":
        assert numbers(rows) == list(range(550))
    wait_until(lambda: one.edge.ledger()["delivered"] == 550)


def test_what_an_edge_keeps_for_its_cloud_outlasts_a_kill(site):
    one = site()
    one.cloud.kill()
    pump = Pump(one)
    pump.send(300)
    one.edge.kill()
    one.edge.start()
    assert one.edge.ledger()["queued"] == 300
    pump.send(100)
    one.cloud.start()
    assert sorted(numbers(one.cloud.has_rows(400, 60))) == list(range(400))


def test_a_line_that_falls_silent_is_found_broken_and_nothing_is_lost_or_doubled(site):
    one = site()
    pump = Pump(one)
    pump.send(20)
    one.line.cut()
    pump.send(200)
    time.sleep(1)
    one.line.mend()
    pump.send(20)
    assert sorted(numbers(one.cloud.has_rows(240, 60))) == list(range(240))


def test_a_call_from_the_cloud_reaches_a_device_behind_an_edge_or_says_which_part_was_away(site):
    one = site()
    pump = Pump(one)
    pump.send(1)
    wait_until(lambda: "pump-7" in one.cloud.run("device", "list").stdout)
    away = one.cloud.run("call", "pump-7", "stop", check=False)
    assert "pump-7 is not connected" in away.stderr
    client = pump.client()
    client.subscribe("devices/pump-7/methods/+/+")

    device = threading.Thread(target=client.answer_call)
    device.start()
    said = one.cloud.run("call", "pump-7", "stop", '{"reason": "dry"}')
    device.join(PATIENCE_S)
    assert json.loads(said.stdout) == {"reason": "dry"}
    client.disconnect()
    one.edge.stop()
    gone = one.cloud.run("call", "pump-7", "stop", check=False)
    assert "pump-7 is behind the edge hall-1, which is not connected" in gone.stderr


def test_at_its_bound_the_oldest_go_and_are_counted_and_local_delivery_goes_on(site):
    one = site(limit_bytes=2 << 20)
    one.cloud.kill()
    one.edge.run("app", "add", "near", "--password", PASSWORD)
    near = Client(one.edge.port, "near", user="near", password=PASSWORD).opened()
    near.subscribe(f"{TELEMETRY}/big", qos=0)
    client = Pump(one).client()
    for number in range(200):
        client.publish(f"{TELEMETRY}/big", b"%06d" % number + bytes(32_000), qos=1)
    assert [int(payload[:6]) for payload in near.payloads(200)] == list(range(200))
    ledger = one.edge.ledger()
    assert ledger["received"] == 200 and ledger["dropped"]["full"] > 100 and ledger["bytes"] <= 2 << 20
    one.cloud.start()
    wait_until(lambda: one.edge.ledger()["queued"] == 0, 60)
    assert one.edge.ledger()["delivered"] == 200 - one.edge.ledger()["dropped"]["full"]
    for one_of_them in (near, client):
        one_of_them.disconnect()


def test_a_copy_of_an_edge_is_told_that_its_name_is_taken(site, tmp_path):
    one = site()
    copy = Edge(tmp_path / "copy", Settings(anonymous=False))
    copy.directory.mkdir()
    copy.settings.configuration = one.edge.settings.configuration
    copy.start()
    try:
        wait_until(lambda: copy.link()["last_error"])
        assert 'an edge "hall-1" is connected already' in copy.link()["last_error"]
        assert one.edge.link()["is_connected"]
    finally:
        copy.stop()


def test_an_edge_speaks_for_no_other_tenant_than_it_was_let(site):
    one = site()
    one.edge.run("device", "add", "pump-8", "--tenant", "plant-b", "--password", PASSWORD)
    client = Client(one.edge.port, "pump-8", user="plant-b/pump-8", password=PASSWORD).opened()
    client.publish("devices/pump-8/telemetry", b'{"n": 1}')
    wait_until(lambda: any(ledger["tenant"] == "plant-b" for ledger in one.edge.link()["ledgers"]))
    wait_until(lambda: one.edge.ledger(tenant="plant-b")["dropped"] == {"refused": 1})
    assert one.cloud.rows() == []
    assert "selvedge_edge_messages_foreign_total 1\n" in get(one.cloud, "/metrics")[1]
    one.cloud.run("tenant", "add", "plant-b")
    one.cloud.run("edge", "label", "hall-1", "tenants=plant-b")
    one.line.hang_up()
    one.edge.is_connected()
    client.publish("devices/pump-8/telemetry", b'{"n": 2}')
    assert numbers(one.cloud.has_rows(1)) == [2]
    client.disconnect()


def test_an_edge_whose_credential_is_revoked_is_cut_off(site):
    one = site()
    one.cloud.run("edge", "disable", "hall-1")
    wait_until(lambda: not one.edge.link()["is_connected"])
    assert "NotAuthorized" in one.edge.link()["last_error"]
    one.cloud.run("edge", "enable", "hall-1")
    one.edge.is_connected(60)


def test_a_message_that_fills_the_largest_packet_gets_through_and_holds_up_nobody(site):
    """A packet of the edge's doors, 1 MiB; in a batch it takes a little more."""
    one = site()
    client = Pump(one).client()
    client.publish(f"{TELEMETRY}/big", bytes((1 << 20) - 200))
    client.publish(TELEMETRY, b'{"n": 1}')
    assert len(one.cloud.has_rows(2)) == 2
    wait_until(lambda: one.edge.ledger()["delivered"] == 2)
    client.disconnect()
