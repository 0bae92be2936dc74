"""Devices, their labels, credentials and revocations across the link: an edge lets its devices in without the cloud."""

from __future__ import annotations

import json
import time

import pytest

from brokers import PORTS, Settings
from credentials import context
from paho_client import Client, Refused
from registered import add, device, figures, is_let_in, opened, shared, twin
from sites import PASSWORD, Edge, Line, Site, backed_up, restored, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]


@pytest.fixture
def site(site):
    """A cloud and an edge."""
    return site()


@pytest.fixture
def second(site, tmp_path):
    """Another edge of the same cloud."""
    edge = Edge(tmp_path / "second", Settings(anonymous=False))
    edge.directory.mkdir()
    edge.name = "hall-2"
    line = Line(site.cloud.tls_port)
    edge.joins(site.cloud, line.port)
    edge.start()
    edge.is_connected()
    yield edge
    edge.stop()
    line.close()


def test_a_device_that_is_added_in_the_cloud_logs_in_at_its_edge_while_the_cloud_is_away(site):
    password = add(site.cloud, "valve-1", "--edge", "hall-1", "--label", "hall=3")
    wait_until(lambda: device(site.edge) is not None)
    site.cloud.stop()
    assert device(site.edge)["labels"] == {"hall": "3"}
    assert is_let_in(site.edge, password)
    assert not is_let_in(site.edge, "another password")
    site.cloud.start()


def test_a_device_of_an_edge_does_not_log_in_at_the_cloud(site):
    password = shared(site)
    assert not is_let_in(site.cloud, password)
    assert device(site.cloud)["edge"] == "hall-1"
    wait_until(lambda: "it logs in at the edge" in (site.cloud.data / "audit.log").read_text())


def test_the_cloud_says_where_a_device_is_reached(site):
    def location(where, device_id: str = "valve-1") -> dict:
        return json.loads(where.run("describe", "device", device_id, "--output", "json").stdout)["location"]

    password = shared(site)
    said = location(site.cloud)
    # It says something every 5 s.
    assert said.pop("last_heard_s") <= 6
    assert said == {"at": "edge", "edge": "hall-1", "is_connected": True}
    assert location(site.edge) == {"at": "nowhere"}
    client = opened(site.edge, password)
    assert location(site.edge) == {"at": "here"}
    client.disconnect()
    site.edge.stop()
    wait_until(lambda: not location(site.cloud)["is_connected"])
    said = site.cloud.run("describe", "device", "valve-1").stdout
    assert "through the edge hall-1, which is not connected" in said
    add(site.cloud, "lamp-1")
    assert location(site.cloud, "lamp-1") == {"at": "nowhere"}


def test_devices_that_were_added_in_the_cloud_while_the_edge_was_away_are_there_once_it_is_back(site):
    site.edge.kill()
    names = [f"valve-{number}" for number in range(40)]
    added = json.loads(
        site.cloud.run("device", "add", *names, "--edge", "hall-1", "--output", "json").stdout,
    )
    site.cloud.kill()
    site.cloud.start()
    site.edge.start()
    wait_until(lambda: all(device(site.edge, name) for name in (names[0], names[-1])))
    wait_until(lambda: len(json.loads(site.edge.run("device", "list", "--output", "json").stdout)) == 41)
    for one in added[::13]:
        assert is_let_in(site.edge, one["issued"]["password"], one["id"])


@pytest.mark.parametrize("is_away", [False, True], ids=["linked", "away"])
@pytest.mark.parametrize("words", [["disable"], ["credential", "revoke"], ["remove"], ["rotate"]], ids=" ".join)
def test_what_ends_a_credential_in_the_cloud_ends_its_connections_at_the_edge(site, words, is_away):
    client = opened(site.edge, password := shared(site))
    if is_away:
        site.line.cut()
    site.cloud.run("device", *words, "valve-1", *(["password"] if words[-1] == "revoke" else []))
    if is_away:
        site.cloud.kill()
        site.cloud.start()
        site.line.target = site.cloud.tls_port
        site.line.mend()
    client.ended.result(60)
    assert not is_let_in(site.edge, password)


