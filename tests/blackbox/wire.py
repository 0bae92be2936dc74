"""MQTT packets by hand: tests say exactly which bytes go out and see exactly which come back.

Deliberately naive and independent of Selvedge's own codec. Section numbers are those of MQTT 5.0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum

Properties = list[tuple[str, object]]


class Kind(IntEnum):
    """Control packet types, section 2.1.2."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


# Section 2.2.2.2: identifier and form of every property.
PROPERTIES: dict[str, tuple[int, str]] = {
    "payload_format_indicator": (0x01, "byte"),
    "message_expiry_interval": (0x02, "u32"),
    "content_type": (0x03, "text"),
    "response_topic": (0x08, "text"),
    "correlation_data": (0x09, "binary"),
    "subscription_identifier": (0x0B, "varint"),
    "session_expiry_interval": (0x11, "u32"),
    "assigned_client_identifier": (0x12, "text"),
    "server_keep_alive": (0x13, "u16"),
    "authentication_method": (0x15, "text"),
    "authentication_data": (0x16, "binary"),
    "request_problem_information": (0x17, "byte"),
    "will_delay_interval": (0x18, "u32"),
    "request_response_information": (0x19, "byte"),
    "response_information": (0x1A, "text"),
    "server_reference": (0x1C, "text"),
    "reason_string": (0x1F, "text"),
    "receive_maximum": (0x21, "u16"),
    "topic_alias_maximum": (0x22, "u16"),
    "topic_alias": (0x23, "u16"),
    "maximum_qos": (0x24, "byte"),
    "retain_available": (0x25, "byte"),
    "user_property": (0x26, "pair"),
    "maximum_packet_size": (0x27, "u32"),
    "wildcard_subscription_available": (0x28, "byte"),
    "subscription_identifier_available": (0x29, "byte"),
    "shared_subscription_available": (0x2A, "byte"),
}
BY_IDENTIFIER = {identifier: (name, form) for name, (identifier, form) in PROPERTIES.items()}
NUMBERS = {"byte": ">B", "u16": ">H", "u32": ">I"}


def varint(value: int) -> bytes:
    """Variable Byte Integer, section 1.5.5."""
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (0x80 if value else 0))
        if not value:
            return bytes(out)


def binary(data: bytes) -> bytes:
    """Binary Data, section 1.5.6: two bytes of length, then the data."""
    return struct.pack(">H", len(data)) + data


def text(value: str | bytes) -> bytes:
    """UTF-8 Encoded String, section 1.5.4; bytes pass as they are, so that a test can send what is not UTF-8."""
    return binary(value.encode() if isinstance(value, str) else value)


def encode_property(name: str, value: object) -> bytes:
    """One property: its identifier and its value."""
    identifier, form = PROPERTIES[name]
    if form == "pair":
        body = text(value[0]) + text(value[1])
    elif form in NUMBERS:
        body = struct.pack(NUMBERS[form], value)
    else:
        body = {"varint": varint, "text": text, "binary": binary}[form](value)
    return bytes([identifier]) + body


def encode_properties(properties: Properties) -> bytes:
    """A property block with its length, section 2.2.2."""
    body = b"".join(encode_property(name, value) for name, value in properties)
    return varint(len(body)) + body


def packet(kind: int, body: bytes = b"", flags: int = 0) -> bytes:
    """Any packet: type and flags, remaining length, body."""
    return bytes([kind << 4 | flags]) + varint(len(body)) + body


@dataclass
class Will:
    """The will of a CONNECT, sections 3.1.2.5 and 3.1.3.2."""

    topic: str
    payload: bytes = b"gone"
    qos: int = 0
    retain: bool = False
    properties: Properties = field(default_factory=list)


PROTOCOL_NAMES = {3: "MQIsdp", 4: "MQTT", 5: "MQTT"}


def connect(
    client_id: str = "",
    version: int = 5,
    *,
    clean: bool = True,
    keep_alive: int = 60,
    will: Will | None = None,
    user: str | None = None,
    password: bytes | None = None,
    properties: Properties = (),
) -> bytes:
    """CONNECT, section 3.1."""
    flags = clean << 1 | (user is not None) << 7 | (password is not None) << 6
    if will:
        flags |= 1 << 2 | will.qos << 3 | will.retain << 5
    body = text(PROTOCOL_NAMES[version]) + bytes([version, flags]) + struct.pack(">H", keep_alive)
    body += encode_properties(properties) if version == 5 else b""
    body += text(client_id)
    if will:
        body += encode_properties(will.properties) if version == 5 else b""
        body += text(will.topic) + binary(will.payload)
    body += text(user) if user is not None else b""
    body += binary(password) if password is not None else b""
    return packet(Kind.CONNECT, body)


def publish(
    topic: str | bytes,
    payload: bytes = b"",
    version: int = 5,
    *,
    qos: int = 0,
    packet_id: int | None = None,
    dup: bool = False,
    retain: bool = False,
    properties: Properties = (),
) -> bytes:
    """PUBLISH, section 3.3."""
    body = text(topic)
    body += struct.pack(">H", packet_id) if packet_id is not None else b""
    body += encode_properties(properties) if version == 5 else b""
    return packet(Kind.PUBLISH, body + payload, dup << 3 | qos << 1 | retain)


