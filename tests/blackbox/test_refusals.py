"""Every door, and each credential that is wrong there: expired, revoked, of somebody else, none. All get their code."""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import raw
import wire
from brokers import PORTS, Selvedge, Settings
from clocks import Clock
from credentials import add_with_certificate, context
from http_api import Api
from paho_client import Client
from plants import DAY_S
from sites import PASSWORD, Cloud, Edge
from test_doors import Web

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "--https"), pytest.mark.machine("faketime")]

# Reason codes of MQTT 5.0, section 3.2.2.2.
BAD_LOGIN, NOT_AUTHORIZED = 0x86, 0x87
# TLS alerts, RFC 8446, section 6.2.
EXPIRED, UNKNOWN_AUTHORITY = "CERTIFICATE_EXPIRED", "UNKNOWN_CA"

# What is shown at a door of MQTT, and what is said to it; of devices and of edges alike.
SECRETS = {
    "nothing": NOT_AUTHORIZED,
    "a name alone": BAD_LOGIN,
    "a wrong password": BAD_LOGIN,
    "a password of another tenant": BAD_LOGIN,
    "a password of another cloud": BAD_LOGIN,
    "a password that was replaced": BAD_LOGIN,
    "a password of one that was disabled": NOT_AUTHORIZED,
    "a password of one that was removed": BAD_LOGIN,
}
TOKENS = {
    "a token that expired": BAD_LOGIN,
    "a token that was revoked": BAD_LOGIN,
    "a token of another tenant": BAD_LOGIN,
    "a token of another cloud": BAD_LOGIN,
    "a token with another signature": BAD_LOGIN,
    "a token of a user": BAD_LOGIN,
}
CERTIFICATES = {
    "a certificate that expired": EXPIRED,
    "a certificate that was revoked": BAD_LOGIN,
    "a certificate of another tenant": BAD_LOGIN,
    "a certificate of another cloud": UNKNOWN_AUTHORITY,
}
USERS = {
    "nothing": 401,
    "a token that expired": 401,
    "a token of a login that ended": 401,
    "a token of one that was removed": 401,
    "a token of before another password": 401,
    "a token of another tenant": 404,
    "a token of another cloud": 401,
    "a token with another signature": 401,
    "a token of a device": 401,
    "a refresh token": 401,
    "a password": 401,
}


@dataclass
class Shown:
    """What somebody presents."""

    user: str | None = None
    secret: str | None = None
    pair: tuple[Path, Path] | None = None


@dataclass
class Town:
    """A cloud with some who are in, and credentials with which nobody comes in."""

    cloud: Cloud
    other: Cloud
    websocket_port: int
    shown: dict[tuple[str, str], Shown] = field(default_factory=dict)
    # Each refusal is of an address of its own: nobody waits for the failures of another.
    addresses: Iterator[str] = field(
        default_factory=lambda: (f"127.0.{number // 250 + 1}.{number % 250 + 1}" for number in itertools.count())
    )

    def reach(self, port: int) -> socket.socket:
        """A connection from an address that nobody had before."""
        return socket.create_connection(("127.0.0.1", port), raw.PATIENCE_S, source_address=(next(self.addresses), 0))

    def nobody_is_harmed(self) -> None:
        """Who is in goes on."""
        self.pump.publish("devices/pump/telemetry", b"1", qos=1)
        assert self.admin.ask("GET", "/v1/tenants/default/devices/pump")[0] == 200


def made(node: Selvedge, kind: str, name: str, *words: str) -> str:
    """A password or a token of one that is added."""
    said = node.run(kind, "add", name, *words, "--output", "json").stdout
    (secret,) = json.loads(said)[0]["issued"].values()
    return secret


def certified(node: Selvedge, kind: str, name: str, *words: str) -> tuple[Path, Path]:
    """A certificate of one that is added, and its key."""
    return add_with_certificate(node, kind, name, *words)


def forged(token: str) -> str:
    """With another signature."""
    head, body, signature = token.split(".")
    return f"{head}.{body}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}"


def bearer(cloud: Cloud, user: str) -> Shown:
    """The access token of a login."""
    return Shown(secret=Api(cloud).log_in(user, PASSWORD).authorization.removeprefix("Bearer "))


