"""A cloud and an edge behind it, with a line between them that can be cut."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import selectors
import shutil
import socket
import sqlite3
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from brokers import BINARY, PORTS, Selvedge, Settings
from clocks import Clock
from paho_client import Client
from raw import PATIENCE_S, SLOWNESS

PASSWORD = "a password of the tests"
TELEMETRY = "devices/pump-7/telemetry"


def wait_until(what: Callable[[], bool], patience_s: float = 10.0) -> None:
    """Waits until something is so."""
    deadline = time.monotonic() + patience_s * SLOWNESS
    while not what():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)  # Answers of commands give no event when they change.


def balances(ledger: dict) -> None:
    """What came is somewhere; what is queued was counted in the queue."""
    assert ledger["received"] == ledger["delivered"] + ledger["queued"] + sum(ledger["dropped"].values()), ledger


class Line:
    """A line of TCP between the edge and its cloud: forwards bytes until it is cut, and again once it is mended."""

    def __init__(self, target: int):
        self.target = target
        self.port = PORTS.take()
        self.is_cut = False
        self.bytes_up = 0
        self.pairs: dict[socket.socket, socket.socket] = {}
        self.listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.lock = threading.Lock()
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.is_open = True
        threading.Thread(target=self._run, daemon=True).start()

    def cut(self) -> None:
        """Nothing passes any more; whoever speaks is not told, as when a cable is pulled."""
        self.is_cut = True

    def mend(self) -> None:
        """New connections pass; those from before stay silent for ever."""
        with self.lock:
            for end in list(self.pairs):
                self._forget(end)
            self.is_cut = False

    def hang_up(self) -> None:
        """Ends all connections at once, as a router does that restarts."""
        with self.lock:
            for end in list(self.pairs):
                self._forget(end)

    def close(self) -> None:
        """Ends it."""
        self.is_open = False
        self.hang_up()
        with contextlib.suppress(OSError):
            self.listener.close()

    def _run(self) -> None:
        while self.is_open:
            for key, _ in self.selector.select(0.05):
                with self.lock, contextlib.suppress(OSError):
                    self._accept() if key.fileobj is self.listener else self._pass_on(key.fileobj)

    def _accept(self) -> None:
        near, _ = self.listener.accept()
        if self.is_cut:
            self.pairs[near] = near
            return
        try:
            far = socket.create_connection(("127.0.0.1", self.target), timeout=1)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.settimeout(5)
            self.pairs[one] = other
            self.selector.register(one, selectors.EVENT_READ, one is near)

    def _pass_on(self, end: socket.socket) -> None:
        if self.is_cut:
            time.sleep(0.005)  # What lies in the kernel stays there.
            return
        try:
            data = end.recv(1 << 16)
            if not data:
                raise OSError
            self.pairs[end].sendall(data)
            self.bytes_up += len(data) if self.selector.get_key(end).data else 0
        except (OSError, KeyError):
            self._forget(end)

    def _forget(self, end: socket.socket) -> None:
        for one in {end, self.pairs.get(end, end)}:
            self.pairs.pop(one, None)
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(one)
            one.close()


class Cloud(Selvedge):
    """`selvedge cloud`, with its embedded database."""

    def __init__(self, directory: Path, settings: Settings):
        super().__init__(directory, settings)
        self.tls_port = PORTS.take()
        self.http_port = PORTS.take()
        self.https_port = PORTS.take()

    def command(self) -> list[str]:
        """Flags, and a file where the test has more to say."""
        words = [BINARY, "cloud", "--data", str(self.data), "--mqtt", f"127.0.0.1:{self.port}"]
        words += ["--mqtts", f"127.0.0.1:{self.tls_port}", "--http", f"127.0.0.1:{self.http_port}"]
        words += ["--https", f"127.0.0.1:{self.https_port}"]
        if self.settings.configuration:
            (self.directory / "cloud.toml").write_text(self.settings.configuration)
            words += ["--config", str(self.directory / "cloud.toml")]
        return words + self.settings.arguments

    def invite(self, edge: str, *words: str) -> dict:
        """What an edge needs to join."""
        return json.loads(self.run("edge", "invite", edge, *words, "--output", "json").stdout)

    def rows(self, columns: str = "epoch, sequence, number") -> list[tuple]:
        """The rows of telemetry, in the order in which they were stored."""
        path = self.data / "telemetry.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=PATIENCE_S)) as database:
            return database.execute(f"SELECT {columns} FROM telemetry ORDER BY rowid").fetchall()

    def has_rows(self, count: int, patience_s: float = PATIENCE_S) -> list[tuple]:
        """The rows, once there are as many."""
        deadline = time.monotonic() + patience_s
        while len(rows := self.rows()) < count:
            assert time.monotonic() < deadline, f"{len(rows)} of {count} rows:\n{self.tail()}"
            time.sleep(0.05)  # A database gives no event when it grows.
        return rows

    def edges(self) -> list[dict]:
        """What `selvedge get edges` says; its ledgers balance."""
        edges = json.loads(self.run("get", "edges", "--output", "json").stdout)
        for ledger in [ledger for edge in edges for ledger in edge["ledgers"]]:
            balances(ledger)
        return edges

    def arrivals(self, edge: str = "hall-1", tenant: str = "default") -> dict:
        """What came from an edge by its first route of a tenant."""
        found = next(each for each in self.edges() if each["name"] == edge)["arrivals"]
        return next(arrival for arrival in found if arrival["tenant"] == tenant)


def metric(side: Selvedge, name: str, **labels: str) -> float:
    """The sum of a figure on the page of metrics over all that have these labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{side.http_port}/metrics", timeout=PATIENCE_S) as page:
        lines = [line for line in page.read().decode().splitlines() if re.match(rf"selvedge_{name}[{{ ]", line)]
    assert lines, f"no {name} on the page"
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(float(line.split()[-1]) for line in lines if all(label in line for label in wanted))