def subscribe(
    filters: str | list[tuple[str | bytes, int]], version: int = 5, *, packet_id: int = 1, properties: Properties = ()
) -> bytes:
    """SUBSCRIBE, section 3.8; each filter with its options byte, a single filter means QoS 2."""
    if isinstance(filters, str):
        filters = [(filters, 2)]
    body = struct.pack(">H", packet_id)
    body += encode_properties(properties) if version == 5 else b""
    body += b"".join(text(name) + bytes([options]) for name, options in filters)
    return packet(Kind.SUBSCRIBE, body, 2)


def unsubscribe(filters: list[str], version: int = 5, *, packet_id: int = 1) -> bytes:
    """UNSUBSCRIBE, section 3.10."""
    body = struct.pack(">H", packet_id) + (b"\0" if version == 5 else b"")
    return packet(Kind.UNSUBSCRIBE, body + b"".join(text(name) for name in filters), 2)


def acknowledge(kind: Kind, packet_id: int, reason: int | None = None) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP, sections 3.4 to 3.7."""
    body = struct.pack(">H", packet_id) + (bytes([reason]) if reason is not None else b"")
    return packet(kind, body, 2 if kind == Kind.PUBREL else 0)


def disconnect(reason: int | None = None, properties: Properties | None = None) -> bytes:
    """DISCONNECT, section 3.14."""
    body = bytes([reason]) if reason is not None else b""
    return packet(Kind.DISCONNECT, body + (encode_properties(properties) if properties is not None else b""))


PINGREQ = packet(Kind.PINGREQ)


@dataclass
class Received:
    """A packet from the server, taken apart as far as tests look."""

    kind: Kind
    flags: int
    body: bytes
    packet_id: int | None = None
    reason: int | None = None
    reasons: list[int] = field(default_factory=list)
    session_present: bool = False
    topic: str | None = None
    payload: bytes = b""
    properties: Properties = field(default_factory=list)

    @property
    def qos(self) -> int:
        """QoS of a PUBLISH."""
        return self.flags >> 1 & 3

    @property
    def dup(self) -> bool:
        """DUP of a PUBLISH."""
        return bool(self.flags & 8)

    @property
    def retain(self) -> bool:
        """RETAIN of a PUBLISH."""
        return bool(self.flags & 1)

    def get(self, name: str, default: object = None) -> object:
        """The first property of that name."""
        return next((value for key, value in self.properties if key == name), default)

    def all(self, name: str) -> list[object]:
        """All properties of that name, in their order."""
        return [value for key, value in self.properties if key == name]


class Reader:
    """Walks the bytes of one packet."""

    def __init__(self, data: bytes):
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes, all of which must be there."""
        assert self.at + count <= len(self.data), f"packet is cut short: {self.data!r}"
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, form: str) -> int:
        """A number of fixed width."""
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def varint(self) -> int:
        """Variable Byte Integer."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                return value

    def binary(self) -> bytes:
        """Binary Data."""
        return self.take(self.number(">H"))

    def text(self) -> str:
        """UTF-8 Encoded String."""
        return self.binary().decode()

    def rest(self) -> bytes:
        """Everything that is left."""
        return self.take(len(self.data) - self.at)

    def properties(self) -> Properties:
        """A property block."""
        block = Reader(self.take(self.varint()))
        found = []
        while block.at < len(block.data):
            name, form = BY_IDENTIFIER[block.varint()]
            if form in NUMBERS:
                found.append((name, block.number(NUMBERS[form])))
            elif form == "pair":
                found.append((name, (block.text(), block.text())))
            else:
                found.append((name, getattr(block, form)()))
        return found


def decode(first: int, body: bytes, version: int) -> Received:
    """Takes a packet from the server apart."""
    got = Received(Kind(first >> 4), first & 15, body)
    reader = Reader(body)
    five = version == 5
    if got.kind == Kind.PUBLISH:
        got.topic = reader.text()
        got.packet_id = reader.number(">H") if got.qos else None
        got.properties = reader.properties() if five else []
        got.payload = reader.rest()
    elif got.kind == Kind.CONNACK:
        got.session_present = bool(reader.number(">B") & 1)
        got.reason = reader.number(">B")
        got.properties = reader.properties() if five and reader.at < len(body) else []
    elif got.kind in (Kind.SUBACK, Kind.UNSUBACK):
        got.packet_id = reader.number(">H")
        got.properties = reader.properties() if five else []
        got.reasons = list(reader.rest())
    elif got.kind in (Kind.PUBACK, Kind.PUBREC, Kind.PUBREL, Kind.PUBCOMP, Kind.DISCONNECT):
        got.packet_id = reader.number(">H") if got.kind != Kind.DISCONNECT else None
        got.reason = reader.number(">B") if reader.at < len(body) else 0
        got.properties = reader.properties() if reader.at < len(body) else []
    return got
