"""The other ways in: TLS, WebSocket, Unix socket, PROXY protocol."""

import base64
import contextlib
import json
import os
import socket
import ssl
import struct

import pytest

import raw
import wire
from credentials import Authority, context
from test_reload import figure
from wire import Kind


def connect_by(stream: socket.socket) -> raw.Connection:
    """An MQTT connection over any stream."""
    stream.settimeout(raw.PATIENCE_S)
    return raw.Connection(stream)


class Web:
    """WebSocket by hand, as much as the tests send: RFC 6455."""

    def __init__(
        self,
        port: int,
        protocol: str | None = "mqtt",
        path: str = "/mqtt",
        origin: str | None = None,
        stream: socket.socket | None = None,
    ):
        self.stream = stream or socket.create_connection(("127.0.0.1", port), raw.PATIENCE_S)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        lines += [f"Sec-WebSocket-Protocol: {protocol}"] if protocol else []
        lines += [f"Origin: {origin}"] if origin else []
        self.stream.sendall("\r\n".join([*lines, "", ""]).encode())
        self.head = b""
        while b"\r\n\r\n" not in self.head:
            chunk = self.stream.recv(4096)
            if not chunk:
                break
            self.head += chunk
        self.head, _, self.rest = self.head.partition(b"\r\n\r\n")

    @property
    def status(self) -> int:
        """Of the answer to the upgrade; 0 where there was none."""
        return int(self.head.split()[1]) if self.head else 0

    def frame(self, payload: bytes, opcode: int = 2, final: bool = True, masked: bool = True) -> None:
        """Sends one frame."""
        size = len(payload)
        mask = os.urandom(4) if masked else b""
        length = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size)
        head = bytes([opcode | final << 7, length[0] | masked << 7]) + length[1:] + mask
        if masked:
            payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
        self.stream.sendall(head + payload)

    def read(self) -> tuple[int, bytes]:
        """The next frame: opcode and payload; opcode 8 also where the server just closed."""
        try:
            first, length = self._take(2)
            if length >= 126:
                length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
            return first & 15, self._take(length)
        except raw.Closed:
            return 8, b""

    def _take(self, count: int) -> bytes:
        while len(self.rest) < count:
            try:
                chunk = self.stream.recv(4096)
            except ConnectionError as error:
                raise raw.Closed(str(error)) from error
            if not chunk:
                raise raw.Closed("closed")
            self.rest += chunk
        taken, self.rest = self.rest[:count], self.rest[count:]
        return taken


def test_mqtt_over_a_unix_socket(start):
    """Section 4.2: any ordered, lossless stream of bytes carries MQTT."""
    own = start(unix=True)
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(str(own.unix_path))
    one = connect_by(stream).open("unix")
    one.subscribe("a")
    one.publish("a", b"x")
    assert one.expect(Kind.PUBLISH).payload == b"x"


def test_a_stale_unix_socket_does_not_hinder_a_start(start):
    """After kill -9 its file is still there."""
    own = start(unix=True)
    own.kill()
    own.start()
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(str(own.unix_path))
    connect_by(stream).open("unix").ping()


@pytest.mark.needs("--mqtts")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_paho_over_tls(secure, client, authority, version):
    """TLS 1.2 and 1.3."""
    trust = context(authority.certificate)
    trust.minimum_version = trust.maximum_version = version
    one = client(port=secure.tls_port, tls=trust)
    one.subscribe("a")
    payload = bytes(number % 256 for number in range(200_000))
    one.publish("a", payload)
    assert one.receive().payload == payload


@pytest.mark.needs("--mqtts")
def test_tls_below_1_2_is_refused(secure):
    """Older ones are broken (RFC 8996)."""
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning):
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    stream = socket.create_connection(("127.0.0.1", secure.tls_port), raw.PATIENCE_S)
    with pytest.raises((ssl.SSLError, OSError)):
        old.wrap_socket(stream)


@pytest.mark.needs("--mqtts")
def test_a_client_without_tls_at_the_door_of_tls_is_closed(secure):
    """And it is served at its own door."""
    raw.dial(secure.tls_port).send(wire.connect("x")).verdict()
    raw.dial(secure.port).open("x").ping()