@pytest.mark.parametrize("name", ["cloud", "edge"])
def test_what_a_side_from_a_backup_says_of_a_device_holds_at_both_and_what_it_had_forgotten_comes_back(
    site, tmp_path, name
):
    def both_say_all() -> bool:
        said = device(site.cloud), device(site.edge)
        return all(one and one["is_disabled"] and one["labels"] == {"hall": "3"} for one in said)

    shared(site)
    side = getattr(site, name)
    backup = backed_up(side, tmp_path)
    site.edge.is_connected(60)
    side.run("device", "label", "valve-1", "hall=3")
    wait_until(lambda: all(device(one)["labels"] for one in (site.cloud, site.edge)), 60)
    site.line.cut()
    restored(side, backup)
    assert not device(side)["labels"]
    side.run("device", "disable", "valve-1")
    site.line.mend()
    wait_until(both_say_all, 60)


def test_a_device_that_is_enabled_again_in_the_cloud_logs_in_at_its_edge_again(site):
    password = shared(site)
    site.cloud.run("device", "disable", "valve-1")
    wait_until(lambda: device(site.edge)["is_disabled"])
    site.cloud.run("device", "enable", "valve-1")
    wait_until(lambda: not device(site.edge)["is_disabled"])
    assert is_let_in(site.edge, password)


def test_a_connection_made_with_another_credential_goes_on(site):
    password = shared(site)
    client = opened(site.edge, password)
    said = site.cloud.run("device", "credential", "add", "valve-1", "--token", "--output", "json").stdout
    assert json.loads(said)["issued"]["token"]
    wait_until(lambda: "token" in device(site.edge)["credentials"])
    site.cloud.run("device", "credential", "revoke", "valve-1", "token")
    wait_until(lambda: "token" not in device(site.edge)["credentials"])
    client.publish("devices/valve-1/telemetry", b"{}", qos=1)
    client.disconnect()


def test_labels_and_a_removal_at_the_edge_reach_the_cloud(site):
    site.edge.run("device", "label", "pump-7", "hall=3")
    wait_until(lambda: (device(site.cloud, "pump-7") or {}).get("labels") == {"hall": "3"})
    site.cloud.run("device", "label", "pump-7", "hall-", "line=2")
    wait_until(lambda: device(site.edge, "pump-7")["labels"] == {"line": "2"})
    site.edge.run("device", "remove", "pump-7")
    wait_until(lambda: device(site.cloud, "pump-7") is None)


@pytest.mark.parametrize("where", ["cloud", "edge"])
def test_a_removed_device_stays_removed_on_both_sides_and_its_twin_with_it(site, where):
    shared(site)
    here, there = (site.cloud, site.edge) if where == "cloud" else (site.edge, site.cloud)
    site.edge.run("twin", "set", "valve-1", '{"speed": 1}')
    wait_until(lambda: twin(site.cloud)["desired"].get("speed") == 1)
    site.line.cut()
    here.run("device", "remove", "valve-1")
    there.run("device", "label", "valve-1", "hall=3")
    here.kill()
    here.start()
    site.line.target = site.cloud.tls_port
    site.line.mend()
    wait_until(lambda: device(there) is None, 60)
    for _ in range(2):
        site.edge.kill()
        site.edge.start()
        site.edge.is_connected()
        assert device(site.cloud) is None
        assert device(site.edge) is None
    password = shared(site)
    assert is_let_in(site.edge, password)
    assert [twin(side)["desired"] for side in (site.cloud, site.edge)] == [{"$version": 0}, {"$version": 0}]
    assert device(site.edge)["labels"] == {}


def test_of_two_edits_of_one_member_the_edges_stays_and_the_other_is_reported(site):
    shared(site)
    site.line.cut()
    site.edge.run("device", "label", "valve-1", "hall=1", "edge=1")
    site.cloud.run("device", "label", "valve-1", "hall=2", "cloud=1")
    site.line.mend()
    both = {"hall": "1", "edge": "1", "cloud": "1"}
    wait_until(lambda: device(site.cloud)["labels"] == device(site.edge)["labels"] == both, 60)
    wait_until(lambda: "edits given up: /label:hall" in (site.cloud.data / "audit.log").read_text())


