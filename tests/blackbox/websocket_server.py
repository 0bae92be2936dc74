"""`python websocket_server.py NAME PORT`: sends each message back, with who does."""

import sys

from websockets.sync.server import ServerConnection, serve

NAME, PORT = sys.argv[1:]


def echo(connection: ServerConnection) -> None:
    """Until the other side ends it."""
    for message in connection:
        connection.send(f"{NAME} {message}")


with serve(echo, "127.0.0.1", int(PORT)) as server:
    server.serve_forever()
