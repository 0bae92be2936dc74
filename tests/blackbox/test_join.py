"""An edge joins a cloud with one command, and stays in it: invitations, certificates, renewal, and who is refused."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import time
from pathlib import Path

import pytest

from brokers import BINARY, ENVIRONMENT, PORTS, Settings, selvedge
from clocks import Clock
from credentials import Authority, add_with_certificate, context, openssl
from paho_client import Client, Refused
from sites import PASSWORD, Cloud, Edge, Line, wait_until
from test_api import Api
from ways import Nginx, Tinyproxy

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "--https")]

# The longest pause between two tries of a link or a renewal that has failed a few times, and some.
PATIENCE_S = 90
DAY_S = 86_400


class Plant:
    """A cloud, and an edge that has not heard of it."""

    def __init__(self, directory: Path, **cloud: object):
        self.directory = directory
        self.cloud = Cloud(directory / "cloud", Settings(anonymous=False, **cloud))
        self.edge = Edge(directory / "edge", Settings(anonymous=False, environment=cloud.get("environment", {})))
        for one in (self.cloud, self.edge):
            one.directory.mkdir(parents=True)
        self.cloud.start()
        self.others: list = []

    def another_cloud(self, name: str = "other") -> Cloud:
        """A cloud of somebody else."""
        other = Cloud(self.directory / name, Settings(anonymous=False))
        other.directory.mkdir()
        self.others.append(other)
        return other.start()

    def url(self) -> str:
        """Where the cloud is asked for certificates."""
        return f"https://127.0.0.1:{self.cloud.https_port}"

    def joins(self, token: str, url: str | None = None, check: bool = True) -> subprocess.CompletedProcess:
        """The one command on the edge's machine."""
        return self.edge.run("edge", "join", url or self.url(), "--token", token, check=check)

    def refuses(self, token: str, *words: str, url: str | None = None) -> str:
        """The command says these words, and leaves the edge as it was."""
        before = self.membership()
        done = self.joins(token, url, check=False)
        assert done.returncode == 1, done.stdout
        assert all(word in done.stderr for word in words), done.stderr
        assert "panicked" not in done.stderr and token not in done.stderr
        assert self.membership() == before
        return done.stderr

    def has_joined(self) -> Plant:
        """The edge runs and has its cloud."""
        self.edge.start()
        self.joins(self.cloud.invite("hall-1")["token"])
        self.edge.is_connected()
        return self

    def membership(self) -> dict | None:
        """What the edge has of its cloud."""
        path = self.edge.data / "membership.json"
        return json.loads(path.read_text()) if path.exists() else None

    def pair(self) -> tuple[Path, Path]:
        """Copies of the edge's certificate and its key."""
        membership = self.membership()
        paths = self.directory / "copy.pem", self.directory / "copy.key"
        for path, name in zip(paths, ("certificate_pem", "key_pem"), strict=True):
            path.write_text(membership[name])
        return paths

    def serial(self) -> str:
        """Serial number of the certificate that the edge has."""
        said = subprocess.run(
            ["openssl", "x509", "-noout", "-serial"],
            input=self.membership()["certificate_pem"],
            capture_output=True,
            text=True,
            check=True,
        )
        return said.stdout.strip().split("=")[1].lower()

    def delivers(self, numbers: range) -> None:
        """A device of the edge sends these readings, and all that it ever sent are in the database once."""
        self.edge.run("device", "add", "pump-7", "--password", PASSWORD, check=False)
        client = Client(self.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
        for number in numbers:
            client.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
        client.disconnect()
        rows = self.cloud.has_rows(numbers.stop, PATIENCE_S)
        assert sorted(int(number) for _, _, number in rows) == list(range(numbers.stop))

    def says(self, *words: str) -> str:
        """Why there is no link, once the edge says these words."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(word in (said := self.edge.link()["last_error"] or "") for word in words):
            assert time.monotonic() < deadline, f"{words} not in {said!r}:\n{self.edge.tail()}"
            time.sleep(0.05)  # A command gives no event when its answer changes.
        return said

    def close(self) -> None:
        """Ends all of it."""
        self.edge.stop()
        for other in self.others:
            other.stop()
        self.cloud.stop()


@pytest.fixture
def plant(tmp_path):
    """A plant of the test's own."""
    made = Plant(tmp_path)
    yield made
    made.close()


@pytest.fixture
def clock(tmp_path):
    """A clock to set."""
    return Clock(tmp_path)


@pytest.fixture
def timed(tmp_path, clock):
    """A plant that sees that clock."""
    made = Plant(tmp_path, environment=clock.environment)
    yield made
    made.close()


def secured(port: int, authority: Path) -> http.client.HTTPSConnection:
    """A client of HTTPS that believes this authority."""
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context(authority))