@pytest.mark.contract
@pytest.mark.needs("--mqtts", "--tls-client-ca")
def test_a_client_certificate_of_a_stranger_or_an_expired_one_is_refused(start, authority, client, tmp_path):
    """Contract of credentials: the authority is the edge's own, dates count. Each counts as a refused login."""
    certificate, key = authority.issue("server", "/CN=localhost")
    own = start(http=True, tls={"certificate": certificate, "key": key, "client-ca": authority.certificate})
    own.run("device", "add", "pump-7", "--trusted-certificate")
    stranger = Authority(tmp_path / "stranger").issue("stranger", "/O=default/CN=pump-7")
    expired = authority.issue("expired", "/O=default/CN=pump-7", days=-1)
    for pair in (stranger, expired):
        # TLS 1.3 tells a client that its certificate is refused after its own side of the handshake.
        with socket.create_connection(("127.0.0.1", own.tls_port), raw.PATIENCE_S) as stream:
            secured = context(authority.certificate, *pair).wrap_socket(stream)
            with pytest.raises((ssl.SSLError, raw.Closed)):
                connect_by(secured).open("x")
    good = authority.issue("pump", "/O=default/CN=pump-7")
    client(port=own.tls_port, tls=context(authority.certificate, *good))
    assert figure(own, 'connections_refused_total{reason="certificate_refused"}') == 2
    own.stop()
    audited = [json.loads(line) for line in (own.data / "audit.log").read_text().splitlines()]
    refused = [line for line in audited if line["event"] == "login_refused"]
    assert {line["address"] for line in refused} == {"127.0.0.1"}
    reasons = [line["reason"] for line in refused]
    assert len(reasons) == 2 and "authority" in reasons[0] and "expired" in reasons[1], reasons


def test_a_websocket_is_upgraded_and_says_mqtt(broker):
    """MQTT-6.0.0-3, MQTT-6.0.0-4."""
    web = Web(broker.websocket_port)
    assert web.status == 101
    assert b"sec-websocket-protocol: mqtt" in web.head.lower()


def test_packets_and_frames_need_not_agree(broker):
    """MQTT-6.0.0-2: two packets in one frame, one packet in many frames."""
    web = Web(broker.websocket_port)
    for byte in wire.connect("web"):
        web.frame(bytes([byte]))
    web.frame(wire.PINGREQ * 2)
    came = b""
    while came.count(b"\xd0\x00") < 2:
        opcode, payload = web.read()
        assert opcode == 2
        came += payload
    assert came[0] == 0x20


def test_a_fragmented_message_of_websocket_is_put_together(broker):
    """RFC 6455, section 5.4."""
    web = Web(broker.websocket_port)
    hello = wire.connect("web")
    web.frame(hello[:5], final=False)
    web.frame(b"ping", opcode=9)
    web.frame(hello[5:], opcode=0)
    opcodes = {web.read()[0], web.read()[0]}
    assert opcodes == {10, 2}


def test_a_text_frame_closes_the_connection(broker):
    """MQTT-6.0.0-1."""
    web = Web(broker.websocket_port)
    web.frame(wire.connect("web"), opcode=1)
    assert web.read()[0] == 8


@pytest.mark.contract
def test_an_unmasked_frame_closes_the_connection(broker):
    """RFC 6455, section 5.1."""
    web = Web(broker.websocket_port)
    web.frame(wire.connect("web"), masked=False)
    assert web.read()[0] == 8


def test_what_is_no_websocket_is_refused_and_harms_nobody(broker):
    """Bad requests at the door of WebSocket."""
    for request in (b"GET / HTTP/1.1\r\n\r\n", b"\x10\x00", b"GET " + b"x" * 20_000, wire.connect("x")):
        stream = socket.create_connection(("127.0.0.1", broker.websocket_port), raw.PATIENCE_S)
        with contextlib.suppress(OSError):  # It may have been closed at the first bytes.
            stream.sendall(request)
            stream.shutdown(socket.SHUT_WR)
        stream.close()
    assert Web(broker.websocket_port).status == 101


