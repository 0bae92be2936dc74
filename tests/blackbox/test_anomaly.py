"""`anomaly`, an application of an edge: models from a registry judge telemetry, and no model or reading does harm."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import models
import onnx_by_hand as onnx
from applications import Host, apply, deployment, ending, runs
from brokers import ROOT, Selvedge, selvedge
from credentials import add_with_token
from paho_client import Client
from sites import Line, wait_until
from test_registries import Registry, between

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

ANOMALY = Path(os.environ.get("ANOMALY", ROOT / "target/apps/anomaly"))
DOCUMENTED = ROOT / "docs/anomaly.md"
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


def begun(edge: Selvedge, registry: Registry, watch: Watch, **settings: object) -> Watch:
    """One that runs as a program of the host, with a model, and has had a reading of `pump-7`."""
    apply(edge, manifest(str(ANOMALY), ANOMALY_MODEL=models.push(registry, "1"), **settings))
    watch.runs("pumps:1")
    watch.send()
    return watch


@pytest.fixture
def first(own, registry, watch) -> Watch:
    """One that has begun."""
    return begun(own, registry, watch)


@pytest.fixture
def impatient(own, registry, watch) -> Watch:
    """One that has begun, and does not wait for long."""
    return begun(own, registry, watch, ANOMALY_DEADLINE_MS=500)


@contextlib.contextmanager
def stream(watch: Watch, pause_s: float = 0.004) -> Iterator[list[float]]:
    """Readings of `pump-9` all the while, none of which waits for the one before; their times."""
    times: list[float] = []
    over = threading.Event()

    def send() -> None:
        while not over.wait(pause_s):
            reading = {"level": 1, "flow": 1, "time": 60.0 * (len(times) + 1)}
            watch.told.paho.publish("devices/pump-9/telemetry", json.dumps(reading), 1)
            times.append(reading["time"])

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()


def wait_for_more(times: list[float], count: int = 50) -> None:
    """Waits until so many more have been sent."""
    enough = len(times) + count
    wait_until(lambda: len(times) >= enough)


def build(edge: Selvedge) -> None:
    """The image `anomaly:1`, which has nothing but the program."""
    program = edge.directory / "anomaly"
    shutil.copy(ANOMALY, program)
    selvedge("image", "build", "anomaly:1", str(program), "--data", str(edge.data), "--", "/anomaly")


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for path in children for child in path.read_text().split())]


def peak_bytes(pid: int) -> int:
    """The most memory that it has had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


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


def test_a_model_takes_the_place_of_another_between_two_readings_of_a_steady_stream(first, registry):
    names = [models.push(registry, version) for version in ("2", "3", "4")]
    with stream(first) as times:
        for name, label in zip(names, ("pumps:2", "pumps:3", "pumps:4"), strict=True):
            first.want(name)
            first.runs(label)
            wait_for_more(times)
    judged = [first.verdict() for _ in times[1:]]
    assert [one["time"] for one in judged] == times[1:]
    assert list(dict.fromkeys(one["model"] for one in judged)) == [f"pumps:{number}" for number in (1, 2, 3, 4)]
    assert [one["model"] for one in judged] == sorted(one["model"] for one in judged)
    first.client.nothing_arrives()


def test_it_runs_the_model_that_it_was_told_when_it_is_started_again(own, first, registry):
    first.want(models.push(registry, "2"))
    first.runs("pumps:2")
    os.kill(Host(own).pids()[0], signal.SIGKILL)
    first.says(lambda status: status["model"] and status["counts"]["verdicts"] == 0)
    first.send()
    first.send()
    assert first.verdict()["model"] == "pumps:2"


def test_a_kill_loses_no_reading(own, registry, watch):
    begun(own, registry, watch, ANOMALY_DEADLINE_MS=60_000)
    one = models.written(models.distance(), readings=1)
    watch.want(models.push(registry, "2", one, window_readings=1))
    watch.runs("pumps:2")
    times: list[float] = []
    for number in range(1, 3):
        wait_until(lambda: len(family(Host(own).pids()[0])) == 2)
        program, worker = family(Host(own).pids()[0])
        # It has these, and has said nothing of them yet.
        os.kill(worker, signal.SIGSTOP)
        for _ in range(30):
            times.append(60.0 * (len(times) + 1))
            watch.send(time=times[-1])
        os.kill(program, signal.SIGKILL)
        wait_until(lambda: deployment(own, "anomaly")["restarts"] == number)  # noqa: B023
    judged = [watch.verdict()["time"] for _ in times]
    assert judged == times


