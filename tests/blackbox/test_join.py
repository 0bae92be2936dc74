"""An edge joins a cloud with one command: tokens, servers that are not the cloud, and joins that are cut short."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import stat
import subprocess
import time

import pytest

from brokers import BINARY, ENVIRONMENT, PORTS, selvedge
from credentials import Authority
from paho_client import Client
from plants import PATIENCE_S, Plant
from sites import PASSWORD, Line, wait_until
from ways import Nginx

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "--https")]


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


def test_an_edge_goes_over_to_another_cloud_without_a_restart(plant):
    """What it sends goes there from then on."""
    plant.has_joined()
    other = plant.another_cloud()
    plant.joins(other.invite("hall-9")["token"], f"https://127.0.0.1:{other.https_port}")
    wait_until(lambda: [edge["name"] for edge in other.edges() if edge["is_connected"]] == ["hall-9"], PATIENCE_S)
    assert plant.edge.link()["cloud"] == f"mqtts://127.0.0.1:{other.tls_port}"


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


def test_a_cloud_lets_no_edge_join_without_the_doors_that_it_takes(plant, tmp_path):
    """Nor does an edge, nor a cloud that does not run."""
    plant.edge.start()
    assert "this is no cloud" in plant.edge.run("edge", "invite", "hall-1", check=False).stderr
    plant.cloud.stop()
    assert "does not run" in plant.cloud.run("edge", "invite", "hall-1", check=False).stderr
    bare = tmp_path / "bare.toml"
    bare.write_text(f'[listen]\nmqtt = ["127.0.0.1:{PORTS.take()}"]\nmqtts = []\nhttp = []\nhttps = []\n')
    words = [BINARY, "cloud", "--data", str(plant.cloud.data), "--config", str(bare)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert "ready" in process.stdout.readline()
        said = plant.cloud.run("edge", "invite", "hall-1", check=False).stderr
        process.terminate()
    assert "no door of HTTPS" in said
    done = plant.cloud.run("edge", "join", plant.url(), "--token", "x", check=False)
    assert done.returncode == 1