def test_a_revocation_is_not_lost_to_an_edit_of_the_edge(site):
    password = shared(site)
    site.line.cut()
    site.cloud.run("device", "credential", "revoke", "valve-1", "password")
    site.edge.run("device", "label", "valve-1", "hall=1")
    site.line.mend()
    wait_until(lambda: not is_let_in(site.edge, password), 60)
    wait_until(lambda: device(site.cloud)["labels"] == {"hall": "1"})


def test_what_is_changed_at_the_edge_while_nothing_runs_reaches_the_cloud(site):
    shared(site)
    site.edge.stop()
    site.edge.run("device", "label", "valve-1", "hall=3")
    site.edge.run("device", "remove", "pump-7")
    site.edge.start()
    wait_until(lambda: device(site.cloud)["labels"] == {"hall": "3"} and device(site.cloud, "pump-7") is None)


def test_another_edge_never_gets_a_device(site, second):
    shared(site)
    for edge in (second, site.edge):
        edge.kill()
        edge.start()
        edge.is_connected()
    add(second, "own")
    wait_until(lambda: device(site.cloud, "own") is not None)
    assert [one["id"] for one in json.loads(second.run("device", "list", "--output", "json").stdout)] == ["own"]
    registry = (second.data / "registry.db").read_bytes() + (second.data / "registry.db-wal").read_bytes()
    assert b"valve-1" not in registry and b"pump-7" not in registry


@pytest.mark.parametrize("owner", ["cloud", "hall-1"])
def test_an_edge_sets_no_credential_of_a_device_that_logs_in_elsewhere(site, second, owner):
    """Nor removes it, nor learns what it logs in with, nor writes its twin."""
    password = add(site.cloud, "valve-1", *(["--edge", owner] if owner != "cloud" else []))
    home = site.cloud if owner == "cloud" else site.edge
    wait_until(lambda: device(home) is not None)
    add(second, "valve-1", "--label", "stolen=yes")
    second.run("twin", "set", "valve-1", '{"stolen": true}')
    wait_until(lambda: figures(site.cloud)["records_refused"] > 0)
    assert is_let_in(home, password)
    second.run("device", "remove", "valve-1")
    add(second, "valve-1")
    second.kill()
    second.start()
    second.is_connected()
    assert is_let_in(home, password)
    assert device(site.cloud)["labels"] == {} and "stolen" not in twin(site.cloud)["desired"]
    assert not is_let_in(second, password)


def test_an_edge_that_lost_all_it_had_gets_its_devices_back(site, tmp_path):
    site.edge.run("device", "label", "pump-7", "hall=3")
    wait_until(lambda: (device(site.cloud, "pump-7") or {}).get("labels") == {"hall": "3"})
    site.edge.stop()
    site.edge.data.rename(tmp_path / "lost")
    site.edge.start()
    wait_until(lambda: device(site.edge, "pump-7") is not None)
    assert is_let_in(site.edge, PASSWORD, "pump-7")


def test_a_device_that_is_moved_logs_in_at_its_new_edge_alone(site, second):
    password = shared(site)
    client = opened(site.edge, password)
    site.cloud.run("device", "move", "valve-1", "hall-2")
    client.ended.result(30)
    wait_until(lambda: device(second) is not None)
    assert is_let_in(second, password)
    assert device(site.edge) is None
    site.cloud.run("device", "move", "valve-1", "--here")
    wait_until(lambda: device(second) is None)
    assert is_let_in(site.cloud, password)


def test_an_edge_that_is_not_there_or_not_of_the_tenant_gets_no_device(site):
    said = site.cloud.run("device", "add", "valve-1", "--edge", "hall-9", check=False)
    assert said.returncode != 0 and 'no edge "hall-9"' in said.stderr
    said = site.cloud.run("device", "add", "valve-1", "--tenant", "plant-b", "--edge", "hall-1", check=False)
    assert said.returncode != 0 and "that may speak for the tenant plant-b" in said.stderr
    said = site.cloud.run("app", "add", "dash", "--edge", "hall-1", check=False)
    assert said.returncode != 0 and "only devices log in at an edge" in said.stderr


