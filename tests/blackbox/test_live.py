"""What devices say as it comes in: by Server-Sent Events to curl, by WebSocket to the client of `websockets`."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import subprocess
import threading
import time

import pytest
import websockets
from websockets.sync.client import connect

from brokers import Settings
from http_api import Api
from paho_client import Client
from raw import PATIENCE_S
from sites import PASSWORD, Cloud, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "user")]

LIVE = "/v1/tenants/default/telemetry/live"
PATIENCE_OF_RIGHTS_S = 15


class Curl:
    """`curl` that watches; its events as (name, id, data)."""

    def __init__(self, user: Api, query: str = "", last: str | None = None):
        words = ["curl", "-sSN", "-D", "-", "-H", f"Authorization: {user.authorization}"]
        words += ["-H", f"Last-Event-ID: {last}"] if last else []
        url = f"http://127.0.0.1:{user.node.http_port}{LIVE}{query}"
        self.process = subprocess.Popen([*words, url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.events: queue.Queue = queue.Queue()
        self.head: list[str] = []
        self.has_begun = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        assert self.has_begun.wait(PATIENCE_S), self.head

    def _read(self) -> None:
        fields: dict[str, str] = {}
        in_head = True
        for line in self.process.stdout:
            line = line.rstrip("\r\n")
            if in_head:
                self.head.append(line.lower())
                in_head = line != ""
                continue
            if line.startswith(":"):
                self.has_begun.set()
                continue
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
                continue
            if "data" in fields:
                self.events.put((fields.get("event", "message"), fields.get("id"), json.loads(fields["data"])))
            fields = {}
        self.has_begun.set()
        self.events.put(("closed", None, None))

    def next(self, patience_s: float = PATIENCE_S) -> tuple:
        """The next event."""
        return self.events.get(timeout=patience_s)

    def values(self, count: int) -> list:
        """The values of the next points."""
        return [self.next()[2]["value"] for _ in range(count)]

    def close(self) -> None:
        """Goes away without a word."""
        self.process.kill()
        self.process.wait(PATIENCE_S)


@pytest.fixture
def cloud(tmp_path):
    """A cloud with two devices."""
    made = Cloud(tmp_path, Settings(anonymous=False))
    made.start()
    for device in ("pump-7", "pump-8"):
        made.run("device", "add", device, "--password", PASSWORD)
    yield made
    made.stop()


@pytest.fixture
def admin(cloud):
    """The user that the first start made."""
    return Api(cloud).log_in("admin", (cloud.data / "admin.password").read_text().strip())


def post(cloud: Cloud, device: str, said: object) -> None:
    """A reading, acknowledged."""
    assert Api(cloud).basic(device, PASSWORD).ask("POST", f"/v1/devices/{device}/telemetry", said)[0] == 204


@contextlib.contextmanager
def watching(*args, **options):
    """A curl that ends with the test."""
    curl = Curl(*args, **options)
    try:
        yield curl
    finally:
        curl.close()


def test_points_come_as_events_with_their_names_and_no_proxy_holds_them_back(cloud, admin):
    """Of all devices, of one, of one stream."""
    with (
        watching(admin) as everything,
        watching(admin, "?device=pump-8") as of_device,
        watching(admin, "?device=pump-7&stream=b") as of_stream,
    ):
        assert everything.head[0].startswith("http/1.1 200")
        for line in ("content-type: text/event-stream", "x-accel-buffering: no"):
            assert line in everything.head, everything.head
        assert any("no-transform" in line for line in everything.head)
        post(cloud, "pump-7", {"a": 1, "b": "x\r\ny"})
        post(cloud, "pump-8", {"a": 2.5})
        said = [everything.next() for _ in range(3)]
        assert [(data["device"], data["stream"], data["value"]) for _, _, data in said] == [
            ("pump-7", "a", 1),
            ("pump-7", "b", "x\r\ny"),
            ("pump-8", "a", 2.5),
        ]
        assert {name for name, _, _ in said} == {"message"}
        assert of_device.next()[2]["value"] == 2.5
        assert of_stream.next()[2]["value"] == "x\r\ny"
        assert of_device.events.empty() and of_stream.events.empty()


def test_json_with_line_ends_and_numbers_of_many_digits_come_as_they_were_written(cloud, admin):
    """Neither breaks the stream of events."""
    client = Client(cloud.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    with watching(admin) as curl, websocket(admin) as socket_:
        client.publish("devices/pump-7/telemetry", b'{"l": [1,\r\n\n2], "n": 123456789012345678901234567890}', qos=1)
        assert curl.values(2) == [[1, 2], 123456789012345678901234567890]
        said = [json.loads(socket_.recv(PATIENCE_S)) for _ in range(2)]
        assert [one["point"]["value"] for one in said] == [[1, 2], 123456789012345678901234567890]
        post(cloud, "pump-7", {"n": 2})
        assert curl.values(1) == [2]
    client.disconnect()


def test_who_comes_back_with_the_last_id_gets_what_it_missed_and_nothing_twice(cloud, admin):
    """Though the cloud was killed meanwhile."""
    with watching(admin, "?device=pump-7") as curl:
        for number in range(3):
            post(cloud, "pump-7", {"n": number})
        last = [curl.next() for _ in range(3)][1][1]
    for number in range(3, 6):
        post(cloud, "pump-7", {"n": number})
    cloud.kill()
    cloud.start()
    post(cloud, "pump-7", {"n": 6})
    with watching(admin, "?device=pump-7", last) as curl:
        assert curl.values(5) == [2, 3, 4, 5, 6]
        post(cloud, "pump-7", {"n": 7})
        assert curl.values(1) == [7]
        assert curl.events.empty()
    status, said = admin.ask("GET", f"{LIVE}?after=1;DROP")
    assert status == 400 and "cursor" in said["error"]


@contextlib.contextmanager
def websocket(user: Api, query: str = "", **options):
    """A WebSocket of the library `websockets`."""
    if "subprotocols" not in options:
        options["additional_headers"] = {"Authorization": user.authorization}
    with connect(f"ws://127.0.0.1:{user.node.http_port}{LIVE}{query}", **options) as connection:
        yield connection


def test_a_websocket_gets_the_same(cloud, admin):
    """And goes on behind an id as well; a web page shows its token among the protocols."""
    protocols = ["selvedge.live", "bearer." + admin.authorization.removeprefix("Bearer ")]
    with websocket(admin) as one, websocket(admin, subprotocols=protocols) as other:
        assert other.subprotocol == "selvedge.live"
        post(cloud, "pump-7", {"n": 1})
        said = json.loads(one.recv(PATIENCE_S))
        assert said == json.loads(other.recv(PATIENCE_S))
        assert (said["point"]["device"], said["point"]["stream"], said["point"]["value"]) == ("pump-7", "n", 1)
        # The heartbeat of the library, which waits for the pong.
        assert one.ping().wait(PATIENCE_S)
    post(cloud, "pump-7", {"n": 2})
    with websocket(admin, f"?after={said['id']}") as one:
        assert json.loads(one.recv(PATIENCE_S))["point"]["value"] == 2


def test_a_websocket_of_nobody_or_of_another_tenant_is_not_opened(cloud, admin):
    """Nor one that says more than it should."""
    cloud.run("tenant", "add", "acme")
    cloud.run("user", "add", "acme/anna", "--role", "admin", "--password", PASSWORD)
    anna = Api(cloud).log_in("acme/anna", PASSWORD)
    for user, status in ((Api(cloud, "Bearer x"), 401), (anna, 404)):
        with pytest.raises(websockets.exceptions.InvalidStatus) as refused, websocket(user):
            pass
        assert refused.value.response.status_code == status
        assert user.ask("GET", LIVE)[0] == status
    with websocket(admin) as one:
        one.send("x" * 10_000)
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            one.recv(PATIENCE_S)
    assert cloud.alive()


def test_a_watch_ends_when_its_token_is_revoked(cloud, admin):
    """With a word why, by either way."""
    cloud.run("user", "add", "default/vera", "--role", "viewer", "--password", PASSWORD)
    vera = Api(cloud).log_in("default/vera", PASSWORD)
    with watching(vera) as curl, websocket(vera) as one:
        post(cloud, "pump-7", {"n": 1})
        assert curl.values(1) == [1]
        assert json.loads(one.recv(PATIENCE_S))["point"]["value"] == 1
        assert vera.ask("POST", "/v1/logout")[0] == 204
        name, _, data = curl.next(PATIENCE_OF_RIGHTS_S)
        assert name == "end" and "token" in data["reason"], data
        assert curl.next() == ("closed", None, None)
        assert "token" in json.loads(one.recv(PATIENCE_OF_RIGHTS_S))["end"]
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            one.recv(PATIENCE_S)


def test_a_reader_that_does_not_read_loses_the_oldest_and_is_told_how_many(cloud, admin):
    """And holds up nobody else."""
    count, size = 150, 100_000
    head = f"GET {LIVE} HTTP/1.1\r\nhost: x\r\nauthorization: {admin.authorization}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", cloud.http_port), timeout=PATIENCE_S) as slow, watching(admin) as quick:
        slow.sendall(head.encode())
        begun = b""
        while b"\r\n\r\n" not in begun:
            begun += slow.recv(4096)
        client = Client(cloud.port, "pump-7", user="pump-7", password=PASSWORD).opened()
        for number in range(count):
            client.publish("devices/pump-7/telemetry/p", json.dumps(f"{number:03}" + "x" * size), qos=1)
            # As fast as this one reads.
            assert quick.values(1)[0].startswith(f"{number:03}")
        client.disconnect()
        post(cloud, "pump-7", "end")
        text = begun
        while b'"end"' not in text:
            text += slow.recv(1 << 20)
    lost = [
        json.loads(line.partition("data: ")[2])["points"] for line in text.decode().split("\n") if '"points"' in line
    ]
    seen = text.count(b'"stream":"p"')
    assert sum(lost) > 0 and sum(lost) + seen == count, (lost, seen)


def test_who_goes_away_leaves_nothing_behind_and_a_tenant_has_a_bounded_number_of_readers(cloud, admin):
    """By either way, killed or closed."""
    before = cloud.descriptors()
    with contextlib.ExitStack() as stack:
        curls = [stack.enter_context(watching(admin)) for _ in range(8)]
        for _ in range(8):
            stack.enter_context(websocket(admin))
        status, said = admin.ask("GET", LIVE)
        assert status == 429 and "16" in said["error"]
        assert cloud.descriptors() > before + 10
        assert all(curl.process.poll() is None for curl in curls)
    # Who says no farewell is found by the next sign of life.
    wait_until(lambda: cloud.descriptors() <= before + 2, PATIENCE_OF_RIGHTS_S)
    with watching(admin) as curl:
        post(cloud, "pump-7", {"n": 1})
        assert curl.values(1) == [1]


def test_a_watch_outlasts_the_time_of_other_answers(cloud, admin):
    """Which is 30 s for a port: signs of life come all the while."""
    with watching(admin) as curl:
        deadline = time.monotonic() + 33
        while time.monotonic() < deadline:
            assert curl.process.poll() is None
            time.sleep(1)  # What is tested is that nothing happens for so long.
        post(cloud, "pump-7", {"n": 1})
        assert curl.values(1) == [1]
