"""What became of every message, on both sides of the link: the figures agree, and balance at every look."""

from __future__ import annotations

import json
import random
import threading
import time

import pytest

from brokers import Settings
from paho_client import Client
from raw_edge import RawEdge
from sites import PASSWORD, Cloud, Pump, Site, wait_until
from test_link_bounds import apply, route
from test_operation import get
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]


def look(one: Site, crashes: int) -> None:
    """At the edge, in the cloud, at the edge again; what the cloud has is between what the edge knew and what it has.
    A crash of the edge leaves one message of one device in doubt: it may have left before the log had it."""
    before = one.edge.ledger()
    edge = one.cloud.edges()[0]
    rows, after = len(one.cloud.rows()), one.edge.ledger()
    if not edge["arrivals"]:
        assert before["delivered"] == 0
        return
    (arrival,), (stored,) = edge["arrivals"], edge["ledgers"]
    assert before["delivered"] <= arrival["taken"] <= after["received"] + crashes, (before, arrival, after)
    assert stored["received"] == arrival["taken"] and arrival["forbidden"] == 0, edge
    assert stored["delivered"] <= rows, (stored, rows)
    assert before["dropped"] == stored["dropped"] == {}


def test_both_sides_agree_of_each_message_at_every_look_through_cuts_and_kills_of_both(site):
    one = site()
    pump, stop = Pump(one), threading.Event()
    device = threading.Thread(target=pump.run, args=(stop,), daemon=True)
    device.start()
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    crashes, looks, dice = 0, 0, random.Random(seed)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        for _ in range(dice.randrange(1, 6)):
            look(one, crashes)
            looks += 1
        broken = dice.choice(["edge", "cloud", "line"])
        if broken == "line":
            one.line.hang_up()
            continue
        victim = getattr(one, broken)
        victim.kill()
        victim.start()
        crashes += broken == "edge"
    stop.set()
    device.join(30)
    wait_until(lambda: one.edge.ledger()["queued"] == 0, 60)
    wait_until(lambda: one.cloud.edges()[0]["ledgers"][0]["queued"] == 0, 60)
    look(one, crashes)
    delivered, arrival = one.edge.ledger()["delivered"], one.cloud.arrivals()
    (stored,) = one.cloud.edges()[0]["ledgers"]
    assert 0 <= arrival["taken"] - delivered <= crashes
    assert stored["delivered"] == arrival["taken"] == len(one.cloud.rows()) > 0
    page = get(one.cloud, "/metrics")[1]
    labels = 'edge="hall-1",tenant="default",route="telemetry"'
    assert f"selvedge_edge_messages_total{{{labels}}} {arrival['taken']}\n" in page
    assert f"selvedge_edge_messages_sent_again_total{{{labels}}} {arrival['sent_again']}\n" in page
    of_edge = 'tenant="default",route="telemetry",edge="hall-1"'
    assert f"selvedge_upstream_delivered_total{{{of_edge}}} {stored['delivered']}\n" in page
    print(f"{looks} looks, {arrival}")


def test_what_comes_again_may_not_be_sent_or_finds_no_room_is_counted_as_that(tmp_path):
    cloud = Cloud(tmp_path / "cloud", Settings(anonymous=False))
    cloud.directory.mkdir()
    cloud.start()
    edge = RawEdge(cloud, "hall-1")
    for batch in (edge.batch(0), edge.batch(0), edge.batch(1, "$SYS/uptime"), edge.batch(2)):
        edge.stream.send(batch)
        assert edge.stream.expect(Kind.PUBACK).reason == 0
    cloud.run("tenant", "set", "default", "--upstream-bytes", "1")
    edge.stream.send(edge.batch(3))
    assert edge.stream.expect(Kind.PUBACK).reason == 0x97
    expected = {"taken": 2, "forbidden": 1, "sent_again": 1, "returned": 1}
    for _ in range(2):
        arrival = cloud.arrivals()
        assert {name: arrival[name] for name in expected} == expected
        cloud.kill()
        cloud.start()
    cloud.stop()


def test_of_eighty_routes_each_message_reaches_applications_once_and_is_counted_though_the_line_is_cut(site):
    """Each route has an epoch of its own with two lanes, of which the cloud remembers what it has."""
    one, routes, rounds = site(), 80, 12
    apply(one.edge, *(route(f"r{number}", f"devices/+/telemetry/{number}") for number in range(routes)))
    apply(one.edge, route("telemetry", "devices/+/telemetry/none"))
    one.cloud.run("app", "add", "dash", "--password", PASSWORD)
    dash = Client(one.cloud.port, "dash", user="dash", password=PASSWORD).opened()
    dash.subscribe("devices/pump-7/telemetry/+", qos=1)
    pump = Pump(one).client()
    for turn in range(rounds):
        # Every third time what was sent is acknowledged to nobody, and comes again.
        if turn % 3 == 1:
            one.line.cut()
        elif turn % 3 == 2:
            one.line.mend()
        for number in range(routes):
            pump.publish(f"devices/pump-7/telemetry/{number}", json.dumps({"n": turn}), qos=1)
            if number == routes // 2:
                one.line.hang_up()
    one.line.mend()
    wait_until(lambda: all(ledger["queued"] == 0 for ledger in one.edge.link()["ledgers"]), 60)
    came = [(message.topic, message.payload) for message in (dash.receive() for _ in range(routes * rounds))]
    assert len(set(came)) == routes * rounds and dash.messages.empty()
    taken = {arrival["route"]: arrival["taken"] for arrival in one.cloud.edges()[0]["arrivals"]}
    assert taken == {f"r{number}": rounds for number in range(routes)}
    for client in (dash, pump):
        client.disconnect()