def ask(cloud: Cloud, method: str, path: str, body: object = None) -> tuple[int, dict]:
    """Asks a cloud over HTTPS, as nobody."""
    connection = secured(cloud.https_port, cloud.data / "ca.pem")
    with contextlib.closing(connection):
        headers = {"content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")


def request_pem(directory: Path, subject: str = "/", *extensions: str) -> str:
    """A request for a certificate, and its key beside it."""
    key, request = directory / "request.key", directory / "request.csr"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", *curve, "-keyout", str(key), "-out", str(request), "-subj", subject, *extensions)
    return request.read_text()


def test_from_nothing_to_a_row_in_the_database_with_one_command_on_each_side(plant):
    """The edge runs, is told nothing of a cloud, and is not started again."""
    plant.edge.start()
    pid = plant.edge.process.pid
    assert plant.edge.link()["cloud"] is None and plant.edge.link()["ledgers"] == []
    invitation = plant.cloud.invite("hall-1")
    assert invitation["command"] == f"selvedge edge join {plant.url()} --token {invitation['token']}"
    said = plant.joins(invitation["token"]).stdout
    assert "joined the cloud as hall-1" in said and "links now" in said
    plant.edge.is_connected()
    plant.delivers(range(20))
    assert plant.edge.process.pid == pid
    assert [edge["name"] for edge in plant.cloud.edges() if edge["is_connected"]] == ["hall-1"]
    assert "connected" in plant.cloud.run("edge", "list").stdout


