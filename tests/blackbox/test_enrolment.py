"""What a cloud asks of those who want a certificate of it, and what a certificate is good for."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import signal
import socket
import ssl
import subprocess

import pytest

from brokers import PORTS
from credentials import Authority, context, openssl
from http_api import Api
from paho_client import Client, Refused
from plants import PATIENCE_S, Plant, ask, request_pem
from sites import PASSWORD, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "--https")]


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


def test_an_edge_gets_no_token_which_would_end_while_it_has_no_line(plant):
    """Neither at first, nor as another, nor in place of all that it has; what it has stays good."""
    said = json.loads(plant.cloud.run("edge", "add", "hall-1", "--output", "json").stdout)
    password = said[0]["issued"]["password"]
    for words in (["add", "hall-2"], ["credential", "add", "hall-1"], ["rotate", "hall-1"]):
        refused = plant.cloud.run("edge", *words, "--token", check=False)
        assert refused.returncode == 1 and "an edge gets no token" in refused.stderr, words
        assert "selvedge edge invite" in refused.stderr
    assert [edge["name"] for edge in plant.cloud.edges()] == ["hall-1"]
    Client(plant.cloud.port, "hall-1", user="hall-1", password=password).opened().disconnect()
