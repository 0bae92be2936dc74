"""`anomaly`, an application of an edge: models from a registry judge telemetry, and no model or reading does harm."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import models
from applications import apply, ending
from brokers import ROOT, Selvedge
from paho_client import Client
from sites import wait_until
from test_registries import Registry

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

ANOMALY = Path(os.environ.get("ANOMALY", ROOT / "target/apps/anomaly"))
ROUTE = """\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: to-anomaly}
spec: {from: devices/+/telemetry, to: [{topic: "apps/anomaly/readings/{device}"}]}
"""


def manifest(image: str, more: str = "", **settings: object) -> str:
    """The application, with what it is told."""
    env = "\n".join(f"            - {{name: {name}, value: {json.dumps(str(one))}}}" for name, one in settings.items())
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: anomaly}}
spec:
  selector: {{matchLabels: {{app: anomaly}}}}
  template:
    metadata: {{labels: {{app: anomaly}}}}
    spec:
      {more or "runtimeClassName: process"}
      containers:
        - name: main
          image: {image}
          env:
            - {{name: A, value: b}}
{env}
---
{ROUTE}"""


@pytest.fixture
def registry(tmp_path) -> Iterator[Registry]:
    """One that knows no users."""
    registry = Registry(tmp_path / "registry")
    yield registry
    registry.stop()


@pytest.fixture
def own(start) -> Iterator[Selvedge]:
    """An edge of the test's own."""
    with ending(start()) as edge:
        yield edge


class Watch:
    """Who sends readings, tells which model is to run, and sees what `anomaly` says."""

    def __init__(self, edge: Selvedge):
        self.edge = edge
        self.client = Client(edge.port).opened()
        self.client.subscribe("apps/anomaly/verdicts/#", 1)
        self.verdicts: list[dict] = []
        self.told: Client = Client(edge.port).opened()
        self.told.subscribe("apps/anomaly/status", 1)
        self.status: dict = {}

    def send(self, device: str = "pump-7", level: object = 10.0, flow: object = 10.0, **more: object) -> None:
        """A reading."""
        payload = json.dumps({"level": level, "flow": flow, **more})
        self.client.publish(f"devices/{device}/telemetry", payload)

    def want(self, model: str) -> None:
        """Which model is to run."""
        self.client.publish("models/anomaly", json.dumps({"model": model}), retain=True)

    def verdict(self, timeout_s: float = 10.0) -> dict:
        """The next one."""
        return json.loads(self.client.receive(timeout_s).payload)

    def says(self, what, patience_s: float = 20.0) -> dict:
        """Waits for a status of which something is so."""

        def is_so() -> bool:
            while not self.told.messages.empty():
                self.status = json.loads(self.told.messages.get().payload)
            return bool(self.status) and bool(what(self.status))

        try:
            wait_until(is_so, patience_s)
        except AssertionError:
            log = self.edge.run("logs", "anomaly", check=False).stdout
            raise AssertionError(f"its status is {json.dumps(self.status, indent=1)}, its log:\n{log}") from None
        return self.status

    def runs(self, label: str) -> None:
        """Waits until a model runs."""
        self.says(lambda status: status["model"] and status["model"]["label"] == label)

    def refuses(self, model: str, *words: str) -> None:
        """Waits until it says why a model does not run."""
        refused = lambda status: (status["refused_model"] or {}).get("reference") == model  # noqa: E731
        reason = self.says(refused)["refused_model"]["reason"]
        assert all(word in reason for word in words), reason

    def close(self) -> None:
        """At the end."""
        self.client.close()
        self.told.close()


@pytest.fixture
def watch(own) -> Iterator[Watch]:
    """Of the test's edge."""
    made = Watch(own)
    yield made
    made.close()


@pytest.fixture
def first(own, registry, watch) -> Watch:
    """One that runs as a program of the host, with a model, and has had a reading of `pump-7`."""
    apply(own, manifest(str(ANOMALY), ANOMALY_MODEL=models.push(registry, "1"), ANOMALY_DEADLINE_MS=300))
    watch.runs("pumps:1")
    watch.send()
    return watch


def test_telemetry_that_a_route_brings_is_judged(first):
    first.send(level=20.0, time="2026-11-28T12:00:00Z")
    judged = first.verdict()
    assert judged.pop("predict_us") > 0
    assert judged == {
        "device": "pump-7",
        "time": "2026-11-28T12:00:00Z",
        "score": 12.5,
        "verdict": "normal",
        "model": "pumps:1",
    }
    first.send(level=100.0, flow=100.0)
    assert first.verdict()["verdict"] == "anomalous"
