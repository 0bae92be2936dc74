"""A client of bare sockets: sends any bytes, answers nothing by itself."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time

import wire
from wire import Kind

# How much slower than others this machine is, such as one that is emulated.
SLOWNESS = float(os.environ.get("SLOWNESS", "1"))
# How long anything that should happen may take. Generous, because machines under test are busy.
PATIENCE_S = 10.0 * SLOWNESS


class Closed(AssertionError):
    """The server closed the connection while a packet was awaited."""


class Connection:
    """One connection whose every packet is sent and read by the test."""

    def __init__(self, stream: socket.socket, version: int = 5):
        self.stream = stream
        self.version = version
        self.arrived = bytearray()
        self.connack: wire.Received | None = None

    def send(self, *packets: bytes) -> Connection:
        """Sends bytes as they are."""
        self.stream.settimeout(PATIENCE_S)
        self.stream.sendall(b"".join(packets))
        return self

    def _fill(self, count: int, deadline: float) -> None:
        while len(self.arrived) < count:
            self.stream.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                chunk = self.stream.recv(65536)
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not chunk:
                raise Closed(f"closed after {bytes(self.arrived)!r}")
            self.arrived += chunk

    def _header(self, deadline: float) -> tuple[int, int]:
        """Waits for a fixed header; bytes of it, remaining length."""
        length = shift = 0
        for at in range(1, 5):
            self._fill(at + 1, deadline)
            length |= (self.arrived[at] & 127) << shift
            shift += 7
            if not self.arrived[at] & 128:
                return at + 1, length
        raise AssertionError(f"the server sent a remaining length of five bytes: {bytes(self.arrived[:8])!r}")

    def receive(self, timeout_s: float = PATIENCE_S) -> wire.Received:
        """The next packet, whatever it is."""
        deadline = time.monotonic() + timeout_s
        header, length = self._header(deadline)
        self._fill(header + length, deadline)
        first, body = self.arrived[0], bytes(self.arrived[header : header + length])
        try:
            got = wire.decode(first, body, self.version)
        except (LookupError, ValueError, struct.error) as error:
            raise AssertionError(f"{self.stream.getpeername()} sent no packet: {bytes(self.arrived)!r}") from error
        del self.arrived[: header + length]
        return got

    def expect(self, kind: Kind, timeout_s: float = PATIENCE_S) -> wire.Received:
        """The next packet, which must be of this kind."""
        got = self.receive(timeout_s)
        assert got.kind == kind, f"expected {kind.name}, got {got}"
        return got

    def open(self, client_id: str = "", **options: object) -> Connection:
        """CONNECT and the CONNACK that accepts it."""
        self.send(wire.connect(client_id, self.version, **options))
        self.connack = self.expect(Kind.CONNACK)
        assert self.connack.reason == 0, f"refused with {self.connack.reason:#x}"
        return self

    def subscribe(self, filters: object, packet_id: int = 1, properties: wire.Properties = ()) -> list[int]:
        """SUBSCRIBE and its SUBACK's reason codes."""
        self.send(wire.subscribe(filters, self.version, packet_id=packet_id, properties=properties))
        got = self.expect(Kind.SUBACK)
        assert got.packet_id == packet_id
        return got.reasons

    def retained(self, topic_filter: str, count: int) -> list[wire.Received]:
        """Subscribes, and takes so many retained messages; section 3.8.4 lets them come before the SUBACK."""
        self.send(wire.subscribe([(topic_filter, 1)], self.version))
        got = [self.receive() for _ in range(count + 1)]
        assert sorted(each.kind for each in got) == [Kind.PUBLISH] * count + [Kind.SUBACK], got
        self.ping()
        return [each for each in got if each.kind == Kind.PUBLISH]

    def publish(self, topic: str, payload: bytes = b"", **options: object) -> Connection:
        """A PUBLISH, no answer awaited."""
        return self.send(wire.publish(topic, payload, self.version, **options))

    def answer(self, kind: Kind, packet_id: int, reason: int | None = None) -> Connection:
        """An acknowledgement of the test's choice."""
        return self.send(wire.acknowledge(kind, packet_id, reason))

    def ping(self) -> None:
        """PINGREQ, and nothing but PINGRESP comes back: whatever the server had for us would have come first."""
        self.send(wire.PINGREQ)
        self.expect(Kind.PINGRESP)

    def verdict(self, timeout_s: float = PATIENCE_S) -> int | None:
        """Waits until the server closes; the reason it gave in CONNACK or DISCONNECT, if it gave one."""
        deadline = time.monotonic() + timeout_s
        reason = None
        while True:
            try:
                got = self.receive(max(deadline - time.monotonic(), 0.001))
            except Closed:
                return reason
            if got.kind in (Kind.CONNACK, Kind.DISCONNECT) and got.reason:
                reason = got.reason

    def cut(self) -> None:
        """Ends the connection without DISCONNECT; the server sees its end at once."""
        with contextlib.suppress(OSError):
            self.stream.shutdown(socket.SHUT_RDWR)
        self.stream.close()

    def leave(self) -> None:
        """DISCONNECT, then waits until the server has closed, so that it surely took it in."""
        self.send(wire.disconnect())
        self.verdict()
        self.stream.close()


def dial(port: int, version: int = 5) -> Connection:
    """A TCP connection to this port, CONNECT not sent yet."""
    stream = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return Connection(stream, version)