class Edge(Selvedge):
    """`selvedge edge` with a cloud."""

    name = "hall-1"
    order = "live-first"
    limit_bytes = 512 << 20
    # More lines of its configuration, and more flags.
    more = ""
    flags: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """As any edge's."""
        return [*super().command(), *self.flags]

    def joins(self, cloud: Cloud, port: int) -> None:
        """Gets its credential and is told the way; `port`: where it finds the cloud."""
        said = cloud.run("edge", "add", self.name, "--output", "json").stdout
        (self.directory / "password").write_text(json.loads(said)[0]["issued"]["password"])
        self.settings.configuration = f"""
            [link]
            url = "mqtts://127.0.0.1:{port}"
            user_name = "{self.name}"
            password_file = "{self.directory / "password"}"
            ca = "{cloud.data / "ca.pem"}"
            bytes = {self.limit_bytes}
            order = "{self.order}"
            {self.more}
        """

    def link(self) -> dict:
        """What `selvedge get link` says; its ledgers balance."""
        link = json.loads(self.run("get", "link", "--output", "json").stdout)
        for ledger in link["ledgers"]:
            balances(ledger)
        return link

    def ledger(self, tenant: str = "default") -> dict:
        """What became of a tenant's telemetry."""
        return next(ledger for ledger in self.link()["ledgers"] if ledger["tenant"] == tenant)

    def is_connected(self, patience_s: float = PATIENCE_S) -> None:
        """Waits until it has its cloud."""
        deadline = time.monotonic() + patience_s
        while not self.link()["is_connected"]:
            assert time.monotonic() < deadline, f"no link:\n{self.tail()}"
            time.sleep(0.05)  # A command gives no event when its answer changes.


class Site:
    """A cloud, an edge, and the line between them."""

    def __init__(self, directory: Path, cloud: type[Cloud] = Cloud, database: str | None = None, **edge: object):
        arguments = ["--database", database] if database else []
        self.cloud = cloud(directory / "cloud", Settings(anonymous=False, arguments=arguments))
        self.edge = Edge(directory / "edge", Settings(anonymous=False, http=True))
        for one in (self.cloud, self.edge):
            one.directory.mkdir(parents=True)
        for name, value in edge.items():
            setattr(self.edge, name, value)
        self.cloud.start()
        self.line = Line(self.cloud.tls_port)
        self.edge.joins(self.cloud, self.line.port)
        self.edge.start()
        self.edge.run("device", "add", "pump-7", "--password", PASSWORD)
        self.edge.is_connected()

    def close(self) -> None:
        """Ends all of it."""
        self.edge.stop()
        self.line.close()
        self.cloud.stop()


def backed_up(side: Cloud | Edge, directory: Path) -> Path:
    """A copy of all that a side has, made while it is stopped."""
    side.stop()
    shutil.copytree(side.data, directory / "backup", ignore=shutil.ignore_patterns("*.sock"))
    side.start()
    return directory / "backup"


def restored(side: Cloud | Edge, backup: Path, clock_s: int | None = None) -> None:
    """The side begins anew with its backup, and with a clock that is so far before or behind the host's."""
    side.stop()
    shutil.rmtree(side.data)
    shutil.copytree(backup, side.data)
    if clock_s is not None:
        clock = Clock(side.directory)
        clock.set(clock_s)
        side.settings.environment = clock.environment
    side.start()


class Pump:
    """A device that counts: each message has the next number, and it knows which were acknowledged."""

    def __init__(self, site: Site, user: str = "pump-7", channel: str = "", pad: int = 0):
        """`user`: with its tenant in front, where it has one; `channel`: below its telemetry; `pad`: bytes that say
        nothing, behind the number."""
        self.port = site.edge.port
        self.user, self.pad = user, " " * pad
        self.topic = f"devices/{user.rsplit('/', maxsplit=1)[-1]}/telemetry{channel}"
        self.numbers = itertools.count()
        self.acknowledged: list[int] = []
        self.sent = 0

    def client(self) -> Client:
        """A new connection."""
        return Client(self.port, self.user + self.topic, user=self.user, password=PASSWORD).opened()

    def send(self, count: int, qos: int = 1) -> None:
        """Sends as many messages, each acknowledged before the next."""
        client = self.client()
        for _ in range(count):
            self._send_next(client, qos)
        client.disconnect()

    def run(self, stop: threading.Event) -> None:
        """Sends until it is told to stop, through all that happens to its edge."""
        while not stop.is_set():
            with contextlib.suppress(Exception):
                self._one_connection(stop)

    def _one_connection(self, stop: threading.Event) -> None:
        client = self.client()
        try:
            while not stop.is_set():
                self._send_next(client, 1)
        finally:
            client.close()

    def _send_next(self, client: Client, qos: int) -> None:
        number = next(self.numbers)
        self.sent = number + 1
        if not client.publish(self.topic, json.dumps({"n": number}) + self.pad, qos=qos).is_failure:
            self.acknowledged.append(number)


def numbers(rows: list[tuple]) -> list[int]:
    """What the pump counted, by the rows of a database."""
    return [int(number) for _, _, number in rows]
