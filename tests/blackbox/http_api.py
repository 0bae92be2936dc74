"""The HTTP API of an edge or a cloud, as tests ask it."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket

from brokers import Selvedge
from raw import PATIENCE_S


class ControlSocket(http.client.HTTPConnection):
    """The door of an API that only its owner uses, and who needs no login."""

    def __init__(self, node: Selvedge):
        super().__init__("node", timeout=PATIENCE_S)
        self.path = node.data / "control.sock"

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Api:
    """An API, asked as a user, a device or nobody."""

    def __init__(self, node: Selvedge, authorization: str | None = None):
        self.node = node
        self.authorization = authorization

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, object]:
        """The status and the answer, of which every error is JSON with words."""
        headers = {"content-type": "application/json"}
        if self.authorization:
            headers["authorization"] = self.authorization
        if self.node.http_port is None:
            connection = ControlSocket(self.node)
        else:
            connection = http.client.HTTPConnection("127.0.0.1", self.node.http_port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
        said = json.loads(content) if content else None
        if answer.status >= 400:
            assert said["error"], said
        return answer.status, said

    def log_in(self, user: str, password: str) -> Api:
        """As this user."""
        status, said = self.ask("POST", "/v1/login", {"user": user, "password": password})
        assert status == 200, said
        return Api(self.node, f"Bearer {said['access_token']}")

    def basic(self, user: str, password: str) -> Api:
        """As this device."""
        return Api(self.node, "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode())