def of_kind(town: Town, kind: str) -> dict[str, Shown]:
    """What devices show, or edges."""
    cloud, other = town.cloud, town.other
    shown = {"nothing": Shown(), "a name alone": Shown("one"), "a wrong password": Shown(kind, "wrong")}
    made(cloud, kind, kind)
    shown["a password of another tenant"] = Shown(kind, made(cloud, kind, kind, "--tenant", "acme"))
    shown["a password of another cloud"] = Shown(kind, made(other, kind, kind))
    for done, word in (("rotate", "replaced"), ("disable", "disabled"), ("remove", "removed")):
        name = f"{kind}-{word}"
        says = "a password that was replaced" if word == "replaced" else f"a password of one that was {word}"
        shown[says] = Shown(name, made(cloud, kind, name))
        cloud.run(kind, done, name)
    revoked = certified(cloud, kind, f"{kind}-revoked")
    held = json.loads(cloud.run(kind, "credential", "list", f"{kind}-revoked", "--output", "json").stdout)
    cloud.run(kind, "credential", "revoke", f"{kind}-revoked", held[0]["serial"])
    shown["a certificate that was revoked"] = Shown(pair=revoked)
    theirs = certified(cloud, kind, f"{kind}-theirs", "--tenant", "acme")
    made(cloud, kind, f"{kind}-theirs")
    shown["a certificate of another tenant"] = Shown(f"{kind}-theirs", pair=theirs)
    shown["a certificate of another cloud"] = Shown(pair=certified(other, kind, f"{kind}-other"))
    return shown


def of_devices(town: Town) -> dict[str, Shown]:
    """What devices show beside that."""
    cloud, other = town.cloud, town.other
    shown = {"a token that was revoked": Shown("bearer", made(cloud, "device", "bearer", "--token"))}
    cloud.run("device", "credential", "revoke", "bearer", "token")
    token = made(cloud, "device", "valve", "--token")
    shown["a token of another tenant"] = Shown("valve", made(cloud, "device", "valve", "--tenant", "acme", "--token"))
    shown["a token of another cloud"] = Shown("valve", made(other, "device", "valve", "--token"))
    shown["a token with another signature"] = Shown("valve", forged(token))
    shown["a token of a user"] = Shown("valve", bearer(cloud, "anna").secret)
    return shown


def of_users(town: Town) -> dict[str, Shown]:
    """What users show."""
    cloud = town.cloud
    for name in ("gone", "out", "changed", "acme/anna"):
        cloud.run("user", "add", name, "--role", "admin", "--password", PASSWORD)
    shown = {"nothing": Shown(), "a password": Shown("anna", PASSWORD)}
    shown["a token of one that was removed"] = bearer(cloud, "gone")
    cloud.run("user", "remove", "gone")
    shown["a token of a login that ended"] = ended = bearer(cloud, "out")
    assert Api(cloud, f"Bearer {ended.secret}").ask("POST", "/v1/logout")[0] == 204
    shown["a token of before another password"] = bearer(cloud, "changed")
    cloud.run("user", "rotate", "changed")
    shown["a token of another tenant"] = bearer(cloud, "acme/anna")
    town.other.run("user", "add", "anna", "--role", "admin", "--password", PASSWORD)
    shown["a token of another cloud"] = bearer(town.other, "anna")
    good = bearer(cloud, "anna")
    shown["a token with another signature"] = Shown(secret=forged(good.secret))
    shown["a token of a device"] = Shown(secret=made(cloud, "device", "lamp", "--token"))
    _, said = Api(cloud).ask("POST", "/v1/login", {"user": "anna", "password": PASSWORD})
    shown["a refresh token"] = Shown(secret=said["refresh_token"])
    return shown


def furnish(town: Town, clock: Clock) -> None:
    """Makes what is shown, and lets two days go by for what is to expire."""
    cloud = town.cloud
    cloud.run("tenant", "add", "acme")
    cloud.run("user", "add", "anna", "--role", "admin", "--password", PASSWORD)
    day = ("--valid-days", "1")
    short = {("user", "a token that expired"): bearer(cloud, "anna")}
    short["device", "a token that expired"] = Shown("late", made(cloud, "device", "late", "--token", *day))
    for kind in ("device", "edge"):
        pair = certified(cloud, kind, f"{kind}-late", *day)
        short[kind, "a certificate that expired"] = Shown(pair=pair)
    clock.set(2 * DAY_S)
    for kind, shown in (
        ("device", of_kind(town, "device") | of_devices(town)),
        ("edge", of_kind(town, "edge")),
        ("user", of_users(town)),
    ):
        town.shown |= {(kind, what): one for what, one in shown.items()}
    town.shown |= short


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """Made once: nothing of it is changed by who is refused."""
    directory = tmp_path_factory.mktemp("town")
    clock, websocket_port = Clock(directory), PORTS.take()
    settings = {"anonymous": False, "environment": clock.environment}
    arguments = ["--mqtt-ws", f"127.0.0.1:{websocket_port}"]
    cloud = Cloud(directory / "cloud", Settings(arguments=arguments, **settings))
    other = Cloud(directory / "other", Settings(**settings))
    edge = Edge(directory / "edge", Settings(anonymous=False))
    for one in (cloud, other, edge):
        one.directory.mkdir()
    with contextlib.ExitStack() as stack:
        for one in (cloud, other):
            stack.callback(one.stop)
            one.start()
        town = Town(cloud, other, websocket_port)
        furnish(town, clock)
        cloud.run("device", "add", "pump", "--password", PASSWORD)
        town.pump = Client(cloud.port, "pump", user="pump", password=PASSWORD).opened()
        town.admin = Api(cloud).log_in("anna", PASSWORD)
        edge.joins(cloud, cloud.tls_port)
        stack.callback(edge.stop)
        edge.start()
        edge.is_connected()
        connected = edge.link()["since_s"]
        yield town
        link = edge.link()
        assert link["is_connected"] and link["since_s"] >= connected, "it had to connect again"
        town.pump.disconnect()


