"""`python plain_server.py PORT DIRECTORY`: answers by HTTP/1.1 as the path of a request says, byte by byte.

What it has heard of each request it writes to `heard`, and to `gone` that who asked for `/wait` has gone.
"""

import socket
import sys
import threading
import time
from pathlib import Path

PORT, DIRECTORY = int(sys.argv[1]), Path(sys.argv[2])
OK = b"HTTP/1.1 200 OK\r\n"
HELLO = b"Content-Length: 5\r\n\r\nhello"

# By its path, in pieces that are sent one after the other.
ANSWERS = {
    "/plain": [OK + HELLO],
    "/pieces": [OK[:9], OK[9:] + b"Con", HELLO[3:-2], b"lo"],
    "/chunked": [OK + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nhe", b"l\r\n2\r\nlo\r", b"\n0\r\nX-Sum: 1\r\n\r\n"],
    "/hints": [b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + OK, HELLO],
    "/none": [b"HTTP/1.1 204 No Content\r\n\r\n"],
    "/known": [b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"],
    "/last": [OK + b"Connection: close, X-Own\r\nX-Own: 1\r\n" + HELLO],
    "/long": [OK + b"Content-Length: 1000000\r\n\r\n", *([b"x" * 50_000] * 20)],
    "/until-end": [OK + b"\r\nhel", b"lo"],
    "/cut": [OK + b"Content-Length: 10\r\n\r\nhel", b"lo"],
    "/bad-chunk": [OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n-1\r\n"],
}
# The connection ends after them.
ENDS = {"/last", "/until-end", "/cut", "/bad-chunk"}


def serve(stream: socket.socket) -> None:
    """All requests of a connection."""
    reader = stream.makefile("rb")
    while line := reader.readline():
        method, path, _ = line.decode().split()
        fields = {}
        while (field := reader.readline().decode().rstrip()) != "":
            name, _, value = field.partition(":")
            fields[name.lower()] = value.strip()
        body = reader.read(int(fields.get("content-length", 0)))
        with (DIRECTORY / "heard").open("a") as heard:
            heard.write(f"{method} {path} {sorted(fields)} {body.decode()}\n")
        if path == "/wait":
            reader.read(1)
            (DIRECTORY / "gone").touch()
            return
        if path == "/echo":
            stream.sendall(OK + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            continue
        pieces = ANSWERS.get(path, [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"])
        if method == "HEAD":
            pieces = [pieces[0].partition(b"\r\n\r\n")[0] + b"\r\n\r\n"]
        for piece in pieces:
            stream.sendall(piece)
            # Else the kernel gives who reads several at once.
            time.sleep(0.002)
        if path in ENDS:
            return


def main() -> None:
    """Until it is ended."""
    with socket.create_server(("0.0.0.0", PORT)) as listener:
        while True:
            stream, _ = listener.accept()
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=converse, args=(stream,), daemon=True).start()


def converse(stream: socket.socket) -> None:
    """With one who may go at any time."""
    try:
        with stream:
            serve(stream)
    except OSError:
        pass


main()