def test_an_ordered_end_loses_and_doubles_no_reading(own, first, registry):
    one = models.written(models.distance(), readings=1)
    first.want(models.push(registry, "2", one, window_readings=1))
    first.runs("pumps:2")
    with stream(first) as times:
        wait_for_more(times)
        os.kill(Host(own).pids()[0], signal.SIGTERM)
        wait_until(lambda: deployment(own, "anomaly")["restarts"] == 1)
        wait_for_more(times)
    assert [first.verdict()["time"] for _ in times] == times
    first.client.nothing_arrives()


def hostile(registry: Registry) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Models by what is wrong with them: their names, and words of why they do not run."""
    whole = models.written(models.distance())
    large = whole + onnx.block(6, "x" * 200_000)
    other = "0" * 64
    of = {
        "truncated": ({"content": whole[: len(whole) // 2]}, ["no ONNX, or not all of it"]),
        "no-onnx": ({"content": b"model"}, ["no ONNX, or not all of it"]),
        "other-opset": ({"content": models.written(models.distance(), opset=9)}, ["opset 9", "says 18"]),
        "unknown-operator": (
            {"content": models.written(models.has_an_operator_that_nobody_knows())},
            ["cannot be run", "Telepathy"],
        ),
        "other-inputs": (
            {"content": models.written(models.distance(), inputs=3)},
            ["window [batch, 2, 3]", "to be window, float32 [batch, 2, 2]"],
        ),
        "2-gb": ({"size": 2 << 30}, ["has 2147483648 bytes; it may have 67108864", "not fetched"]),
        "longer-than-said": ({"content": large, "size": 1_000}, ["more than the 1000 bytes"]),
        "another-graph": ({"onnx_sha256": other}, ["SHA-256", other]),
        "memory": ({"content": models.written(models.eats_memory())}, ["128 MiB of memory", "stopped"]),
        "unknown-field": ({"colour": "red"}, ["unknown field `colour`"]),
        "no-ranges": ({"ranges": []}, ["0 ranges for 2 features"]),
    }
    return {what: (models.push(registry, what, **said), tuple(words)) for what, (said, words) in of.items()}


def test_a_hostile_model_is_refused_by_its_reason_while_the_other_goes_on(own, first, registry):
    for name, words in hostile(registry).values():
        first.want(name)
        first.refuses(name, *words)
        first.send()
        assert first.verdict()["model"] == "pumps:1"
    fetched = (registry.directory / "log").read_text()
    assert "GET /v2/models/pumps/manifests/2-gb" in fetched
    assert deployment(own, "anomaly")["restarts"] == 0
    assert own.alive()


def test_a_model_that_never_returns_is_stopped_while_the_other_goes_on(impatient, registry):
    name = models.push(registry, "2", models.written(models.never_returns()))
    impatient.want(name)
    impatient.says(lambda status: status["loading"] == name)
    for _ in range(20):
        impatient.send()
        assert impatient.verdict()["model"] == "pumps:1"
    impatient.refuses(name, "took more than 5000 ms, so it was stopped")


def test_a_model_that_stops_returning_is_given_up_for_the_one_before_and_its_reading_is_judged(
    own, impatient, registry
):
    name = models.push(registry, "2", models.written(models.returns_for_ordinary_readings_alone()))
    impatient.want(name)
    impatient.runs("pumps:2")
    impatient.send()
    assert impatient.verdict()["model"] == "pumps:2"
    for _ in range(2):
        impatient.send(level=99.0, flow=99.0)
    assert [impatient.verdict()["model"] for _ in range(2)] == ["pumps:2", "pumps:1"]
    impatient.refuses(name, "given up", "took more than 500 ms, so it was stopped")
    impatient.runs("pumps:1")
    assert impatient.status["counts"]["restarts"] == 2
    assert deployment(own, "anomaly")["restarts"] == 0


def test_the_process_of_a_model_that_is_killed_is_started_again_and_no_reading_lost(own, first):
    for number in range(2):
        _, worker = family(Host(own).pids()[0])
        os.kill(worker, signal.SIGKILL)
        first.send()
        assert first.verdict()["model"] == "pumps:1"
        first.says(lambda status: status["counts"]["restarts"] == number + 1)  # noqa: B023


def test_what_a_registry_lies_about_is_refused(first, registry):
    large = models.written(models.distance()) + onnx.block(6, "x" * 200_000)
    name = models.push(registry, "2", large)
    with between(registry, "changed") as (liar, _):
        lied = name.replace(registry.name, liar)
        first.want(lied)
        first.refuses(lied, "the digest sha256:", "it is to have", models.digest(large))
    pinned = f"{registry.name}/models/pumps@{models.digest(models.artifact('2', large)[1])}"
    first.want(pinned)
    first.runs("pumps:2")
    wrong = f"{registry.name}/models/pumps@sha256:{hashlib.sha256(b'').hexdigest()}"
    first.want(wrong)
    first.refuses(wrong, "404")
    first.want("pumps")
    first.refuses("pumps", "names no model")


def test_a_registry_that_is_away_is_said_and_asked_again(first, registry):
    name = models.push(registry, "2")
    registry.stop()
    first.want(name)
    first.refuses(name, f"{registry.name} cannot be asked")
    first.send()
    assert first.verdict()["model"] == "pumps:1"
    registry.start()
    first.runs("pumps:2")
    assert first.status["refused_model"] is None


UNFIT = {
    "missing": ({"level": 1}, "flow", "nothing; there is level", "a number from 0 to 100"),
    "named-otherwise": ({"Level": 1, "flow": 1}, "level", "nothing; there is Level, flow", "a number"),
    "text": ({"level": "high", "flow": 1}, "level", '"high"', "a number"),
    "nan": ({"level": "NaN", "flow": 1}, "level", "NaN", "a number"),
    "null": ({"level": 1, "flow": None}, "flow", "null", "a number"),
    "swapped": ({"level": 1, "flow": 451.5}, "flow", "451.5", "a number from 0 to 100"),
    "no-object": ([1, 2], None, "[1, 2]", "an object of JSON with level, flow"),
    "no-time": ({"level": 1, "flow": 1, "time": "noon"}, "time", '"noon"', "2026-11-28T12:00:00Z"),
}


def test_what_does_not_fit_the_model_is_said_by_device_feature_and_value_and_never_judged(first):
    for number, (what, (payload, feature, value, expected)) in enumerate(UNFIT.items()):
        first.client.publish(f"devices/{what}/telemetry", json.dumps(payload))
        last = first.says(lambda status: (status["last_mismatch"] or {}).get("device") == what)["last_mismatch"]  # noqa: B023
        assert (last.get("feature"), last["value"]) == (feature, value)
        assert expected in last["expected"]
        assert first.status["counts"]["refused"] == number + 1
    reasons = {"missing": 2, "no-number": 1, "not-finite": 2, "out-of-range": 1, "no-object": 1, "no-time": 1}
    assert first.status["mismatches"] == reasons
    first.client.nothing_arrives()


def test_readings_at_another_interval_than_the_models_are_said_and_a_gap_begins_a_window_anew(first):
    def send(device: str, *times_s: float) -> None:
        for time_s in times_s:
            first.send(device, time=time_s)

    send("fast", 0, 10, 20)
    last = first.says(lambda status: status["mismatches"].get("interval") == 2)["last_mismatch"]
    assert (last["device"], last["value"], last["expected"]) == ("fast", "10.000 s from one to the next", "60 s")
    send("back", 60, 0)
    first.says(lambda status: status["mismatches"].get("out-of-order") == 1)
    first.client.nothing_arrives()
    send("gap", 0, 600, 660)
    assert first.verdict()["time"] == 660
    first.says(lambda status: status["counts"]["gaps"] == 1)
    first.client.nothing_arrives()


def test_windows_of_so_many_devices_are_kept_and_the_one_that_was_silent_longest_goes(own, registry, watch):
    apply(own, manifest(str(ANOMALY), ANOMALY_MODEL=models.push(registry, "1"), ANOMALY_DEVICES_MAX=2))
    watch.runs("pumps:1")
    for device in ("a", "b", "a", "c", "a", "b"):
        watch.send(device)
    assert [watch.verdict()["device"] for _ in range(2)] == ["a", "a"]
    counts = watch.says(lambda status: status["counts"]["readings"] == 6)["counts"]
    assert (counts["devices"], counts["devices_forgotten"], counts["filling"]) == (2, 2, 4)


def test_without_a_model_readings_wait_for_one_and_none_is_lost(own, registry, watch):
    apply(own, manifest(str(ANOMALY)))
    watch.says(lambda status: status["state"] == "no-model")
    for time_s in range(0, 60 * 100, 60):
        watch.send(time=time_s)
    watch.want(models.push(registry, "1"))
    assert [watch.verdict()["time"] for _ in range(99)] == list(range(60, 60 * 100, 60))


def test_a_connection_that_breaks_loses_no_reading_and_brings_none_twice_into_a_window(own, registry, watch, tmp_path):
    one = models.written(models.distance(), readings=1)
    model = models.push(registry, "1", one, window_readings=1)
    token = tmp_path / "token"
    token.write_text(add_with_token(own, "app", "anomaly").password)
    line = Line(own.port)
    environment = {
        "SELVEDGE_MQTT_URL": f"mqtt://127.0.0.1:{line.port}",
        "SELVEDGE_MQTT_USERNAME": "anomaly",
        "SELVEDGE_MQTT_TOKEN_FILE": str(token),
        "ANOMALY_READINGS": "devices/+/telemetry",
        "ANOMALY_MODEL": model,
    }
    process = subprocess.Popen([ANOMALY], env=environment, stderr=subprocess.PIPE)
    try:
        watch.runs("pumps:1")
        with stream(watch, pause_s=0.001) as times:
            for _ in range(10):
                enough = watch.client.messages.qsize() + 20
                wait_until(lambda: watch.client.messages.qsize() >= enough)  # noqa: B023
                line.hang_up()
            wait_for_more(times)
        judged: list[float] = []
        while not judged or judged[-1] != times[-1]:
            judged.append(watch.verdict()["time"])
        # A verdict whose acknowledgement did not arrive is published again, as QoS 1 has it.
        assert list(dict.fromkeys(judged)) == times
        counts = watch.says(lambda status: status["counts"]["verdicts"] == len(times))["counts"]
        assert (counts["readings"], counts["refused"]) == (len(times), 0)
    finally:
        process.terminate()
        said = process.communicate(timeout=10)[1]
        line.close()
    assert said.count(b"asked again in") > 1


def test_as_documented_it_runs_from_an_image_in_a_container_with_little_memory(own, registry, watch):
    build(own)
    registry.push(own, "anomaly:1", "apps/anomaly", "1")
    own.run("image", "remove", "anomaly:1")
    text = re.search("```yaml\n(.*?)```", DOCUMENTED.read_text(), re.DOTALL)[1]
    text = text.replace("image: anomaly:1", f"image: '{registry.name}/apps/anomaly:1'")
    text = text.replace("registry.example/models/office-climate:1", models.push(registry, "1"))
    # The registry of the test is at 127.0.0.1.
    text = text.replace("      containers:", "      hostNetwork: true\n      containers:")
    apply(own, text)
    runs(own, "anomaly")
    watch.runs("pumps:1")
    for number in range(200):
        watch.send(time=60 * number)
    assert [watch.verdict()["time"] for _ in range(199)] == list(range(60, 60 * 200, 60))
    assert sum(peak_bytes(pid) for pid in family(Host(own).pids()[0])) <= 40_000_000


def test_in_a_network_of_its_own_it_finds_the_hub_by_name(own, registry, watch):
    build(own)
    model = models.push(registry, "1")
    apply(own, manifest("anomaly:1", "hostNetwork: false", ANOMALY_MODEL=model))
    # In there 127.0.0.1 is its own.
    watch.refuses(model, f"{registry.name} cannot be asked")


def test_it_is_one_static_file_of_less_than_30_mb():
    headers = subprocess.run(
        ["readelf", "--program-headers", ANOMALY], capture_output=True, text=True, check=True
    ).stdout
    assert "INTERP" not in headers
    assert ANOMALY.stat().st_size <= 30_000_000


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("ANOMALY_READINGS", "devices/#", "with one + for the device"),
        ("ANOMALY_DEADLINE_MS", "soon", "a whole number above 0"),
        ("SELVEDGE_MQTT_URL", "http://hub", "it is mqtt://HOST:PORT"),
    ],
)
def test_a_setting_that_is_wrong_is_named_with_what_would_be_right(name, value, said):
    login = {"SELVEDGE_MQTT_URL": "mqtt://h:1", "SELVEDGE_MQTT_USERNAME": "u", "SELVEDGE_MQTT_TOKEN_FILE": "/t"}
    done = subprocess.run([ANOMALY], env={**login, name: value}, capture_output=True, text=True, timeout=10)
    assert done.returncode == 1
    assert name in done.stderr
    assert said in done.stderr


def test_a_model_is_tried_without_an_edge(tmp_path):
    content = models.written(models.distance(2.0))
    (tmp_path / "model.onnx").write_bytes(content)
    (tmp_path / "model.json").write_text(json.dumps(models.description(content, "1")))
    windows = "[[1, 2], [3, 4]]\n[[0, 0], [0, 0]]\n[[1]]\n"
    done = subprocess.run(
        [ANOMALY, "predict", "--model", tmp_path], input=windows, capture_output=True, text=True, timeout=10
    )
    assert [json.loads(line)["score"] for line in done.stdout.splitlines()] == [5.0, 0.0]
    assert "line 3: a window has 2 readings of 2 numbers: level, flow" in done.stderr
