"""A cloud, and an edge that has not heard of it yet."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import time
from pathlib import Path

from brokers import Settings
from credentials import context, openssl
from paho_client import Client
from sites import PASSWORD, Cloud, Edge

# The longest pause between two tries of a link or a renewal that has failed a few times, and some.
PATIENCE_S = 90
DAY_S = 86_400


class Plant:
    """A cloud, and an edge that has not heard of it."""

    def __init__(self, directory: Path, **cloud: object):
        self.directory = directory
        self.cloud = Cloud(directory / "cloud", Settings(anonymous=False, **cloud))
        self.edge = Edge(directory / "edge", Settings(anonymous=False, environment=cloud.get("environment", {})))
        for one in (self.cloud, self.edge):
            one.directory.mkdir(parents=True)
        self.cloud.start()
        self.others: list = []

    def another_cloud(self, name: str = "other") -> Cloud:
        """A cloud of somebody else."""
        other = Cloud(self.directory / name, Settings(anonymous=False))
        other.directory.mkdir()
        self.others.append(other)
        return other.start()

    def url(self) -> str:
        """Where the cloud is asked for certificates."""
        return f"https://127.0.0.1:{self.cloud.https_port}"

    def joins(self, token: str, url: str | None = None, check: bool = True) -> subprocess.CompletedProcess:
        """The one command on the edge's machine."""
        return self.edge.run("edge", "join", url or self.url(), "--token", token, check=check)

    def refuses(self, token: str, *words: str, url: str | None = None) -> str:
        """The command says these words, and leaves the edge as it was."""
        before = self.membership()
        done = self.joins(token, url, check=False)
        assert done.returncode == 1, done.stdout
        assert all(word in done.stderr for word in words), done.stderr
        assert "panicked" not in done.stderr and token not in done.stderr
        assert self.membership() == before
        return done.stderr

    def has_joined(self) -> Plant:
        """The edge runs and has its cloud."""
        self.edge.start()
        self.joins(self.cloud.invite("hall-1")["token"])
        self.edge.is_connected()
        return self

    def membership(self) -> dict | None:
        """What the edge has of its cloud."""
        path = self.edge.data / "membership.json"
        return json.loads(path.read_text()) if path.exists() else None

    def pair(self) -> tuple[Path, Path]:
        """Copies of the edge's certificate and its key."""
        membership = self.membership()
        paths = self.directory / "copy.pem", self.directory / "copy.key"
        for path, name in zip(paths, ("certificate_pem", "key_pem"), strict=True):
            path.write_text(membership[name])
        return paths

    def serial(self) -> str:
        """Serial number of the certificate that the edge has."""
        said = subprocess.run(
            ["openssl", "x509", "-noout", "-serial"],
            input=self.membership()["certificate_pem"],
            capture_output=True,
            text=True,
            check=True,
        )
        return said.stdout.strip().split("=")[1].lower()

    def delivers(self, numbers: range) -> None:
        """A device of the edge sends these readings, and all that it ever sent are in the database once."""
        self.edge.run("device", "add", "pump-7", "--password", PASSWORD, check=False)
        client = Client(self.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
        for number in numbers:
            client.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)
        client.disconnect()
        rows = self.cloud.has_rows(numbers.stop, PATIENCE_S)
        assert sorted(int(number) for _, _, number in rows) == list(range(numbers.stop))

    def says(self, *words: str) -> str:
        """Why there is no link, once the edge says these words."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(word in (said := self.edge.link()["last_error"] or "") for word in words):
            assert time.monotonic() < deadline, f"{words} not in {said!r}:\n{self.edge.tail()}"
            time.sleep(0.05)  # A command gives no event when its answer changes.
        return said

    def close(self) -> None:
        """Ends all of it."""
        self.edge.stop()
        for other in self.others:
            other.stop()
        self.cloud.stop()


def secured(port: int, authority: Path) -> http.client.HTTPSConnection:
    """A client of HTTPS that believes this authority."""
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context(authority))


def ask(cloud: Cloud, method: str, path: str, body: object = None) -> tuple[int, dict]:
    """Asks a cloud over HTTPS, as nobody."""
    connection = secured(cloud.https_port, cloud.data / "ca.pem")
    with contextlib.closing(connection):
        headers = {"content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"null")


def request_pem(directory: Path, subject: str = "/", *extensions: str) -> str:
    """A request for a certificate, and its key beside it."""
    key, request = directory / "request.key", directory / "request.csr"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", *curve, "-keyout", str(key), "-out", str(request), "-subj", subject, *extensions)
    return request.read_text()
