"""Small graphs of ONNX, byte by byte (onnx.proto), also ones that no exporter would write."""

from __future__ import annotations

import math
import struct

FLOAT, INT64, BOOL = 1, 7, 9


def varint(number: int) -> bytes:
    """An integer as protobuf has it."""
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def number(field: int, value: int) -> bytes:
    """A field that is an integer."""
    return varint(field << 3) + varint(value)


def block(field: int, content: bytes | str) -> bytes:
    """A field that is a text or a message."""
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def tensor(name: str, values: list, shape: list[int], kind: int = FLOAT) -> bytes:
    """A TensorProto."""
    assert len(values) == math.prod(shape)
    raw = struct.pack(f"<{len(values)}{'f' if kind == FLOAT else 'q' if kind == INT64 else '?'}", *values)
    return b"".join(number(1, size) for size in shape) + number(2, kind) + block(8, name) + block(9, raw)


def value(name: str, shape: list[int | str], kind: int = FLOAT) -> bytes:
    """A ValueInfoProto of a tensor."""
    sizes = [number(1, one) if isinstance(one, int) else block(2, one) for one in shape]
    dimensions = b"".join(block(1, size) for size in sizes)
    return block(1, name) + block(2, block(1, number(1, kind) + block(2, dimensions)))


def node(kind: str, inputs: list[str], outputs: list[str], *attributes: bytes) -> bytes:
    """A NodeProto."""
    parts = [block(1, one) for one in inputs] + [block(2, one) for one in outputs]
    return b"".join([*parts, block(3, outputs[0]), block(4, kind), *(block(5, one) for one in attributes)])


def integer(name: str, one: int) -> bytes:
    """An AttributeProto."""
    return block(1, name) + number(3, one) + number(20, 2)


def subgraph(name: str, of: bytes) -> bytes:
    """An AttributeProto."""
    return block(1, name) + block(6, of) + number(20, 5)


def graph(nodes: list[bytes], constants: list[bytes], inputs: list[bytes], outputs: list[bytes]) -> bytes:
    """A GraphProto."""
    fields = [(1, nodes), (5, constants), (11, inputs), (12, outputs)]
    return b"".join([*(block(field, one) for field, ones in fields for one in ones), block(2, "graph")])


def model(of: bytes, opset: int = 18) -> bytes:
    """A ModelProto."""
    return number(1, 8) + block(7, of) + block(8, block(1, "") + number(2, opset))
