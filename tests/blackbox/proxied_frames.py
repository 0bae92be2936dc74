"""A caller by HTTP/2, frame by frame (RFC 9113): what clients hide, such as when they are told to go."""

from __future__ import annotations

import socket
import struct

from raw import PATIENCE_S

DATA, HEADERS, SETTINGS, PING, GOAWAY = 0, 1, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4
# `:method: GET`, `:scheme: http`, `:path: /` of the static table, and `:authority: web` (RFC 7541).
REQUEST = b"\x82\x86\x84\x41\x03web"


class Http2:
    """A connection."""

    def __init__(self, address: str, port: int = 80):
        self.stream = socket.create_connection((address, port), timeout=PATIENCE_S)
        self.next = 1
        self.came: list[tuple[int, int, int, bytes]] = []
        self.stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.say(SETTINGS, 0, 0)

    def __enter__(self) -> Http2:
        return self

    def __exit__(self, *_: object) -> None:
        self.stream.close()

    def say(self, kind: int, flags: int, number: int, payload: bytes = b"") -> None:
        """One frame."""
        head = struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, number)
        self.stream.sendall(head + payload)

    def asks(self) -> int:
        """A request; its number."""
        number, self.next = self.next, self.next + 2
        self.say(HEADERS, END_STREAM | END_HEADERS, number, REQUEST)
        return number

    def _exactly(self, count: int) -> bytes:
        read = b""
        while len(read) < count:
            more = self.stream.recv(count - len(read))
            if not more:
                raise EOFError
            read += more
        return read

    def _reads(self) -> None:
        length, kind, flags, number = struct.unpack("!IBBI", b"\0" + self._exactly(9))
        payload = self._exactly(length)
        if kind in (SETTINGS, PING) and not flags & ACK:
            self.say(kind, ACK, 0, payload if kind == PING else b"")
        self.came.append((kind, flags, number, payload))

    def frame(self, kind: int, number: int = 0) -> bytes:
        """What the first frame of that kind says that comes."""
        while True:
            for place, (of, _, to, payload) in enumerate(self.came):
                if (of, to) == (kind, number):
                    del self.came[place]
                    return payload
            self._reads()

    def answer(self, number: int) -> bytes:
        """The whole body of one."""
        body = b""
        while True:
            for of, flags, to, payload in self.came:
                if to == number and of in (DATA, HEADERS):
                    body += payload if of == DATA else b""
                    if flags & END_STREAM:
                        self.came = [frame for frame in self.came if frame[2] != number]
                        return body
            self.came = [frame for frame in self.came if frame[2] != number]
            self._reads()

    def ends(self) -> None:
        """Nothing more comes."""
        try:
            while True:
                self._reads()
        except EOFError:
            pass
