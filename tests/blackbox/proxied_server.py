"""`python proxied_server.py NAME PORT DIRECTORY`: says its name by HTTP/1.1 and HTTP/2, frame by frame (RFC 9113).

Files of the directory say how it behaves: while `hold` is there answers wait; with `drop` it hangs up on who asks by
HTTP/1.1; with `refuse` it refuses what is asked by HTTP/2, and with `leave` it goes away at the first request, either
without having looked at it. What it has looked at it writes to `seen`.
"""

import socket
import struct
import sys
import threading
import time
from pathlib import Path

NAME, PORT, DIRECTORY = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
END_STREAM, ACK, END_HEADERS = 1, 1, 4
REFUSED_STREAM = 7
# `:status: 200`, of the static table (RFC 7541, appendix A).
OK = b"\x88"


def is_asked_to(what: str) -> bool:
    """Whether a file says so."""
    return (DIRECTORY / what).exists()


def look_at() -> None:
    """A request is seen, and answered once that is wanted."""
    with (DIRECTORY / "seen").open("a") as seen:
        seen.write("1\n")
    while is_asked_to("hold"):
        time.sleep(0.01)


def exactly(stream: socket.socket, count: int) -> bytes:
    """So many bytes."""
    read = b""
    while len(read) < count:
        more = stream.recv(count - len(read))
        if not more:
            raise EOFError
        read += more
    return read


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    """As it is sent."""
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, number) + payload


def answer(stream: socket.socket, lock: threading.Lock, number: int) -> None:
    """One request of HTTP/2."""
    look_at()
    with lock:
        said = NAME.encode() + b"\n"
        stream.sendall(frame(HEADERS, END_HEADERS, number, OK) + frame(DATA, END_STREAM, number, said))


def http2(stream: socket.socket) -> None:
    """All requests of a connection, many at once."""
    exactly(stream, len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
    lock = threading.Lock()
    stream.sendall(frame(SETTINGS, 0, 0))
    answered = 0
    while True:
        length, kind, flags, number = struct.unpack("!IBBI", b"\0" + exactly(stream, 9))
        payload = exactly(stream, length)
        with lock:
            if kind == SETTINGS and not flags & ACK:
                stream.sendall(frame(SETTINGS, ACK, 0))
            if kind == PING and not flags & ACK:
                stream.sendall(frame(PING, ACK, 0, payload))
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                if is_asked_to("refuse"):
                    stream.sendall(frame(RESET, 0, number, struct.pack("!I", REFUSED_STREAM)))
                elif is_asked_to("leave"):
                    stream.sendall(frame(GOAWAY, 0, 0, struct.pack("!II", answered, 0)))
                    stream.shutdown(socket.SHUT_WR)
                    # What is not read would be answered by a reset, which may go before what was said.
                    while stream.recv(65_536):
                        pass
                    return
                else:
                    answered = number
                    threading.Thread(target=answer, args=(stream, lock, number), daemon=True).start()


def http1(stream: socket.socket) -> None:
    """All requests of a connection, one after the other."""
    said = NAME.encode() + b"\n"
    head = b""
    while True:
        while b"\r\n\r\n" not in head:
            head += exactly(stream, 1)
        lines = head.lower().split(b"\r\n")
        lengths = [int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")]
        exactly(stream, sum(lengths))
        look_at()
        if is_asked_to("drop"):
            return
        stream.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(said), said))
        head = b""


def serve(stream: socket.socket) -> None:
    """A connection, whatever it speaks."""
    with stream:
        try:
            is_http2 = stream.recv(4, socket.MSG_PEEK) == b"PRI "
            (http2 if is_http2 else http1)(stream)
        except (EOFError, OSError):
            pass


with socket.create_server(("127.0.0.1", PORT)) as listener:
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