@pytest.mark.contract
@pytest.mark.parametrize("path", ["/", "/other", "/mqtt/", "/mqtt/x", "//mqtt"])
def test_a_websocket_at_another_path_is_answered_404(broker, path):
    """MQTT is at /mqtt alone, with or without a query."""
    assert Web(broker.websocket_port, path=path).status == 404
    assert Web(broker.websocket_port, path="/mqtt?x=1").status == 101


NO_WEBSOCKETS = {
    "no upgrade": b"GET /mqtt HTTP/1.1\r\nHost: edge\r\n\r\n",
    "another method": b"POST /mqtt HTTP/1.1\r\nHost: edge\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "no HTTP": wire.connect("x"),
    "too long": b"GET /mqtt HTTP/1.1\r\nX: " + b"x" * 9_000,
}


@pytest.mark.contract
@pytest.mark.parametrize("request_bytes", NO_WEBSOCKETS.values(), ids=NO_WEBSOCKETS.keys())
def test_what_asks_for_no_websocket_is_answered_400(broker, request_bytes):
    """A person who opens the address in a browser, or the wrong door, gets an answer."""
    with socket.create_connection(("127.0.0.1", broker.websocket_port), raw.PATIENCE_S) as stream:
        stream.sendall(request_bytes)
        assert stream.recv(4096).startswith(b"HTTP/1.1 400 ")


@pytest.mark.contract
def test_a_web_page_of_another_host_opens_no_websocket(broker):
    """RFC 6455, section 10.2: browsers let any page try. Programs name no origin; a page of this host may."""
    for origin in ("https://evil.example", "null", "http://127.0.0.1.evil.example"):
        assert Web(broker.websocket_port, origin=origin).status == 403, origin
    for origin in (None, "http://127.0.0.1", "http://127.0.0.1:8080"):
        assert Web(broker.websocket_port, origin=origin).status == 101, origin


@pytest.mark.contract
def test_a_web_page_that_the_configuration_lists_opens_a_websocket(start):
    """`listen.websocket_origins`."""
    own = start(websocket=True, configuration='[listen]\nwebsocket_origins = ["https://dash.example"]\n')
    assert Web(own.websocket_port, origin="https://dash.example").status == 101
    assert Web(own.websocket_port, origin="http://dash.example").status == 403


V2 = b"\r\n\r\n\0\r\nQUIT\n"
V2_FROM = V2 + b"\x21\x11" + struct.pack(">H4s4sHH", 12, bytes([203, 0, 113, 7]), b"\x7f\0\0\1", 4711, 1883)
PROXIES = {
    "v1": (b"PROXY TCP4 203.0.113.7 127.0.0.1 4711 1883\r\n", "203.0.113.7:4711"),
    "v1 of six": (b"PROXY TCP6 2001:db8::7 ::1 4711 1883\r\n", "[2001:db8::7]:4711"),
    "v1 unknown": (b"PROXY UNKNOWN\r\n", "127.0.0.1"),
    "v2": (V2_FROM, "203.0.113.7:4711"),
    "v2 local": (V2 + b"\x20\x00\0\0", "127.0.0.1"),
}


@pytest.mark.contract
@pytest.mark.needs("--proxy-protocol")
@pytest.mark.parametrize(("header", "address"), PROXIES.values(), ids=PROXIES.keys())
def test_a_proxy_says_where_a_client_comes_from(start, dial, header, address):
    """The PROXY protocol, versions 1 and 2; a proxy that names nobody speaks for itself."""
    own = start(proxy_protocol=True)
    one = dial(to=own).send(header).open("behind-a-proxy")
    one.ping()
    (session,) = json.loads(own.run("get", "sessions", "--output", "json").stdout)
    assert session["address"].startswith(address)


@pytest.mark.contract
@pytest.mark.needs("--proxy-protocol")
@pytest.mark.parametrize("header", [b"PROXY TCP4 nonsense\r\n", b"PROXY " + b"x" * 200, V2 + b"\x31\x11\0\0", b""])
def test_a_client_without_a_good_proxy_header_is_closed(start, dial, header):
    """Who could leave it out could also forge it."""
    own = start(proxy_protocol=True)
    dial(to=own).send(header + wire.connect("x")).verdict(30)
