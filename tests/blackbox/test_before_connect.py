"""Strangers: what a connection may cost before it has said who it is. Promise 8: a stated number of bytes, no more."""

import contextlib
import socket
import ssl
import threading
import time
from collections import deque

import pytest

import raw
import wire
from credentials import add, context
from raw import Closed
from wire import Kind

MIB = 1 << 20
# Of Linux: binds an address and leaves the port to connect(), so that each address has all ports.
IP_BIND_ADDRESS_NO_PORT = 24


def test_a_connect_that_never_ends_is_closed_in_time(dial, client, name):
    """Section 3.1.4: a server should close a connection whose CONNECT does not come within a reasonable time."""
    slow = dial().send(wire.connect("slow")[:10])
    silent = dial()
    other = client()
    other.subscribe(name)
    other.publish(name, b"served")
    assert other.receive().payload == b"served"
    slow.verdict(30)
    silent.verdict(30)


class Flood:
    """Connections from many addresses, one after the other without a pause, whose CONNECT never ends."""

    HELD = 8_000

    def __init__(self, port: int, opening: bytes):
        self.port = port
        self.opening = opening
        self.made = 0
        self.held: deque[socket.socket] = deque()
        self.failure: Exception | None = None

    def run(self, count: int) -> None:
        """Holds the newest of them; a process has descriptors for no more."""
        try:
            while self.made < count:
                self.made += 1
                self.held.append(self._open())
                if len(self.held) > self.HELD:
                    self.held.popleft().close()
        except OSError as error:
            self.failure = error

    def _open(self) -> socket.socket:
        stream = socket.socket()
        stream.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        stream.bind((f"127.{1 + self.made % 50}.{self.made % 20}.7", 0))
        stream.settimeout(60)
        stream.connect(("127.0.0.1", self.port))
        with contextlib.suppress(ConnectionError):  # To be closed at once is one good answer.
            stream.sendall(self.opening)
        return stream

    def end(self) -> None:
        """Lets go of all."""
        while self.held:
            self.held.popleft().close()


OPEN = pytest.param(True, id="anonymous")
CLOSED = pytest.param(False, id="with passwords", marks=[pytest.mark.contract, pytest.mark.needs("app")])


@pytest.mark.timeout(240)
@pytest.mark.parametrize("anonymous", [OPEN, CLOSED])
def test_100_000_connects_that_never_end_leave_others_served_and_memory_bounded(start, name, anonymous):
    """Honest clients get in meanwhile; the number of strangers does not move the bounds of memory and descriptors."""
    own = start(anonymous=anonymous)
    login = {} if anonymous else {"user": "dash", "password": add(own, "app", "dash").password.encode()}
    topic = f"apps/dash/{name}"
    raw.dial(own.port).open("warm", **login).publish(topic, b"warm").leave()
    before = own.rss_bytes()
    whole = wire.connect("x" * 10_000)
    flood = Flood(own.port, whole[:5_000])
    thread = threading.Thread(target=flood.run, args=(100_000,), daemon=True)
    thread.start()
    served, rss_bytes, descriptors = 0, 0, 0
    while thread.is_alive():
        honest = raw.dial(own.port).open(f"{name}-{served}", **login)
        honest.subscribe(topic)
        honest.publish(topic, b"served")
        assert honest.expect(Kind.PUBLISH).payload == b"served"
        honest.leave()
        served += 1
        rss_bytes, descriptors = max(rss_bytes, own.rss_bytes()), max(descriptors, own.descriptors())
        time.sleep(0.02)  # The rhythm of the honest ones.
    flood.end()
    assert flood.failure is None and flood.made == 100_000
    assert served > 20
    assert rss_bytes - before < 32 * MIB
    assert descriptors < 4_000


def client_hello() -> bytes:
    """What a client of TLS sends first."""
    out = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


UPGRADE = b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nX: "
HALF = {
    "tls, half of its hello": ("tls_port", lambda: client_hello()[:200]),
    "tls, no answer to the server's": ("tls_port", client_hello),
    "websocket, half of its upgrade": ("websocket_port", lambda: UPGRADE + b"x" * 2_000),
    "secure websocket, no answer": ("secure_websocket_port", client_hello),
}


@pytest.mark.parametrize(("door", "opening"), HALF.values(), ids=HALF.keys())
def test_handshakes_that_never_end_keep_nobody_out_at_any_door(start, authority, name, door, opening):
    """Five thousand, more than may be under way: the oldest are given up, and who finishes gets in."""
    certificate, key = authority.issue("server", "/CN=localhost")
    own = start(websocket=True, tls={"certificate": certificate, "key": key})
    served_over_tls(own, authority, name)
    before = own.rss_bytes()
    flood = Flood(getattr(own, door), opening())
    flood.run(5_000)
    served_over_tls(own, authority, name)
    assert own.rss_bytes() - before < 64 * MIB
    assert own.descriptors() < 4_000
    flood.end()
    assert flood.failure is None


def served_over_tls(own, authority, name: str) -> None:
    """A client gets in at the door of TLS and hears itself. paho could not: it waits for no descriptor above 1,023."""
    stream = socket.create_connection(("127.0.0.1", own.tls_port), raw.PATIENCE_S)
    with context(authority.certificate).wrap_socket(stream) as secured:
        one = raw.Connection(secured).open(name)
        one.subscribe(name)
        one.publish(name, b"served")
        assert one.expect(Kind.PUBLISH).payload == b"served"


@pytest.mark.contract
def test_strangers_do_not_fill_the_log(start, dial):
    """It tells of some, and how many others there were; of a user name it quotes the beginning."""
    own = start(anonymous=False)
    dial(to=own).send(wire.connect("x", user="u" * 12_000, password=b"wrong")).verdict()
    assert all(len(line) < 1_000 for line in own.said("turned away").splitlines())
    sent = 1
    while "untold=" not in own.log.read_text():
        for _ in range(100):
            dial(to=own).send(wire.PINGREQ).verdict()
        sent += 100
        assert sent < 20_000
    lines = [line for line in own.log.read_text().splitlines() if "turned away" in line]
    untold = sum(int(line.split("untold=")[1].split()[0]) for line in lines if "untold=" in line)
    assert untold >= 1 and len(lines) + untold <= sent


def test_a_remaining_length_of_256_mb_before_connect_takes_no_memory(start, dial, client, name):
    """Section 2.1.4: announced, and not sent, by five hundred at once; each is refused at its fixed header."""
    own = start()
    client(to=own).publish(name, b"warm")
    before = own.rss_bytes()
    largest = bytes([0x10]) + wire.varint(268_435_455) + wire.text("MQTT") + b"\5\2\0\x3c\0"
    held = [dial(to=own).send(largest) for _ in range(500)]
    client(to=own).publish(name, b"served")
    assert own.rss_bytes() - before < 16 * MIB
    for one in held:
        assert one.verdict() in (None, 0x95)


def test_a_connect_that_really_sends_megabytes_is_stopped(start, dial, client, name):
    """Before authentication nobody may make the broker hold what it pleases."""
    own = start()
    client(to=own).publish(name, b"warm")
    before = own.rss_bytes()
    one = dial(to=own)
    with pytest.raises((OSError, Closed)):
        one.send(bytes([0x10]) + wire.varint(200 * MIB) + wire.text("MQTT") + b"\5\2\0\x3c\0")
        for _ in range(64):
            one.send(bytes(MIB))
        one.receive()
    assert own.rss_bytes() - before < 16 * MIB
    client(to=own).publish(name, b"served")
