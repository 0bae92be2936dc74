"""An edge stays in its cloud: its certificate is renewed, heals, and is taken back."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path

import pytest

from brokers import selvedge
from clocks import Clock
from credentials import add_with_certificate
from paho_client import Client
from plants import DAY_S, PATIENCE_S, ask, request_pem
from sites import PASSWORD, wait_until
from ways import Tinyproxy

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "--https")]


@pytest.mark.machine("faketime")
def test_the_certificate_is_renewed_in_time_and_the_link_goes_on(timed, clock):
    """A new key each time; what was carried by the old one is not disturbed."""
    timed.has_joined()
    timed.delivers(range(5))
    first = timed.membership()
    clock.set(19 * DAY_S)
    time.sleep(6)  # Long enough to be renewed, which it may not be yet.
    assert timed.membership() == first
    since_s = timed.edge.link()["since_s"]
    clock.set(23 * DAY_S)
    wait_until(lambda: timed.membership() != first, PATIENCE_S)
    second = timed.membership()
    assert second["key_pem"] != first["key_pem"] and second["certificate_pem"] != first["certificate_pem"]
    assert second["not_after_unix_s"] - first["not_after_unix_s"] >= 20 * DAY_S
    link = timed.edge.link()
    assert link["is_connected"] and link["since_s"] >= since_s
    timed.edge.stop()
    timed.edge.start()
    timed.edge.is_connected()
    timed.delivers(range(5, 10))


@pytest.mark.machine("faketime")
def test_a_certificate_that_expired_while_the_cloud_was_away_heals_itself(timed, clock):
    """And all that was sent meanwhile is delivered."""
    timed.has_joined()
    timed.delivers(range(5))
    timed.cloud.stop()
    clock.set(100 * DAY_S)
    client = Client(timed.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    for number in range(5, 10):
        client.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
    client.disconnect()
    timed.says("the edge's certificate expired")
    timed.cloud.start()
    wait_until(lambda: timed.edge.link()["is_connected"], PATIENCE_S)
    timed.delivers(range(10, 12))


@pytest.mark.machine("faketime")
def test_an_edge_that_was_off_for_longer_than_its_certificate_lives_heals_itself(timed, clock):
    """On its shelf."""
    timed.has_joined()
    timed.edge.stop()
    clock.set(100 * DAY_S)
    timed.cloud.stop()
    timed.cloud.start()
    timed.edge.start()
    wait_until(lambda: timed.edge.link()["is_connected"], PATIENCE_S)
    timed.delivers(range(3))


@pytest.mark.machine("faketime")
def test_after_the_time_of_grace_the_edge_says_which_command_helps_and_it_does(timed, clock):
    """The same edge, and the same readings, with another token."""
    timed.has_joined()
    timed.cloud.stop()
    clock.set(121 * DAY_S)
    timed.cloud.start()
    timed.says("longer ago than this cloud renews it", "selvedge edge invite")
    timed.joins(timed.cloud.invite("hall-1")["token"])
    wait_until(lambda: timed.edge.link()["is_connected"], PATIENCE_S)
    timed.delivers(range(3))


@pytest.mark.machine("faketime")
def test_a_revoked_certificate_is_neither_let_in_nor_renewed(timed, clock):
    """Whether or not it has expired."""
    timed.has_joined()
    timed.cloud.run("edge", "credential", "revoke", "hall-1", timed.serial())
    timed.says("revoked")
    clock.set(23 * DAY_S)
    timed.edge.said("was revoked; selvedge edge invite ID at the cloud lets it in again")
    clock.set(40 * DAY_S)
    timed.says("expired", "was revoked")
    before = timed.membership()
    timed.joins(timed.cloud.invite("hall-1")["token"])
    assert timed.membership() != before
    wait_until(lambda: timed.edge.link()["is_connected"], PATIENCE_S)


@pytest.mark.machine("faketime")
@pytest.mark.parametrize("words", [("disable", "is disabled"), ("remove", "was removed"), ("rotate", "was revoked")])
def test_an_edge_that_is_disabled_removed_or_given_another_credential_gets_no_certificate(timed, clock, words):
    """Until its operator lets it in again."""
    command, said = words
    timed.has_joined()
    timed.cloud.run("edge", command, "hall-1")
    clock.set(40 * DAY_S)
    timed.says("expired", said)


def test_a_second_machine_with_a_new_token_takes_the_place_of_the_first(plant, tmp_path):
    """The certificate of the first is revoked: it may be the one that was stolen."""
    plant.has_joined()
    token = plant.cloud.invite("hall-1")["token"]
    selvedge("edge", "join", plant.url(), "--token", token, "--data", str(tmp_path / "second"))
    plant.says("revoked")


@pytest.mark.machine("tinyproxy", "faketime")
def test_where_a_proxy_stands_between_an_edge_joins_renews_and_links_through_it(timed, clock, tmp_path):
    """The one that its configuration names; it names no cloud."""
    proxy = Tinyproxy(tmp_path / "tinyproxy", login="hall secret")
    timed.others.append(proxy.start())
    timed.edge.settings.configuration = f'[link]\nproxy = "http://hall:secret@127.0.0.1:{proxy.port}"\n'
    timed.has_joined()
    timed.delivers(range(3))
    before, tunnels = timed.membership(), proxy.tunnels()
    assert tunnels >= 3
    clock.set(23 * DAY_S)
    wait_until(lambda: timed.membership() != before, PATIENCE_S)
    assert proxy.tunnels() > tunnels


def test_an_edge_whose_membership_is_damaged_serves_and_says_what_helps(plant):
    """Its devices do not pay for it."""
    plant.has_joined()
    plant.edge.stop()
    (plant.edge.data / "membership.json").write_text('{"edge": "hall-1"')
    plant.edge.start()
    plant.says("membership.json", "join the cloud again: selvedge edge join")
    plant.edge.run("device", "add", "pump-7", "--password", PASSWORD)
    Client(plant.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened().disconnect()
    plant.joins(plant.cloud.invite("hall-1")["token"])
    plant.edge.is_connected()
    plant.delivers(range(3))


@pytest.mark.machine("faketime")
def test_an_edge_whose_clock_says_1970_joins_and_renews_all_the_same(timed, clock, tmp_path):
    """Boards without a battery begin there, and nobody may ever tell them the time."""
    (tmp_path / "board").mkdir()
    board = Clock(tmp_path / "board")
    board.set(-int(time.time()))
    timed.edge.settings.environment = board.environment
    timed.has_joined()
    before = timed.membership()
    timed.cloud.stop()
    clock.set(40 * DAY_S)
    timed.cloud.start()
    wait_until(lambda: timed.edge.link()["is_connected"], PATIENCE_S)
    assert timed.membership() != before
    timed.delivers(range(3))


def test_a_password_that_was_replaced_on_disk_is_used_at_the_next_connection(plant):
    """What expired or was revoked is healed without a restart."""
    plant.edge.joins(plant.cloud, plant.cloud.tls_port)
    plant.edge.start()
    plant.edge.is_connected()
    said = plant.cloud.run("edge", "rotate", "hall-1", "--output", "json").stdout
    plant.says("revoked")
    (plant.edge.directory / "password").write_text(json.loads(said)["issued"]["password"])
    wait_until(lambda: plant.edge.link()["is_connected"], PATIENCE_S)


def signed(key: Path, request: str, directory: Path) -> str:
    """What shows that whoever has the key wants what the request asks for."""
    text = directory / "signed.txt"
    text.write_text(f"selvedge renewal of an edge's certificate, version 1\n{request}")
    words = ["openssl", "dgst", "-sha256", "-sign", str(key), str(text)]
    return base64.b64encode(subprocess.run(words, capture_output=True, check=True).stdout).decode()


def test_only_who_has_the_key_of_an_edges_own_certificate_renews_it(plant, tmp_path):
    """Not a thief of the certificate alone, not a device, not an edge of another cloud, nor one with files."""
    plant.has_joined()
    certificate, key = plant.pair()
    request = request_pem(tmp_path)
    other = plant.another_cloud()
    foreign = add_with_certificate(other, "edge", "hall-1")
    device = add_with_certificate(plant.cloud, "device", "pump-1")
    by_hand = add_with_certificate(plant.cloud, "edge", "hall-2")
    cases = [
        (certificate, device[1], "does not have its key"),
        (device[0], device[1], "is not of an edge"),
        (foreign[0], foreign[1], "of another authority"),
        (by_hand[0], by_hand[1], "did not come of an invitation"),
    ]
    for shown, signing, words in cases:
        body = {"certificate_pem": shown.read_text(), "request_pem": request}
        body["signature"] = signed(signing, request, tmp_path)
        status, said = ask(plant.cloud, "POST", "/v1/renew", body)
        assert status == 403 and words in said["error"], said
    body["certificate_pem"] = "x"
    assert ask(plant.cloud, "POST", "/v1/renew", body)[0] == 403
    body |= {"certificate_pem": certificate.read_text(), "signature": signed(key, request, tmp_path)}
    assert ask(plant.cloud, "POST", "/v1/renew", body | {"request_pem": request_pem(tmp_path)})[0] == 403
    status, grant = ask(plant.cloud, "POST", "/v1/renew", body)
    assert status == 200 and grant["edge"] == "hall-1"
    assert plant.edge.link()["is_connected"]


def test_an_edge_whose_answers_are_lost_keeps_the_certificate_that_it_has(plant, tmp_path):
    """However often it asks; what is remembered stays bounded."""
    plant.has_joined()
    certificate, key = plant.pair()
    for _ in range(20):
        request = request_pem(tmp_path)
        body = {"certificate_pem": certificate.read_text(), "request_pem": request}
        body["signature"] = signed(key, request, tmp_path)
        assert ask(plant.cloud, "POST", "/v1/renew", body)[0] == 200
    held = json.loads(plant.cloud.run("edge", "credential", "list", "hall-1", "--output", "json").stdout)
    assert 2 <= len(held) <= 5 and plant.serial() in [one["serial"] for one in held]
    plant.edge.stop()
    plant.edge.start()
    plant.edge.is_connected()
