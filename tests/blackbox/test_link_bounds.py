"""What waits for the cloud is bounded, by route, by tenant and in all; each bound has its policy, and nobody waits for
another."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from paho_client import Client
from sites import PASSWORD, TELEMETRY, Pump, Site, metric, numbers, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]

BIG = bytes(8_000)


def route(name: str, source: str, tenant: str = "default", **upstream: object) -> str:
    """A route to the cloud."""
    return json.dumps(
        {
            "apiVersion": "selvedge.dev/v1",
            "kind": "Route",
            "metadata": {"name": name, "namespace": tenant},
            "spec": {"from": source, "to": [{"upstream": upstream}]},
        }
    )


def apply(side, *manifests: str) -> None:
    """`selvedge apply -f FILE`."""
    path = side.directory / "manifest.yaml"
    path.write_text("\n---\n".join(manifests))
    side.run("apply", "-f", str(path))


def ledger(site: Site, name: str) -> dict:
    """What became of the messages of a route."""
    return next(each for each in site.edge.link()["ledgers"] if each["route"] == name)


def filled(site: Site, client: Client, qos: int) -> int:
    """Publishes until the edge has no room left; how many it took."""
    for taken in range(1_000):
        if client.publish(TELEMETRY, BIG, qos=qos).is_failure:
            return taken
    raise AssertionError("it takes everything")


def listener(site: Site) -> Client:
    """An app at the edge that hears the device."""
    site.edge.run("app", "add", "dash", "--password", PASSWORD)
    dash = Client(site.edge.port, "dash", user="dash", password=PASSWORD).opened()
    dash.subscribe(TELEMETRY)
    return dash


def refusing(site: Callable[..., Site]) -> Site:
    """A site whose cloud is away and whose route has little room and refuses."""
    one = site()
    apply(one.edge, route("telemetry", "devices/+/telemetry/#", limit="256Ki", full="refuse"))
    one.cloud.stop()
    return one


@pytest.mark.parametrize("qos", [1, 2])
def test_a_full_route_that_refuses_tells_the_sender_and_takes_again_once_there_is_room(site, qos):
    one = refusing(site)
    client = Pump(one).client()
    taken = filled(one, client, qos)
    assert 20 < taken < 40
    assert ledger(one, "telemetry")["received"] == taken
    one.cloud.start()
    wait_until(lambda: ledger(one, "telemetry")["queued"] == 0, 60)
    assert not client.publish(TELEMETRY, BIG, qos=qos).is_failure
    client.disconnect()


def test_what_is_refused_at_qos_2_reaches_nobody_so_that_it_may_be_sent_again(site):
    one = refusing(site)
    dash, client = listener(one), Pump(one).client()
    taken = filled(one, client, 2)
    assert len(dash.payloads(taken)) == taken
    dash.nothing_arrives()
    for each in (dash, client):
        each.disconnect()


def test_at_qos_1_a_full_route_that_refuses_stops_no_local_delivery(site):
    one = refusing(site)
    dash, client = listener(one), Pump(one).client()
    taken = filled(one, client, 1)
    assert len(dash.payloads(taken + 1)) == taken + 1
    for each in (dash, client):
        each.disconnect()


@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_client_of_3_1_1_sends_to_a_full_route_is_not_acknowledged_and_its_connection_ends(site, qos):
    """3.1.1 has no reason codes: an acknowledgement would say that the message is kept (section 4.3), and who loses its
    connection sends it again (MQTT-4.4.0-1)."""
    one = refusing(site)
    five = Pump(one).client()
    filled(one, five, 1)
    five.disconnect()
    three = Client(one.edge.port, "three", 4, user="pump-7", password=PASSWORD, clean=False).opened()
    three.paho.publish(TELEMETRY, BIG, qos)
    three.end()
    assert three.answers == {}
    assert metric(one.edge, "upstream_turned_away_total", route="telemetry") == 2
    one.cloud.start()
    wait_until(lambda: ledger(one, "telemetry")["queued"] == 0, 60)
    received = ledger(one, "telemetry")["received"]
    three.paho.reconnect()
    three.paho.loop_start()
    wait_until(lambda: three.answers != {})
    assert ledger(one, "telemetry")["received"] == received + 1
    three.close()


def test_what_a_full_route_that_refuses_does_not_keep_is_dropped_at_qos_0_and_turned_away_above(site):
    one = refusing(site)
    client = Pump(one).client()
    for _ in range(100):
        client.publish(TELEMETRY, BIG, qos=0)
    wait_until(lambda: ledger(one, "telemetry")["received"] == 100)
    kept = ledger(one, "telemetry")["queued"]
    assert 20 < kept < 40 and ledger(one, "telemetry")["dropped"] == {"full": 100 - kept}
    for qos in (1, 2):
        assert client.publish(TELEMETRY, BIG, qos=qos).is_failure
    assert metric(one.edge, "upstream_turned_away_total", route="telemetry") == 2
    assert ledger(one, "telemetry")["received"] == 100
    client.disconnect()


@pytest.mark.parametrize("full", ["refuse", "newest"])
def test_a_large_route_that_keeps_what_it_has_leaves_another_its_part_which_is_of_the_newest(site, full):
    one = site(limit_bytes=1 << 20, flags=("--shards", "1"))
    apply(
        one.edge,
        route("keeping", "devices/+/telemetry/keeping", full=full),
        route("other", "devices/+/telemetry/other"),
    )
    one.cloud.kill()
    client = Pump(one).client()
    for kind in ("keeping", "other"):
        for number in range(200):
            client.publish(f"{TELEMETRY}/{kind}", json.dumps({"n": number, "pad": "x" * 8_000}))
    # Half of it in parts for three routes, and the other half to whom it is that comes first.
    part_bytes = (1 << 20) / 6
    assert ledger(one, "other")["bytes"] > part_bytes and ledger(one, "keeping")["bytes"] < (1 << 20) - 2 * part_bytes
    kept = ledger(one, "other")["queued"]
    assert ledger(one, "other")["dropped"] == {"full": 200 - kept}
    one.cloud.start()
    wait_until(lambda: ledger(one, "other")["queued"] + ledger(one, "keeping")["queued"] == 0, 60)
    one.cloud.has_rows(2 * (kept + ledger(one, "keeping")["delivered"]), 60)
    streams = "number, (SELECT stream FROM series WHERE series.id = telemetry.series)"
    counted = {
        kind: [int(n) for n, stream in one.cloud.rows(streams) if stream == f"{kind}/n"]
        for kind in ("keeping", "other")
    }
    assert sorted(counted["other"]) == list(range(200 - kept, 200))
    assert sorted(counted["keeping"]) == list(range(ledger(one, "keeping")["delivered"]))
    client.disconnect()


def test_a_tenant_that_fills_all_there_is_leaves_another_its_part(site):
    one = site(limit_bytes=1 << 20, flags=("--shards", "1"))
    apply(one.edge, route("telemetry", "devices/+/telemetry/#", full="refuse"))
    one.edge.run("tenant", "add", "plant-b")
    one.edge.run("device", "add", "pump-8", "--tenant", "plant-b", "--password", PASSWORD)
    one.cloud.kill()
    noisy, quiet = (
        Pump(one).client(),
        Client(one.edge.port, "pump-8", user="plant-b/pump-8", password=PASSWORD).opened(),
    )
    assert filled(one, noisy, 1) > 60
    for _ in range(100):
        quiet.publish("devices/pump-8/telemetry", BIG)
    assert one.edge.ledger("plant-b")["bytes"] > (1 << 18) - 10_000
    for each in (noisy, quiet):
        each.disconnect()


def test_a_route_that_drops_the_newest_keeps_the_oldest(site):
    one = site()
    apply(one.edge, route("telemetry", "devices/+/telemetry/#", limit="256Ki", full="drop-newest"))
    one.cloud.stop()
    client = Pump(one).client()
    for number in range(60):
        client.publish(TELEMETRY, json.dumps({"n": number, "pad": "x" * 8_000}))
    kept = ledger(one, "telemetry")["queued"]
    assert ledger(one, "telemetry")["dropped"] == {"full": 60 - kept} and 20 < kept < 40
    one.cloud.start()
    rows = one.cloud.has_rows(2 * kept, 60)
    assert sorted(int(number) for _, _, number in rows if number is not None) == list(range(kept))
    client.disconnect()


def test_what_has_waited_for_as_long_as_its_route_lets_it_is_dropped_and_counted(site):
    one = site()
    apply(one.edge, route("telemetry", "devices/+/telemetry/#", expiry="2s"))
    one.cloud.stop()
    pump = Pump(one)
    pump.send(30)
    wait_until(lambda: ledger(one, "telemetry")["dropped"] == {"expired": 30}, 10)
    one.cloud.start()
    one.edge.is_connected(60)
    pump.send(5)
    assert numbers(one.cloud.has_rows(5, 60)) == list(range(30, 35))


def test_messages_of_high_priority_go_four_for_one_and_starve_nobody(site):
    one = site()
    apply(
        one.edge,
        route("bulk", "devices/+/telemetry/bulk"),
        route("alarms", "devices/+/telemetry/alarms", priority="high"),
    )
    one.cloud.run("app", "add", "dash", "--password", PASSWORD)
    heard = {"user": "dash", "password": PASSWORD, "clean": False, "SessionExpiryInterval": 600}
    dash = Client(one.cloud.port, "dash", **heard).opened()
    dash.subscribe("devices/+/telemetry/#", 1)
    dash.disconnect()
    one.cloud.stop()
    client = Pump(one).client()
    for number in range(400):
        for kind in ("bulk", "alarms"):
            client.publish(f"{TELEMETRY}/{kind}", json.dumps({"n": number, "pad": "x" * 2_000}), qos=1)
    assert ledger(one, "bulk")["queued"] + ledger(one, "alarms")["queued"] == 800
    one.cloud.start()
    # In the order in which they come; the database has those of one transaction by series.
    dash = Client(one.cloud.port, "dash", **heard).opened()
    kinds = [dash.receive().topic.rsplit("/", 1)[-1] for _ in range(800)]
    half_of_alarms = [at for at, kind in enumerate(kinds) if kind == "alarms"][200]
    bulk_before = kinds[:half_of_alarms].count("bulk")
    assert 20 <= bulk_before <= 110, bulk_before
    for each in (dash, client):
        each.disconnect()


def test_a_tenant_that_has_used_up_its_room_takes_none_from_another(site):
    one = site()
    one.edge.run("tenant", "add", "plant-b", "--upstream-bytes", "256KiB")
    one.edge.run("device", "add", "pump-8", "--tenant", "plant-b", "--password", PASSWORD)
    one.cloud.stop()
    noisy = Client(one.edge.port, "pump-8", user="plant-b/pump-8", password=PASSWORD).opened()
    Pump(one).send(50)
    for _ in range(100):
        noisy.publish("devices/pump-8/telemetry", BIG)
    noisy_ledger = one.edge.ledger("plant-b")
    assert noisy_ledger["bytes"] <= 256 << 10 and noisy_ledger["dropped"]["full"] > 60
    assert one.edge.ledger()["queued"] == 50 and one.edge.ledger()["dropped"] == {}
    shown = json.loads(one.edge.run("tenant", "show", "plant-b", "--output", "json").stdout)
    assert shown["uses"]["upstream_bytes"] == noisy_ledger["bytes"]
    noisy.disconnect()


def test_a_tenant_whose_cloud_is_full_holds_up_no_other_and_catches_up(site):
    """The cloud's own way to the database is full for one tenant: the other's messages pass, in the same batches."""
    one = site()
    one.cloud.run("tenant", "add", "plant-b", "--upstream-bytes", "1")
    one.cloud.run("edge", "label", "hall-1", "tenants=default,plant-b")
    one.edge.run("device", "add", "pump-8", "--tenant", "plant-b", "--password", PASSWORD)
    one.line.hang_up()
    one.edge.is_connected(60)
    full = Client(one.edge.port, "pump-8", user="plant-b/pump-8", password=PASSWORD).opened()
    for number in range(100):
        full.publish("devices/pump-8/telemetry", json.dumps({"n": number}))
    Pump(one).send(300)
    assert len(one.cloud.has_rows(300)) == 300
    assert one.edge.ledger("plant-b")["queued"] == 100
    one.cloud.run("tenant", "set", "plant-b", "--upstream-bytes", "none")
    rows = one.cloud.has_rows(400, 90)
    assert len(rows) == len(set(rows)) == 400
    wait_until(lambda: one.edge.ledger("plant-b")["queued"] == 0)
    full.disconnect()


def test_an_app_in_the_cloud_has_each_message_once_though_the_database_has_no_room_for_a_while(site):
    one = site()
    one.cloud.run("app", "add", "dash", "--password", PASSWORD)
    dash = Client(one.cloud.port, "dash", user="dash", password=PASSWORD).opened()
    dash.subscribe("devices/+/telemetry", qos=1)
    one.cloud.run("tenant", "set", "default", "--upstream-bytes", "1")
    Pump(one).send(40)
    time.sleep(3)  # For some rounds in vain.
    one.cloud.run("tenant", "set", "default", "--upstream-bytes", "none")
    one.cloud.has_rows(40, 90)
    assert sorted(json.loads(payload)["n"] for payload in dash.payloads(40)) == list(range(40))
    dash.nothing_arrives()
    dash.disconnect()
