"""The ways from an edge to its cloud: through port 443 alone, through proxies, and what is said where there is none."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from pathlib import Path

import pytest

from brokers import PORTS, Settings
from credentials import Authority, add_with_certificate
from paho_client import Client
from sites import PASSWORD, Cloud, Edge, Line
from ways import Nginx, Server, Tinyproxy

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud"), pytest.mark.machine("nginx", "tinyproxy")]

# The longest pause between two tries of a link that has just lost its cloud a few times, and some.
PATIENCE_S = 30


class Plant:
    """A cloud with a door for WebSockets, an edge that is not started yet, and what the test puts between."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.websocket_port = PORTS.take()
        settings = Settings(anonymous=False, arguments=["--mqtt-ws", f"127.0.0.1:{self.websocket_port}"])
        self.cloud = Cloud(directory / "cloud", settings)
        self.edge = Edge(directory / "edge", Settings(anonymous=False, durability="os"))
        for one in (self.cloud, self.edge):
            one.directory.mkdir(parents=True)
        self.cloud.start()
        self.authority = Authority(directory / "authority")
        self.servers: list[Server] = []
        self.numbers = itertools.count()

    def puts(self, server: Server) -> Server:
        """Starts a server, and ends it with the test."""
        self.servers.append(server)
        return server.start()

    def nginx(self, days: int = 1, host: str = "127.0.0.1") -> Nginx:
        """A web server in front of the cloud."""
        certificate = self.authority.issue("web", "/CN=web", days)
        return self.puts(Nginx(self.directory / "nginx", certificate, self.websocket_port, host))

    def proxy(self, **options: object) -> Tinyproxy:
        """The way out of the plant."""
        return self.puts(Tinyproxy(self.directory / "tinyproxy", **options))

    def starts_edge(self, url: str, *, ca: Path | None = None, proxy: str = "", login: bool = True, **environment: str):
        """Tells the edge the way, and starts it."""
        lines = [f'url = "{url}"', f'user_name = "{self.edge.name}"', f'ca = "{ca or ""}"', f'proxy = "{proxy}"']
        if login:
            said = self.cloud.run("edge", "add", self.edge.name, "--output", "json").stdout
            (self.edge.directory / "password").write_text(json.loads(said)[0]["issued"]["password"])
            lines += [f'password_file = "{self.edge.directory / "password"}"']
        else:
            certificate, key = add_with_certificate(self.cloud, "edge", self.edge.name)
            lines += [f'certificate = "{certificate}"', f'key = "{key}"']
        self.edge.settings.configuration = "\n".join(["[link]", *lines, ""])
        self.edge.settings.environment = environment
        self.edge.start()
        self.edge.run("device", "add", "pump-7", "--password", PASSWORD)

    def sends(self, count: int) -> None:
        """A device of the edge sends as many messages, each acknowledged before the next."""
        client = Client(self.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
        for number in itertools.islice(self.numbers, count):
            client.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
        client.disconnect()

    def delivered(self, count: int) -> None:
        """All that was sent so far is in the database, once."""
        rows = self.cloud.has_rows(count, PATIENCE_S)
        assert sorted(int(number) for _, _, number in rows) == list(range(count))

    def says(self, *words: str) -> str:
        """Why there is no link, once the edge says these words; it is up all the same."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(word in (said := self.edge.link()["last_error"] or "") for word in words):
            assert time.monotonic() < deadline, f"{words} not in {said!r}:\n{self.edge.tail()}"
            time.sleep(0.05)  # A command gives no event when its answer changes.
        assert not self.edge.link()["is_connected"]
        return said

    def close(self) -> None:
        """Ends all of it."""
        self.edge.stop()
        for server in self.servers:
            server.stop()
        self.cloud.stop()


@pytest.fixture
def plant(tmp_path):
    """A plant of the test's own."""
    made = Plant(tmp_path)
    yield made
    made.close()


def test_behind_a_proxy_with_a_login_and_a_web_server_all_is_delivered_through_restarts_of_either(plant):
    nginx, proxy = plant.nginx(), plant.proxy(login="hall secret")
    way = f"http://hall:secret@127.0.0.1:{proxy.port}"
    plant.starts_edge(f"wss://127.0.0.1:{nginx.port}", ca=plant.authority.certificate, proxy=way)
    plant.sends(20)
    plant.delivered(20)
    assert proxy.tunnels() > 0
    for number, server in enumerate((nginx, proxy), 2):
        server.stop()
        plant.sends(10)
        server.start()
        plant.sends(10)
        plant.delivered(20 * number)
    assert "secret" not in plant.edge.log.read_text()


def test_a_call_reaches_a_device_through_a_web_server_and_a_proxy_and_its_answer_comes_back(plant):
    """Outbound port 443 alone: WebSocket over TLS, and the proxy of the plant."""
    nginx, proxy = plant.nginx(), plant.proxy()
    way = f"http://127.0.0.1:{proxy.port}"
    plant.starts_edge(f"wss://127.0.0.1:{nginx.port}/mqtt", ca=plant.authority.certificate, proxy=way)
    plant.sends(1)
    plant.delivered(1)
    device = Client(plant.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    device.subscribe("devices/pump-7/methods/+/+")

    answering = threading.Thread(target=device.answer_call)
    answering.start()
    said = plant.cloud.run("call", "pump-7", "stop", '{"reason": "dry"}')
    answering.join(PATIENCE_S)
    assert json.loads(said.stdout) == {"reason": "dry"}
    assert proxy.tunnels() > 0
    device.disconnect()
    said = plant.cloud.run("call", "pump-7", "stop", check=False)
    assert "pump-7 is not connected to its edge hall-1, which is connected" in said.stderr


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts", "ws"])
def test_each_scheme_goes_through_a_proxy(plant, scheme):
    proxy = plant.proxy()
    port = {"mqtt": plant.cloud.port, "mqtts": plant.cloud.tls_port, "ws": plant.websocket_port}[scheme]
    way = f"http://127.0.0.1:{proxy.port}"
    plant.starts_edge(f"{scheme}://127.0.0.1:{port}", ca=plant.cloud.data / "ca.pem", proxy=way)
    plant.sends(20)
    plant.delivered(20)
    assert proxy.tunnels() > 0


def test_a_message_of_the_largest_size_passes_a_websocket(plant):
    nginx = plant.nginx()
    plant.starts_edge(f"wss://127.0.0.1:{nginx.port}", ca=plant.authority.certificate)
    client = Client(plant.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    big = json.dumps({"n": 0, "text": "x" * 500_000})
    client.publish("devices/pump-7/telemetry", big, qos=1)
    client.disconnect()
    plant.cloud.has_rows(1, PATIENCE_S)
    assert plant.edge.link()["is_connected"]


@pytest.mark.parametrize(
    ("login", "words"),
    [
        ("", ['"407 Proxy Authentication Required"', "wants a user name and a password", "link.proxy"]),
        ("hall:wrong@", ["CONNECT 127.0.0.1:", "does not take the user name and the password of link.proxy"]),
    ],
)
def test_a_proxy_that_wants_another_login_is_named_with_its_answer(plant, login, words):
    proxy = plant.proxy(login="hall secret")
    url = f"mqtts://127.0.0.1:{plant.cloud.tls_port}"
    plant.starts_edge(url, ca=plant.cloud.data / "ca.pem", proxy=f"http://{login}127.0.0.1:{proxy.port}")
    said = plant.says(f"the proxy 127.0.0.1:{proxy.port} answers", *words)
    assert "wrong" not in said and "wrong" not in plant.edge.log.read_text()


def test_a_proxy_that_lets_nobody_to_the_port_is_named_with_its_answer(plant):
    proxy = plant.proxy(only_to=443)
    url = f"mqtts://127.0.0.1:{plant.cloud.tls_port}"
    plant.starts_edge(url, ca=plant.cloud.data / "ca.pem", proxy=f"http://127.0.0.1:{proxy.port}")
    plant.says(f"the proxy 127.0.0.1:{proxy.port} answers", '"403 ', "it lets nobody there")


def test_a_proxy_of_the_environment_is_asked_unless_no_proxy_says_otherwise(plant):
    proxy = plant.proxy()
    way = f"http://127.0.0.1:{proxy.port}"
    plant.starts_edge("mqtts://cloud.invalid", ca=plant.cloud.data / "ca.pem", https_proxy=way)
    plant.says(f"the proxy 127.0.0.1:{proxy.port} answers", "CONNECT cloud.invalid:8883")
    plant.edge.stop()
    plant.edge.settings.environment["NO_PROXY"] = ".invalid"
    plant.edge.start()
    plant.says('the name "cloud.invalid" is not known here')


def test_a_certificate_stands_for_the_password(plant):
    plant.starts_edge(f"mqtts://127.0.0.1:{plant.cloud.tls_port}", ca=plant.cloud.data / "ca.pem", login=False)
    plant.sends(20)
    plant.delivered(20)


def test_without_a_ca_the_authorities_of_the_system_are_believed_and_no_others(plant):
    nginx = plant.nginx()
    url = f"wss://127.0.0.1:{nginx.port}"
    other = Authority(plant.directory / "other").certificate
    plant.starts_edge(url, SSL_CERT_FILE=str(other))
    plant.says(f"TLS: 127.0.0.1:{nginx.port}: its certificate is of an authority that this edge does not know; link.ca")
    plant.edge.stop()
    plant.edge.settings.environment["SSL_CERT_FILE"] = str(plant.authority.certificate)
    plant.edge.start()
    plant.sends(20)
    plant.delivered(20)


def test_a_certificate_that_has_expired_is_said_to_have(plant):
    nginx = plant.nginx(days=-1)
    plant.starts_edge(f"wss://127.0.0.1:{nginx.port}", ca=plant.authority.certificate)
    plant.says("TLS: ", "its certificate has expired, or the clock here is wrong")


def test_a_certificate_for_another_host_is_said_to_be(plant):
    nginx = plant.nginx(host="127.0.0.2")
    plant.starts_edge(f"wss://127.0.0.2:{nginx.port}", ca=plant.authority.certificate)
    plant.says("TLS: ", "its certificate is for another host than link.url names", "127.0.0.1")


def test_a_port_without_tls_is_said_to_have_none(plant):
    plant.starts_edge(f"mqtts://127.0.0.1:{plant.websocket_port}", ca=plant.cloud.data / "ca.pem")
    plant.says("TLS: ", "does not speak TLS; are scheme and port of link.url right?")


def test_a_web_server_whose_cloud_is_away_is_said_to_answer_so_and_is_asked_again(plant):
    nginx = plant.nginx()
    plant.cloud.stop()
    plant.cloud.start()
    plant.starts_edge(f"wss://127.0.0.1:{nginx.port}", ca=plant.authority.certificate)
    plant.sends(10)
    plant.delivered(10)
    plant.cloud.stop()
    plant.says("the server answers 502 Bad Gateway to the request for a WebSocket at /mqtt")
    plant.sends(10)
    plant.cloud.start()
    plant.delivered(20)


def test_a_path_without_a_websocket_is_said_to_have_none(plant):
    nginx = plant.nginx()
    plant.starts_edge(f"wss://127.0.0.1:{nginx.port}/elsewhere", ca=plant.authority.certificate)
    plant.says("the server answers 404 Not Found to the request for a WebSocket at /elsewhere")


def test_a_port_where_nobody_listens_is_said_to_refuse(plant):
    plant.starts_edge(f"mqtts://127.0.0.1:{PORTS.take()}", ca=plant.cloud.data / "ca.pem")
    plant.says("127.0.0.1:", "Connection refused")


class ThinLine(Line):
    """A line that carries some 16 kB/s towards the cloud, and counts."""

    def _pass_on(self, end: socket.socket) -> None:
        try:
            data = end.recv(800)
            self.pairs[end].sendall(data)
        except (OSError, KeyError):
            data = b""
        if not data:
            self._forget(end)
        # Keys of the selector say which end is the edge's.
        elif self.selector.get_key(end).data:
            self.bytes_up += len(data)
            time.sleep(0.05)


def test_on_a_thin_line_readings_take_less_than_half_of_their_bytes(plant):
    line = ThinLine(plant.cloud.tls_port)
    plant.starts_edge(f"mqtts://127.0.0.1:{line.port}", ca=plant.cloud.data / "ca.pem")
    try:
        plant.edge.is_connected()
        plant.cloud.kill()
        client = Client(plant.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
        states = itertools.cycle(["running", "standing", "running", "failed"])
        readings = [
            json.dumps({"n": n, "temperature": 20 + n % 7 / 4, "humidity": 40.5 + n % 3, "state": next(states)})
            for n in range(1_000)
        ]
        for reading in readings:
            client.publish("devices/pump-7/telemetry", reading, qos=1)
        client.disconnect()
        line.bytes_up = 0
        plant.cloud.start()
        deadline = time.monotonic() + 2 * PATIENCE_S
        while plant.edge.ledger()["delivered"] < len(readings):
            assert time.monotonic() < deadline, plant.edge.ledger()
            time.sleep(0.1)  # A command gives no event when its answer changes.
        counted = plant.cloud.has_rows(4 * len(readings), PATIENCE_S) and plant.cloud.rows("sequence, series")
        assert len(counted) == len(set(counted)) == 4 * len(readings)
        sent = sum(map(len, readings))
        assert line.bytes_up < sent / 2, f"{line.bytes_up} bytes on the line for {sent} of readings"
    finally:
        line.close()