def refusal_of(connection: raw.Connection, shown: Shown, properties: wire.Properties = ()) -> int | str | None:
    """The reason in CONNACK, or the alert of TLS that stands for it."""
    password = None if shown.secret is None else shown.secret.encode()
    try:
        return connection.send(wire.connect("x", user=shown.user, password=password, properties=properties)).verdict()
    except ssl.SSLError as error:
        return next((alert for alert in (EXPIRED, UNKNOWN_AUTHORITY) if alert in str(error).upper()), str(error))


def secured(town: Town, shown: Shown) -> raw.Connection:
    """A connection of TLS, with the certificate that is shown."""
    return raw.Connection(
        context(town.cloud.data / "ca.pem", *(shown.pair or ())).wrap_socket(town.reach(town.cloud.tls_port))
    )


@pytest.mark.parametrize("what", SECRETS | TOKENS)
def test_at_the_door_of_mqtt(town, what):
    shown = town.shown["device", what]
    assert refusal_of(raw.Connection(town.reach(town.cloud.port)), shown) == (SECRETS | TOKENS)[what]
    town.nobody_is_harmed()


@pytest.mark.parametrize("what", SECRETS | TOKENS | CERTIFICATES)
def test_at_the_door_of_mqtts(town, what):
    shown = town.shown["device", what]
    assert refusal_of(secured(town, shown), shown) == (SECRETS | TOKENS | CERTIFICATES)[what]
    town.nobody_is_harmed()


@pytest.mark.parametrize("what", SECRETS | TOKENS)
def test_at_the_door_of_websocket(town, what):
    shown = town.shown["device", what]
    web = Web(town.websocket_port, stream=town.reach(town.websocket_port))
    assert web.status == 101
    web.frame(wire.connect("x", user=shown.user, password=shown.secret and shown.secret.encode()))
    opcode, answer = web.read()
    assert (opcode, answer[0], answer[3]) == (2, 0x20, (SECRETS | TOKENS)[what])
    assert web.read()[0] == 8
    town.nobody_is_harmed()


@pytest.mark.parametrize("what", SECRETS | CERTIFICATES)
def test_at_the_door_of_links(town, what):
    shown = town.shown["edge", what]
    asks_for_link = [("user_property", ("selvedge-link", "1")), ("user_property", ("instance", "x"))]
    assert refusal_of(secured(town, shown), shown, asks_for_link) == (SECRETS | CERTIFICATES)[what]
    town.nobody_is_harmed()


def asked(town: Town, method: str, path: str, authorization: str | None) -> int:
    """The status; every error has words."""
    connection = http.client.HTTPConnection(
        "127.0.0.1", town.cloud.http_port, timeout=raw.PATIENCE_S, source_address=(next(town.addresses), 0)
    )
    headers = {"content-type": "application/json"} | ({"authorization": authorization} if authorization else {})
    with contextlib.closing(connection):
        connection.request(method, path, b"{}" if method == "POST" else None, headers)
        answer = connection.getresponse()
        assert json.loads(answer.read())["error"]
        return answer.status


def header(shown: Shown) -> str | None:
    """A name and what proves it, or a token by itself."""
    if shown.user is not None:
        return "Basic " + base64.b64encode(f"{shown.user}:{shown.secret or ''}".encode()).decode()
    return f"Bearer {shown.secret}" if shown.secret else None


@pytest.mark.parametrize("what", SECRETS | TOKENS)
def test_at_the_door_where_devices_post(town, what):
    shown = town.shown["device", what]
    headers = [header(shown)] + ([f"Bearer {shown.secret}"] if what in TOKENS else [])
    for authorization in headers:
        path = f"/v1/devices/{shown.user or 'pump'}/telemetry"
        # What is good elsewhere says who it is, and that is somebody else.
        expected = 403 if what == "a token of another tenant" and authorization.startswith("Bearer") else 401
        if expected == 403:
            path = path.replace("/v1/", "/v1/tenants/default/")
        assert asked(town, "POST", path, authorization) == expected
    town.nobody_is_harmed()


@pytest.mark.parametrize("what", USERS)
def test_at_the_door_of_users(town, what):
    shown = town.shown["user", what]
    for method, path in (("GET", "/v1/tenants/default/devices"), ("POST", "/v1/tenants/default/devices")):
        assert asked(town, method, path, header(shown)) == USERS[what]
    town.nobody_is_harmed()
