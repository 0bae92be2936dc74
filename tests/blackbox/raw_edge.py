"""An edge of bare sockets, which says what the test wants."""

from __future__ import annotations

import json
import socket

import wire
from raw import Connection
from sites import TELEMETRY, Cloud


class RawEdge:
    """An edge of bare sockets, which answers nothing and keeps to no bound."""

    def __init__(self, cloud: Cloud, name: str = "raw-1"):
        said = cloud.run("edge", "add", name, "--output", "json").stdout
        password = json.loads(said)[0]["issued"]["password"].encode()
        self.stream = Connection(socket.create_connection(("127.0.0.1", cloud.port)))
        said = [("user_property", ("selvedge-link", "1")), ("user_property", ("instance", name))]
        self.stream.open(name, user=name, password=password, keep_alive=60, properties=said)
        self.sent = 0

    def batch(self, sequence: int | None = None, topic: str = TELEMETRY) -> bytes:
        """A PUBLISH with a batch of one message, by default the next of its epoch; as `link::batch` has it."""
        number, self.sent = self.sent, self.sent + 1
        epoch = b"\x00" if number else b"\x00" + text("default") + text("telemetry") + b"\x02"
        place = varint(number if sequence is None else sequence) + b"\x00"
        floor_and_count, qos_1, received_now = b"\x00\x01", b"\x01", b"\x00"
        message = qos_1 + received_now + b"\x00" + text(topic) + text("{}")
        return wire.publish(
            "$link/batch", b"\x00" + epoch + place + floor_and_count + message, qos=1, packet_id=number + 1
        )


def text(value: str) -> bytes:
    """Behind its length."""
    return varint(len(value)) + value.encode()


def varint(value: int) -> bytes:
    """LEB128."""
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])
