"""What became of every message, on both sides of the link: the figures agree, and balance at every look."""

from __future__ import annotations

import json
import random
import re
import threading
import time

import pytest

from brokers import Settings
from http_api import Api
from paho_client import Client
from raw_edge import RawEdge
from sites import PASSWORD, TELEMETRY, Cloud, Edge, Pump, Site, metric, wait_until
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


def test_a_kill_of_both_a_moment_after_a_delivery_forgets_nothing_of_it(site):
    """Though nothing was written since: neither sends again what the other end has."""
    one = site()
    Pump(one).send(5)
    wait_until(lambda: one.edge.ledger()["delivered"] == 5 and len(one.cloud.rows()) == 5)
    time.sleep(0.5)
    for side in (one.edge, one.cloud):
        side.kill()
        side.start()
    one.edge.is_connected(60)
    ledgers = [one.edge.ledger(), one.cloud.edges()[0]["ledgers"][0]]
    for ledger in ledgers:
        assert (ledger["received"], ledger["delivered"], ledger["queued"]) == (5, 5, 0), ledgers
    assert one.cloud.arrivals()["sent_again"] == 0


def test_what_waits_is_shown_with_its_age_and_its_bound_and_a_metric_says_whether_there_is_a_link(site):
    """Also after a restart of the edge."""
    one = site(limit_bytes=4 << 20)
    pump = Pump(one)
    pump.send(3)
    wait_until(lambda: one.edge.ledger()["queued"] == 0)
    link = one.edge.link()
    assert (link["oldest_s"], link["queued_bytes"], link["limit_bytes"]) == (None, 0, 4 << 20)
    assert "selvedge_link_connected 1\n" in get(one.edge, "/metrics")[1]
    assert "selvedge_edges_connected 1\n" in get(one.cloud, "/metrics")[1]
    one.cloud.stop()
    began = time.monotonic()
    pump.send(5)
    time.sleep(3)
    pump.send(2)
    for _ in range(2):
        link = one.edge.link()
        assert 3 <= link["oldest_s"] <= time.monotonic() - began + 1
        assert link["ledgers"][0]["oldest_s"] == link["oldest_s"]
        assert link["queued_bytes"] == link["ledgers"][0]["bytes"] > 0
        said = one.edge.run("get", "link").stdout
        assert re.search(r"messages that wait: 7, the oldest for \d+ s, 0\.0 of 4\.0 MiB", said), said
        wait_until(lambda: "selvedge_link_connected 0\n" in get(one.edge, "/metrics")[1])
        one.edge.kill()
        one.edge.start()
    one.cloud.start()
    wait_until(lambda: one.edge.ledger()["queued"] == 0, 60)
    assert one.edge.link()["oldest_s"] is None
    one.edge.stop()
    wait_until(lambda: "selvedge_edges_connected 0\n" in get(one.cloud, "/metrics")[1])


def test_an_edge_without_a_cloud_says_so_and_how_it_gets_one(tmp_path):
    """And a cloud that its messages go into its database."""
    edge, cloud = Edge(tmp_path / "edge", Settings()), Cloud(tmp_path / "cloud", Settings(anonymous=False))
    for one in (edge, cloud):
        one.directory.mkdir()
        one.start()
    try:
        said = edge.run("get", "link").stdout
        assert said == "no cloud is configured; join one: selvedge edge join URL --token T\n"
        assert edge.link()["goes_to"] == "nowhere"
        assert "database" in cloud.run("get", "link").stdout
    finally:
        edge.stop()
        cloud.stop()


def stored(user: Api, tenant: str) -> tuple[list[dict], list[dict]]:
    """The edges and the ledgers that this user is shown, once all that came is in the database."""
    path = f"/v1/tenants/{tenant}/link"
    wait_until(lambda: user.ask("GET", path)[1]["edges"][0]["ledgers"][0]["queued"] == 0)
    _, link = user.ask("GET", path)
    return link["edges"], link["ledgers"]


def test_users_of_a_tenant_see_what_became_of_its_own_messages_and_of_no_others(site):
    """On both sides; and whether the edges that bring them are there."""
    one = site()
    one.cloud.run("tenant", "add", "plant-b")
    one.cloud.run("edge", "label", "hall-1", "tenants=plant-b")
    one.line.hang_up()
    one.edge.is_connected()
    one.edge.run("device", "add", "pump-8", "--tenant", "plant-b", "--password", PASSWORD)
    other = Client(one.edge.port, "pump-8", user="plant-b/pump-8", password=PASSWORD).opened()
    for number in range(3):
        other.publish("devices/pump-8/telemetry", f'{{"n": {number}}}')
    other.disconnect()
    Pump(one).send(5)
    wait_until(lambda: len(one.cloud.rows()) == 8)
    for tenant, count in (("default", 5), ("plant-b", 3)):
        one.cloud.run("user", "add", f"{tenant}/vera", "--role", "viewer", "--password", PASSWORD)
        vera = Api(one.cloud).log_in(f"{tenant}/vera", PASSWORD)
        (edge,), ledgers = stored(vera, tenant)
        assert (edge["name"], edge["is_connected"]) == ("hall-1", True)
        # Where from is the business of the tenant that the edge belongs to.
        assert (edge["address"] is not None) == (tenant == "default")
        assert [(each["tenant"], each["taken"]) for each in edge["arrivals"]] == [(tenant, count)]
        assert [(each["tenant"], each["delivered"]) for each in edge["ledgers"]] == [(tenant, count)]
        assert all(each["tenant"] == tenant for each in ledgers)
        assert vera.ask("GET", "/v1/edges")[0] == 403
    assert vera.ask("GET", "/v1/tenants/default/link")[0] == 404
    said = one.cloud.run("describe", "edge", "hall-1").stdout
    assert "connected from" in said and "default/telemetry" in said and "plant-b/telemetry" in said
    assert "no edge" in one.cloud.run("describe", "edge", "hall-9", check=False).stderr


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


def test_what_was_delivered_is_given_back_and_known_after_a_kill_of_both_in_the_first_life_of_a_route(site):
    """The route that is there at the first start, and one that is applied while it runs."""
    one = site()
    empty = metric(one.edge, "log_live_bytes")
    apply(one.edge, route("alarms", "devices/+/telemetry/alarms", priority="high"))
    pump = Client(one.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    for _ in range(200):
        for topic in (TELEMETRY, f"{TELEMETRY}/alarms"):
            pump.publish(topic, bytes(2_000))
    pump.disconnect()
    wait_until(lambda: all(ledger["delivered"] == 200 for ledger in one.edge.link()["ledgers"]), 60)
    wait_until(lambda: metric(one.edge, "log_live_bytes") < empty + 16_000)
    # There both came by the one route that is there.
    wait_until(lambda: [ledger["delivered"] for ledger in one.cloud.edges()[0]["ledgers"]] == [400], 60)
    for side in (one.edge, one.cloud):
        # Answered once it is durable, and so is what was said before.
        side.run("twin", "set", "pump-7", '{"speed": 1}')
    before = one.edge.link()["ledgers"], one.cloud.edges()[0]["ledgers"]
    for side in (one.edge, one.cloud):
        side.kill()
        side.start()
    assert (one.edge.link()["ledgers"], one.cloud.edges()[0]["ledgers"]) == before
    one.edge.is_connected(60)
    Pump(one).send(1)
    one.cloud.has_rows(401, 60)
    assert sum(arrival["sent_again"] for arrival in one.cloud.edges()[0]["arrivals"]) == 0