def test_a_tenant_that_is_new_to_the_edge_comes_with_its_device(site):
    site.cloud.run("tenant", "add", "plant-b")
    site.cloud.run("edge", "label", "hall-1", "tenants=plant-b")
    site.line.hang_up()
    wait_until(lambda: site.edge.link()["since_s"] < 5 and site.edge.link()["is_connected"])
    said = site.cloud.run("device", "add", "valve-1", "--tenant", "plant-b", "--edge", "hall-1", "--output", "json")
    password = json.loads(said.stdout)[0]["issued"]["password"]

    def is_there() -> bool:
        return site.edge.run("device", "show", "valve-1", "--tenant", "plant-b", check=False).returncode == 0

    wait_until(is_there)
    Client(site.edge.port, "valve-1", user="plant-b/valve-1", password=password).opened().disconnect()


@pytest.fixture
def guarded(tmp_path):
    """A cloud and an edge with a door of TLS."""
    port = PORTS.take()
    made = Site(tmp_path, flags=("--mqtts", f"127.0.0.1:{port}"))
    made.edge.tls_port = port
    yield made
    made.close()


def show(edge, cloud, name: str = "valve-1") -> Client:
    """A connection with the certificate that a cloud gave out."""
    files = (cloud.directory / f"{name}.pem", cloud.directory / f"{name}.key")
    return Client(edge.tls_port, name, tls=context(edge.data / "ca.pem", *files)).opened()


def test_a_certificate_of_the_cloud_opens_the_edge_without_the_cloud_until_it_is_revoked(guarded):
    site = guarded
    site.cloud.run("device", "add", "valve-1", "--edge", "hall-1", "--certificate")
    site.cloud.run("device", "add", "stranger", "--certificate")
    wait_until(lambda: device(site.edge) is not None)
    site.cloud.stop()
    client = show(site.edge, site.cloud)
    site.edge.kill()
    site.edge.start()
    client = show(site.edge, site.cloud)
    with pytest.raises(Refused):
        show(site.edge, site.cloud, "stranger")
    held = site.cloud.run("device", "credential", "list", "valve-1", "--output", "json").stdout
    site.cloud.run("device", "credential", "revoke", "valve-1", json.loads(held)[0]["serial"])
    site.cloud.start()
    client.ended.result(60)
    with pytest.raises(Refused):
        show(site.edge, site.cloud)


def test_a_token_of_the_cloud_opens_the_edge_without_the_cloud_until_it_is_revoked(site, second):
    said = site.cloud.run("device", "add", "valve-1", "--edge", "hall-1", "--token", "--output", "json").stdout
    token = json.loads(said)[0]["issued"]["token"]
    wait_until(lambda: device(site.edge) is not None)
    site.cloud.stop()
    client = opened(site.edge, token)
    assert not is_let_in(second, token)
    site.cloud.run("device", "credential", "revoke", "valve-1", "token")
    site.cloud.start()
    client.ended.result(60)
    assert not is_let_in(site.edge, token)


def test_after_a_cut_fifteen_hundred_devices_that_nobody_changed_are_told_as_one_number(site):
    names = [f"valve-{number}" for number in range(1_500)]
    site.cloud.run("device", "add", *names, "--edge", "hall-1")
    wait_until(lambda: len(json.loads(site.edge.run("device", "list", "--output", "json").stdout)) == 1_501)
    wait_until(lambda: twin(site.edge, names[0]) == twin(site.cloud, names[0]))

    def told_after(change) -> tuple[dict[str, int], int]:
        """What the cloud tells when the edge comes back; bytes on the line upwards with it."""
        site.edge.stop()
        change()
        before, site.line.bytes_up = figures(site.cloud), 0
        site.edge.start()
        site.edge.is_connected()
        wait_until(lambda: device(site.edge, names[500])["labels"] == device(site.cloud, names[500])["labels"])
        time.sleep(1)  # What is not told gives no event.
        after = figures(site.cloud)
        return {name: after[name] - before[name] for name in before}, site.line.bytes_up

    told, unchanged_bytes = told_after(lambda: None)
    assert (told["part"], told["digest"], told["record"]) == (0, 0, 0), told
    assert unchanged_bytes < 8_000
    told, changed_bytes = told_after(lambda: site.cloud.run("device", "label", names[500], "hall=3"))
    assert told["part"] <= 48 and told["digest"] <= 16 and told["record"] == 1, told
    assert changed_bytes < unchanged_bytes + 8_000