def test_what_devices_said_before_there_was_a_cloud_is_kept_for_none(plant):
    """Without a cloud, routes send nothing upstream; nobody is slowed down, and the log does not grow by it."""
    plant.edge.start()
    plant.edge.run("device", "add", "pump-7", "--password", PASSWORD)
    client = Client(plant.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    for number in range(100, 105):
        client.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
    assert plant.edge.link()["ledgers"] == []
    plant.joins(plant.cloud.invite("hall-1")["token"])
    # The device stays connected: its next reading is the first that the cloud gets.
    client.publish("devices/pump-7/telemetry", json.dumps({"n": 0}), qos=1)
    client.disconnect()
    plant.delivers(range(1, 3))


def test_an_edge_that_does_not_run_joins_and_links_when_it_starts(plant):
    """And links again after each further start."""
    said = plant.joins(plant.cloud.invite("hall-1")["token"]).stdout
    assert "the edge links once it runs" in said
    plant.edge.start()
    plant.delivers(range(5))
    plant.edge.kill()
    plant.edge.start()
    plant.delivers(range(5, 10))


def test_what_an_edge_has_of_its_cloud_is_its_owners_alone(plant):
    """Nothing else of the join stays, and no secret is logged."""
    plant.has_joined()
    path = plant.edge.data / "membership.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not (plant.edge.data / "join.key").exists() and not path.with_name("membership.json.new").exists()
    for text in (plant.edge.log.read_text(), plant.cloud.log.read_text(), (plant.cloud.data / "audit.log").read_text()):
        assert "PRIVATE" not in text
    registry = (plant.cloud.data / "registry.db").read_bytes() + (plant.cloud.data / "registry.db-wal").read_bytes()
    key = base64.b64decode("".join(plant.membership()["key_pem"].splitlines()[1:-1]))
    assert key[-64:] not in registry


def test_an_edge_of_another_tenant_joins_as_such(plant):
    """Its name says so, and its readings are that tenant's."""
    plant.cloud.run("tenant", "add", "acme")
    plant.joins(plant.cloud.invite("hall-1", "--tenant", "acme")["token"])
    plant.edge.start()
    plant.edge.is_connected()
    assert plant.membership()["edge"] == "acme/hall-1"
    assert [edge["name"] for edge in plant.cloud.edges()] == ["acme/hall-1"]


def test_a_token_is_good_once(plant, tmp_path):
    """A second machine is told what happened, and the first goes on."""
    token = plant.cloud.invite("hall-1")["token"]
    plant.edge.start()
    plant.joins(token)
    plant.refuses(token, "this join token was used before", "selvedge edge invite")
    second = selvedge("edge", "join", plant.url(), "--token", token, "--data", str(tmp_path / "second"), check=False)
    assert second.returncode == 1 and "was used before" in second.stderr
    plant.edge.is_connected()


@pytest.mark.machine("faketime")
def test_a_token_that_has_expired_is_said_to_have(timed, clock):
    """By the cloud's clock."""
    token = timed.cloud.invite("hall-1", "--valid", "30m")["token"]
    clock.set(1_801)
    timed.refuses(token, "this join token expired at 20", "selvedge edge invite")


def test_a_token_that_was_withdrawn_replaced_or_whose_edge_is_gone_is_worth_nothing(plant):
    """Each is said to be, as far as the cloud knows."""
    withdrawn = plant.cloud.invite("hall-1")["token"]
    assert "join token until" in plant.cloud.run("edge", "list").stdout
    plant.cloud.run("edge", "invite", "hall-1", "--withdraw")
    assert "join token until" not in plant.cloud.run("edge", "list").stdout
    plant.refuses(withdrawn, "is not known here")
    assert "no invitation" in plant.cloud.run("edge", "invite", "hall-1", "--withdraw", check=False).stderr
    replaced = plant.cloud.invite("hall-1")["token"]
    last = plant.cloud.invite("hall-1")["token"]
    plant.refuses(replaced, "is not known here")
    plant.cloud.run("edge", "disable", "hall-1")
    plant.refuses(last, "the edge is disabled", "selvedge edge enable")
    plant.cloud.run("edge", "remove", "hall-1")
    plant.refuses(last, "is not known here")


def test_what_is_no_whole_token_is_noticed_before_anybody_is_asked(plant):
    """A part of one, one with another letter, something else."""
    token = plant.cloud.invite("hall-1")["token"]
    plant.cloud.stop()
    for garbled in (token[:-1], token[1:], token[:40] + ("A" if token[40] != "A" else "B") + token[41:], "hunter2"):
        plant.refuses(garbled, "is not a whole join token")


def test_a_token_of_another_cloud_is_shown_to_nobody(plant):
    """The server is not the one that made it, and sees no request."""
    other = plant.another_cloud()
    token = other.invite("hall-1")["token"]
    said = plant.refuses(token, "it is not the cloud that made this token", "is the URL right?")
    assert "sha256:" in said
    assert "join token" not in (plant.cloud.data / "audit.log").read_text()


@pytest.mark.machine("nginx")
def test_a_server_that_the_system_believes_is_not_shown_the_token_of_another_cloud(plant, tmp_path):
    """A web server in front of the wrong cloud."""
    other = plant.another_cloud()
    authority = Authority(tmp_path / "authority")
    nginx = Nginx(tmp_path / "nginx", authority.issue("web", "/CN=web"), 1, http=plant.cloud.http_port)
    plant.others.append(nginx.start())
    plant.edge.settings.environment = {"SSL_CERT_FILE": str(authority.certificate)}
    plant.edge.start()
    url = f"https://127.0.0.1:{nginx.port}"
    plant.refuses(other.invite("hall-1")["token"], "is not the cloud that made this token: its authority is", url=url)
    assert "login_refused" not in (plant.cloud.data / "audit.log").read_text()


@pytest.mark.machine("nginx")
def test_a_certificate_that_borrows_the_authority_of_the_cloud_is_not_believed(plant, tmp_path):
    """A server that shows the cloud's own authority, and cannot sign in its name."""
    token = plant.cloud.invite("hall-1")["token"]
    certificate, key = Authority(tmp_path / "authority").issue("web", "/CN=web")
    chain = tmp_path / "chain.pem"
    chain.write_text(certificate.read_text() + (plant.cloud.data / "ca.pem").read_text())
    nginx = Nginx(tmp_path / "nginx", (chain, key), 1, http=plant.cloud.http_port)
    plant.others.append(nginx.start())
    plant.refuses(token, "it is not the cloud that made this token", url=f"https://127.0.0.1:{nginx.port}")


def test_what_is_no_cloud_at_all_is_said_to_be(plant, tmp_path):
    """A port without TLS, one where nobody listens, an edge, and a name that the certificate lacks."""
    token = plant.cloud.invite("hall-1")["token"]
    check = plant.refuses
    check(token, "does not speak TLS", "the URL", url=f"https://127.0.0.1:{plant.cloud.http_port}")
    check(token, "Connection refused", url=f"https://127.0.0.1:{PORTS.take()}")
    check(token, "is no URL of HTTPS", url=f"http://127.0.0.1:{plant.cloud.http_port}")
    check(token, "is no URL of HTTPS", url="cloud.example")


def test_a_cloud_that_is_asked_by_a_name_that_its_certificate_lacks_is_said_to_have_another(tmp_path):
    """And the command that the cloud prints has the right one."""
    plant = Plant(tmp_path, configuration='tls.names = ["cloud.example"]\n')
    try:
        invitation = plant.cloud.invite("hall-1")
        assert invitation["url"] == f"https://cloud.example:{plant.cloud.https_port}"
        plant.refuses(invitation["token"], "its certificate is for another host than the URL names", "cloud.example")
    finally:
        plant.close()


@pytest.mark.machine("nginx")
def test_behind_a_web_server_that_the_system_believes_an_edge_joins(tmp_path):
    """The web server ends TLS of HTTPS; the link goes to the cloud's own door, over a WebSocket."""
    authority = Authority(tmp_path / "authority")
    websocket_port = PORTS.take()
    configuration = f"""
        [listen]
        mqtt_wss = ["127.0.0.1:{websocket_port}"]
        [enrolment]
        url = "https://cloud.example"
        link_url = "wss://{{host}}:{websocket_port}"
    """
    plant = Plant(tmp_path, configuration=configuration)
    nginx = Nginx(tmp_path / "nginx", authority.issue("web", "/CN=web"), 1, http=plant.cloud.http_port)
    plant.others.append(nginx.start())
    try:
        plant.edge.settings.environment = {"SSL_CERT_FILE": str(authority.certificate)}
        plant.edge.start()
        invitation = plant.cloud.invite("hall-1")
        assert invitation["url"] == "https://cloud.example"
        plant.joins(invitation["token"], f"https://127.0.0.1:{nginx.port}")
        plant.edge.is_connected()
        plant.delivers(range(3))
        assert plant.edge.link()["cloud"] == f"wss://127.0.0.1:{websocket_port}/mqtt"
    finally:
        plant.close()


def test_an_operators_own_certificate_at_the_door_of_https_is_believed_if_the_system_does(tmp_path):
    """And the link believes it as well."""
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("cloud", "/CN=cloud")
    plant = Plant(tmp_path, arguments=["--tls-certificate", str(certificate), "--tls-key", str(key)])
    try:
        plant.edge.start()
        token = plant.cloud.invite("hall-1")["token"]
        plant.refuses(token, "it is not the cloud that made this token")
        plant.edge.stop()
        plant.edge.settings.environment = {"SSL_CERT_FILE": str(authority.certificate)}
        plant.edge.start()
        plant.joins(token)
        plant.edge.is_connected()
        plant.delivers(range(3))
    finally:
        plant.close()


class Swallowing(Line):
    """A line on whose second connection nothing comes back once the edge has asked: its handshake is over by then."""

    connections = 0
    asked_bytes = 0

    def _accept(self) -> None:
        self.connections += 1
        self.asked_bytes = 0
        super()._accept()

    def _pass_on(self, end: socket.socket) -> None:
        data = end.recv(1 << 16)
        # Keys of the selector say which end is the edge's.
        if self.selector.get_key(end).data:
            self.asked_bytes += len(data)
        elif self.connections > 1 and self.asked_bytes > 900:
            if not data:
                # Nor is the edge told that the cloud has hung up.
                self.selector.unregister(end)
            return
        if data:
            self.pairs[end].sendall(data)
        else:
            self._forget(end)


def test_a_join_that_is_killed_before_it_has_its_certificate_goes_on_where_it_was(plant):
    """The token was used, and is good for the key that it was used with."""
    token = plant.cloud.invite("hall-1")["token"]
    line = Swallowing(plant.cloud.https_port)
    words = ["edge", "join", f"https://127.0.0.1:{line.port}", "--token", token, "--data", str(plant.edge.data)]
    joining = subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    try:
        wait_until(lambda: "certificate" in plant.cloud.run("edge", "list").stdout)
        assert joining.poll() is None, joining.communicate()
        os.kill(joining.pid, signal.SIGKILL)
        joining.communicate()
    finally:
        line.close()
    assert plant.membership() is None and (plant.edge.data / "join.key").exists()
    plant.joins(token)
    plant.edge.start()
    plant.edge.is_connected()
    plant.delivers(range(3))
    plant.refuses(token, "was used before")


def test_a_join_that_is_killed_at_any_instant_can_be_begun_again(plant):
    """It has joined, or the same command has it do so."""
    for number in range(12):
        token = plant.cloud.invite(f"hall-{number}")["token"]
        data = plant.directory / f"edge-{number}"
        words = ["edge", "join", plant.url(), "--token", token, "--data", str(data)]
        joining = subprocess.Popen([BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
        time.sleep(0.004 * number)  # The instant of the kill is what is tested.
        joining.kill()
        joining.communicate()
        membership = data / "membership.json"
        if not membership.exists():
            selvedge(*words)
        assert json.loads(membership.read_text())["edge"] == f"hall-{number}"


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


def test_an_edge_goes_over_to_another_cloud_without_a_restart(plant):
    """What it sends goes there from then on."""
    plant.has_joined()
    other = plant.another_cloud()
    plant.joins(other.invite("hall-9")["token"], f"https://127.0.0.1:{other.https_port}")
    wait_until(lambda: [edge["name"] for edge in other.edges() if edge["is_connected"]] == ["hall-9"], PATIENCE_S)
    assert plant.edge.link()["cloud"] == f"mqtts://127.0.0.1:{other.tls_port}"


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


def test_a_configuration_that_names_a_cloud_wins_and_join_says_so(plant):
    """Nothing that a person wrote is overruled by a command."""
    plant.edge.joins(plant.cloud, plant.cloud.tls_port)
    plant.edge.start()
    plant.edge.is_connected()
    plant.refuses(plant.cloud.invite("hall-2")["token"], "link.url", "wins")
    plant.edge.stop()
    plant.joins(plant.cloud.invite("hall-2")["token"])
    plant.edge.start()
    plant.edge.said("its configuration names one (link.url), which wins")
    plant.edge.is_connected()
    assert [edge["name"] for edge in plant.cloud.edges() if edge["is_connected"]] == ["hall-1"]


def test_a_password_that_was_replaced_on_disk_is_used_at_the_next_connection(plant):
    """What expired or was revoked is healed without a restart."""
    plant.edge.joins(plant.cloud, plant.cloud.tls_port)
    plant.edge.start()
    plant.edge.is_connected()
    said = plant.cloud.run("edge", "rotate", "hall-1", "--output", "json").stdout
    plant.says("revoked")
    (plant.edge.directory / "password").write_text(json.loads(said)["issued"]["password"])
    wait_until(lambda: plant.edge.link()["is_connected"], PATIENCE_S)


def test_a_cloud_lets_no_edge_join_without_the_doors_that_it_takes(plant, tmp_path):
    """Nor does an edge, nor a cloud that does not run."""
    plant.edge.start()
    assert "this is no cloud" in plant.edge.run("edge", "invite", "hall-1", check=False).stderr
    plant.cloud.stop()
    assert "does not run" in plant.cloud.run("edge", "invite", "hall-1", check=False).stderr
    bare = tmp_path / "bare.toml"
    bare.write_text(f'[listen]\nmqtt = ["127.0.0.1:{PORTS.take()}"]\n')
    words = [BINARY, "cloud", "--data", str(plant.cloud.data), "--config", str(bare)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert "ready" in process.stdout.readline()
        said = plant.cloud.run("edge", "invite", "hall-1", check=False).stderr
        process.terminate()
    assert "no door of HTTPS" in said
    done = plant.cloud.run("edge", "join", plant.url(), "--token", "x", check=False)
    assert done.returncode == 1


def test_of_a_request_nothing_but_its_key_counts(plant, tmp_path):
    """Names, uses and times are the cloud's."""
    token = plant.cloud.invite("hall-1")["token"]
    asked = ["-addext", "subjectAltName=DNS:cloud.example", "-addext", "basicConstraints=critical,CA:TRUE"]
    request = request_pem(tmp_path, "/O=acme/CN=admin", *asked)
    status, grant = ask(plant.cloud, "POST", "/v1/join", {"token": token, "request_pem": request})
    assert status == 200 and grant["edge"] == "hall-1"
    (tmp_path / "granted.pem").write_text(grant["certificate_pem"])
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-text", "-in", str(tmp_path / "granted.pem")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "CN = hall-1" in shown and "O = default" in shown and "TLS Web Client Authentication" in shown
    assert "cloud.example" not in shown and "CA:TRUE" not in shown and "admin" not in shown


def test_what_is_no_request_of_a_key_of_ours_is_refused(plant, tmp_path):
    """Another kind of key, a signature of somebody else, no PEM; the token stays good."""
    token = plant.cloud.invite("hall-1")["token"]
    good = request_pem(tmp_path)
    rsa, key = tmp_path / "rsa.csr", tmp_path / "rsa.key"
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(rsa), "-subj", "/")
    der = bytearray(base64.b64decode("".join(good.splitlines()[1:-1])))
    der[-1] ^= 1
    forged = good.splitlines()[0] + "\n" + base64.b64encode(der).decode() + "\n" + good.splitlines()[-1] + "\n"
    for bad in (rsa.read_text(), forged, "", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"):
        status, said = ask(plant.cloud, "POST", "/v1/join", {"token": token, "request_pem": bad})
        assert status == 400 and said["error"].startswith("certificate request: "), said
    assert ask(plant.cloud, "POST", "/v1/join", {"token": token, "request_pem": good})[0] == 200


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


def test_a_copy_of_an_edges_certificate_opens_no_door_of_another_kind(plant, tmp_path):
    """It is no user's, no device's, and nothing at another cloud."""
    plant.has_joined()
    certificate, key = plant.pair()
    trusted = context(plant.cloud.data / "ca.pem", certificate, key)
    connection = http.client.HTTPSConnection("127.0.0.1", plant.cloud.https_port, timeout=10, context=trusted)
    with contextlib.closing(connection):
        connection.request("GET", "/v1/tenants/default/devices")
        assert connection.getresponse().status == 401
    # As somebody else, and as what it is: the name is taken by the edge that it was copied from.
    for user in ("acme/hall-1", "pump-7", "hall-2"):
        with pytest.raises(Refused):
            Client(plant.cloud.tls_port, "x", tls=trusted, user=user).opened()
    with pytest.raises(Refused):
        Client(plant.cloud.tls_port, "hall-1", tls=trusted).opened()
    assert plant.edge.link()["is_connected"]


def test_at_another_cloud_an_edges_certificate_fails_the_handshake_of_every_door(plant):
    """MQTT, WebSocket and HTTPS."""
    plant.has_joined()
    certificate, key = plant.pair()
    other = plant.another_cloud()
    websocket_port = PORTS.take()
    other.stop()
    other.settings.arguments = ["--mqtt-wss", f"127.0.0.1:{websocket_port}"]
    other.start()
    trusted = context(other.data / "ca.pem", certificate, key)
    for port in (other.tls_port, websocket_port, other.https_port):
        stream = socket.create_connection(("127.0.0.1", port), 10)
        with stream, pytest.raises((ssl.SSLError, ConnectionResetError)):
            # In TLS 1.3 the client's handshake ends before its certificate is looked at.
            trusted.wrap_socket(stream).recv(1)


def test_who_tries_tokens_again_and_again_waits(plant, tmp_path):
    """By address; the right one waits with the others."""
    other = plant.another_cloud()
    wrong = [other.invite(f"hall-{number}")["token"] for number in range(55)]
    request = request_pem(tmp_path)
    statuses = [ask(plant.cloud, "POST", "/v1/join", {"token": token, "request_pem": request})[0] for token in wrong]
    assert statuses[:50] == [403] * 50 and 429 in statuses
    good = plant.cloud.invite("hall-1")["token"]
    assert ask(plant.cloud, "POST", "/v1/join", {"token": good, "request_pem": request})[0] == 429


def test_bodies_that_are_too_long_and_handshakes_that_never_end_hold_up_nobody(plant):
    """Bounded before anybody is known."""
    port = plant.cloud.https_port
    trusted = context(plant.cloud.data / "ca.pem")
    with socket.create_connection(("127.0.0.1", port), 10) as stream, trusted.wrap_socket(stream) as secure:
        secure.sendall(b"POST /v1/join HTTP/1.1\r\nhost: x\r\ncontent-length: 20000\r\n\r\n")
        assert secure.recv(100).startswith(b"HTTP/1.1 413 ")
    idle = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(20)]
    try:
        assert ask(plant.cloud, "GET", "/v1/authority")[0] == 200
        # Whoever says nothing is left.
        idle[0].settimeout(PATIENCE_S)
        assert idle[0].recv(1) == b""
    finally:
        for one in idle:
            one.close()


def test_users_invite_edges_by_the_api_if_they_may(plant):
    """It takes an admin of the whole cloud: an edge may be made to speak for any tenant."""
    admin = Api(plant.cloud).log_in("admin", (plant.cloud.data / "admin.password").read_text().strip())
    plant.cloud.run("user", "add", "anna", "--role", "operator", "--password", PASSWORD)
    plant.cloud.run("user", "add", "default/otto", "--role", "admin", "--password", PASSWORD)
    path = "/v1/tenants/default/edges/hall-1/invitation"
    for user in ("anna", "default/otto"):
        assert Api(plant.cloud).log_in(user, PASSWORD).ask("POST", path, {"valid_s": 60})[0] == 403
    assert Api(plant.cloud).ask("POST", path, {"valid_s": 60})[0] == 401
    assert admin.ask("POST", path, {"valid_s": 59})[0] == 400
    plant.cloud.run("device", "add", "pump-7")
    assert admin.ask("POST", path.replace("hall-1", "pump-7"), {"valid_s": 60})[0] == 409
    status, invitation = admin.ask("POST", path, {"valid_s": 60})
    assert status == 201 and invitation["is_new"]
    plant.joins(invitation["token"])
    assert admin.ask("DELETE", path)[0] == 204
    lines = [json.loads(line) for line in (plant.cloud.data / "audit.log").read_text().splitlines()]
    by = [(line["by"], line["what"].split(" ")[0]) for line in lines if line.get("id") == "hall-1"]
    assert by == [("admin", "join"), ("hall-1", "certificate"), ("admin", "join")]


def test_the_door_of_https_shows_what_the_operator_put_there_after_a_reload(tmp_path):
    """As the doors of MQTT do, and drops nobody."""
    authority = Authority(tmp_path / "authority")
    certificate, key = authority.issue("first", "/CN=first")
    plant = Plant(tmp_path, arguments=["--tls-certificate", str(certificate), "--tls-key", str(key)])
    try:

        def shown() -> str:
            with (
                socket.create_connection(("127.0.0.1", plant.cloud.https_port), 10) as stream,
                context(authority.certificate).wrap_socket(stream) as secure,
            ):
                return dict(pair for (pair,) in secure.getpeercert()["subject"])["commonName"]

        assert shown() == "first"
        second = authority.issue("second", "/CN=second")
        for path, new in zip((certificate, key), second, strict=True):
            path.write_bytes(new.read_bytes())
        plant.cloud.signal(signal.SIGHUP)
        wait_until(lambda: shown() == "second")
    finally:
        plant.close()


def test_the_document_describes_how_edges_join(plant):
    """Without a login, as they have none."""
    status, document = ask(plant.cloud, "GET", "/v1/openapi.json")
    assert status == 200
    for path in ("/v1/authority", "/v1/join", "/v1/renew"):
        (operation,) = document["paths"][path].values()
        assert operation["tags"] == ["enrolment"] and "security" not in operation
    assert set(document["paths"]["/v1/tenants/{tenant}/edges/{id}/invitation"]) == {"post", "delete"}
