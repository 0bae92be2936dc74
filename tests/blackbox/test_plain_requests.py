"""Requests of HTTP/1.1 that are a head and no more, and their answers: as they pass doors of one node, and of two."""

from __future__ import annotations

import http.client
import socket
import sys
import time
from pathlib import Path

import pytest

from applications import application, apply, ending, runs
from brokers import PORTS
from raw import PATIENCE_S
from sites import wait_until
from test_mesh import site  # noqa: F401  (a fixture)
from test_networks import service, services

pytestmark = [pytest.mark.contract, pytest.mark.needs("site")]

# Of one node, the kernel would lead past the door.
BY_THE_DOOR = 'annotations: {selvedge.dev/slow-start: "1s"}'


class Web:
    """The service `web`, as the first node leads to it."""

    def __init__(self, here, there):
        self.heard_in = there.directory / "answers"
        self.heard_in.mkdir()
        port = PORTS.take()
        script = f"exec {sys.executable} {Path(__file__).with_name('plain_server.py')} {port} {self.heard_in}"
        ready = f", readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 1}}"
        web = service("web", "web", target=port).replace("namespace: default", f"namespace: default, {BY_THE_DOOR}")
        apply(there, application("web", script, ready) + "---\n" + web)
        if here is not there:
            apply(here, service("web", "web"))
        runs(there, "web")
        self.at = services(here)["web"], 80
        wait_until(lambda: self.asks("/plain")[0] == 200)

    def asks(self, path: str, method: str = "GET") -> tuple[int, bytes, dict[str, str]]:
        """One request by a connection of its own."""
        connection = http.client.HTTPConnection(*self.at, timeout=PATIENCE_S)
        try:
            return asked(connection, path, method)
        finally:
            connection.close()

    def heard(self) -> list[str]:
        """Requests that came to the application."""
        return (self.heard_in / "heard").read_text().splitlines()

    def connected(self) -> socket.socket:
        """A connection of nobody's yet."""
        return socket.create_connection(self.at, timeout=PATIENCE_S)


def asked(connection: http.client.HTTPConnection, path: str, method: str = "GET") -> tuple[int, bytes, dict[str, str]]:
    """The answer to one request of a connection."""
    connection.request(method, path)
    answer = connection.getresponse()
    return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}


@pytest.fixture(params=["one node", "two nodes"])
def web(request, start):
    """The service of a node of its own, and of another one."""
    if request.param == "two nodes":
        yield Web(*request.getfixturevalue("site")("here", "there"))
        return
    with ending(start(http=True)) as edge:
        yield Web(edge, edge)


HELLO = (200, b"hello")
ANSWERED = {
    "/plain": HELLO,
    "/pieces": HELLO,
    "/chunked": HELLO,
    "/hints": HELLO,
    "/none": (204, b""),
    "/known": (304, b""),
    "/last": HELLO,
    "/long": (200, b"x" * 1_000_000),
    "/elsewhere": (404, b""),
    "/until-end": HELLO,
}


def test_answers_pass_as_they_are_however_their_end_is_said(web):
    # All by one connection, which ends with the last one alone.
    connection = http.client.HTTPConnection(*web.at, timeout=PATIENCE_S)
    connection.connect()
    first = connection.sock
    for path, expected in ANSWERED.items():
        assert connection.sock is first, path
        status, body, fields = asked(connection, path)
        assert (status, body) == expected, path
        assert {"x-own", "x-sum", "selvedge-busy", "selvedge-failed"}.isdisjoint(fields), path
        assert (fields.get("connection") == "close") == (path == "/until-end"), path
    connection.close()
    status, body, fields = web.asks("/plain", "HEAD")
    assert (status, body, fields["content-length"]) == (200, b"", "5")


def test_an_answer_that_does_not_come_to_its_end_is_not_taken_for_a_whole_one(web):
    for path in ("/cut", "/bad-chunk"):
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)) as cut:
            web.asks(path)
        assert getattr(cut.value, "partial", b"hello") in (b"hello", b"")
    assert web.asks("/plain")[:2] == HELLO


def test_requests_that_are_sent_at_once_are_answered_in_their_order_whatever_they_are(web):
    sent = [
        "GET /plain HTTP/1.1\r\nHost: web\r\nConnection: keep-alive\r\nX-Own: 1\r\n\r\n",
        "GET /chunked HTTP/1.1\r\nHost: web\r\n\r\n",
        "HEAD /plain HTTP/1.1\r\nHost: web\r\n\r\n",
        "DELETE /none HTTP/1.1\r\nHost: web\r\n\r\n",
        # From here on it is somebody else's.
        "POST /echo HTTP/1.1\r\nHost: web\r\nContent-Length: 7\r\n\r\na body.",
        "GET /known HTTP/1.1\r\nHost: web\r\n\r\n",
        "GET /last HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n",
    ]
    before = len(web.heard())
    with web.connected() as stream:
        stream.sendall("".join(sent).encode())
        said = b""
        while more := stream.recv(65_536):
            said += more
    statuses = [part.split(b" ", 1)[0] for part in said.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"200", b"200", b"200", b"204", b"200", b"304", b"200"], said
    heard = [line.split(" [")[0] for line in web.heard()[before:]]
    assert heard == [line.rsplit(" HTTP", 1)[0] for line in sent]
    first = web.heard()[before]
    assert "connection" not in first and "x-own" in first


def test_a_head_may_come_in_as_many_pieces_as_it_has_bytes(web):
    with web.connected() as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET /plain HTTP/1.1\r\nHost: web\r\nX-Own: 1\r\n\r\n":
            stream.sendall(bytes([byte]))
            time.sleep(0.001)  # Else the kernel makes one of several.
        answer = stream.recv(65_536)
        while not answer.endswith(b"hello"):
            answer += stream.recv(65_536)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")


def test_whoever_goes_while_he_waits_has_the_application_know(web):
    stream = web.connected()
    stream.sendall(b"GET /wait HTTP/1.1\r\nHost: web\r\n\r\n")
    wait_until(lambda: any(" /wait " in line for line in web.heard()))
    assert not (web.heard_in / "gone").exists()
    stream.close()
    wait_until((web.heard_in / "gone").exists)
