"""Routes and manifests: `selvedge apply`, its errors with their place, and what a route does to messages."""

import json

import pytest

from test_operation import get
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.needs("apply")]

ALARM = """\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: water-alarm}
spec:
  from: devices/+/telemetry
  when: payload.level < 0.1
  to:
    - topic: apps/dashboard/alarms/{device}
"""
STOP = """\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: dry-stop}
spec:
  from: devices/+/telemetry
  when: payload.level < 0.1
  to:
    - method: {device: "{device}", name: stop, payload: '{"reason": "dry"}'}
"""


@pytest.fixture
def own(start):
    """An edge of the test's own, since routes are for everybody on it."""
    return start()


def apply(own, text: str, *words: str, check: bool = True):
    """`selvedge apply -f FILE`."""
    path = own.directory / "manifest.yaml"
    path.write_text(text)
    return own.run("apply", "-f", str(path), *words, check=check)


def test_a_route_copies_what_meets_its_condition(own, client):
    """Contract of routes: subscribers still receive."""
    apply(own, ALARM)
    app, plain, pump = client(to=own), client(to=own), client(to=own)
    app.subscribe("apps/dashboard/alarms/+")
    plain.subscribe("devices/#")
    for level in (0.5, 0.05):
        pump.publish("devices/pump-7/telemetry", json.dumps({"level": level}))
    got = app.receive()
    assert (got.topic, json.loads(got.payload)) == ("apps/dashboard/alarms/pump-7", {"level": 0.05})
    app.nothing_arrives()
    assert len(plain.payloads(2)) == 2


def test_a_route_calls_a_method(own, client):
    """Contract of routes: the round trip without an application between."""
    apply(own, STOP)
    pump = client("pump-7", to=own)
    pump.subscribe("devices/pump-7/methods/+/+")
    pump.publish("devices/pump-7/telemetry", b'{"level": 0.01}')
    got = pump.receive()
    assert got.topic.startswith("devices/pump-7/methods/stop/")
    assert json.loads(got.payload) == {"reason": "dry"}


def test_a_condition_that_fails_at_run_time_is_counted_and_stops_nothing(start, client):
    """The message goes its way; `describe` and /metrics say that it failed, and for which message."""
    own = start(http=True)
    apply(own, ALARM)
    app, pump = client(to=own), client(to=own)
    app.subscribe("apps/#")
    for payload in (b"not json", b'{"level": "high"}', b"{}", b"\xff", b""):
        pump.publish("devices/pump-7/telemetry", payload)
    pump.publish("devices/pump-7/telemetry", b'{"level": 0}')
    assert json.loads(app.receive().payload) == {"level": 0}
    app.nothing_arrives()
    described = own.run("describe", "route", "water-alarm").stdout
    assert "copies made 1, failed 5," in described
    assert "# last failed for a message on devices/pump-7/telemetry: " in described
    counted = 'selvedge_route_failed_total{tenant="default",route="water-alarm"} 5'
    assert counted in get(own, "/metrics")[1].splitlines()


def test_routes_that_feed_each_other_end(own, client):
    """Routes cannot loop for ever."""
    rule = (
        "apiVersion: selvedge.dev/v1\nkind: Route\nmetadata: {{name: {0}}}\nspec: {{from: {1}, to: [{{topic: {2}}}]}}\n"
    )
    apply(own, rule.format("there", "loop/a", "loop/b") + "---\n" + rule.format("back", "loop/b", "loop/a"))
    one = client(to=own)
    one.subscribe("loop/#", 0)
    one.publish("loop/a", b"x")
    assert len(one.everything()) < 100
    assert own.alive()


def test_apply_is_idempotent_and_a_dry_run_changes_nothing(own):
    """Contract of apply."""
    shown = apply(own, ALARM, "--dry-run").stdout
    assert "+" in shown and "water-alarm" in shown
    assert "water-alarm" not in own.run("get", "routes").stdout
    apply(own, ALARM)
    again = apply(own, ALARM).stdout
    assert again == "= Route/water-alarm unchanged\n"
    assert own.run("get", "routes").stdout.count("water-alarm") == 1
    own.run("delete", "route", "water-alarm")
    assert "water-alarm" not in own.run("get", "routes").stdout


MISTAKES = [
    ("selvedge.dev/v1", "selvedge.dev/v2", 1, "apiVersion", "selvedge.dev/v1"),
    ("kind: Route", "kind: Rout", 2, "kind", "Route"),
    ("{name: water-alarm}", "{nmae: water-alarm}", 3, "nmae", "name"),
    ("{name: water-alarm}", "{name: water alarm!}", 3, "metadata.name", "letters, digits"),
    ("spec:", "spce:", 4, "spce", "spec"),
    ("from: devices", "form: devices", 5, "form", "from"),
    ("devices/+/telemetry", "devices/#/telemetry", 5, "spec.from", "#"),
    ("devices/+/telemetry", "[devices]", 5, "spec.from", "string"),
    ("when: payload", "whem: payload", 6, "whem", "when"),
    ("payload.level < 0.1", "payload.level <", 6, "spec.when", "missing at its end"),
    ("payload.level < 0.1", "device.lables.kind == 'pump'", 6, "device.lables", "device.labels"),
    ("- topic: apps", "- topik: apps", 8, "topik", "topic"),
    ("{device}", "{devise}", 8, "devise", "device"),
]


@pytest.mark.parametrize(("was", "wrong", "line", "field", "right"), MISTAKES, ids=[each[1] for each in MISTAKES])
def test_a_mistake_is_named_with_file_line_field_and_what_would_be_right(own, was, wrong, line, field, right):
    """Nothing is applied where anything is wrong, and nothing of a file whose other documents are right."""
    other = ALARM.replace("water-alarm", "another")
    done = apply(own, ALARM.replace(was, wrong) + "---\n" + other, check=False)
    assert done.returncode != 0
    said = next(each for each in done.stderr.splitlines() if f"manifest.yaml:{line}: " in each)
    assert field in said and right in said, done.stderr
    assert own.run("get", "routes").stdout.count("\n") <= 1


DEVICE = """\
apiVersion: selvedge.dev/v1
kind: Device
metadata: {name: NAME}
spec:
  desired: {DESIRED}
"""


def folder(own, **files: str):
    """A folder of files, their names with an underscore for the dot, and things beside them that are no manifests."""
    path = own.directory / "site"
    (path / "more.yaml").mkdir(parents=True)
    (path / "more.yaml/route.yaml").write_text("no: manifest")
    (path / "README.md").write_text("no manifest")
    for name, text in files.items():
        (path / name.replace("_", ".")).write_text(text)
    return path


def test_a_folder_is_applied_file_by_file_by_their_names(own):
    """As kubectl takes it: YAML and JSON that lie in it, and nothing else."""
    stop = json.dumps({
        "apiVersion": "selvedge.dev/v1", "kind": "Route", "metadata": {"name": "dry-stop"},
        "spec": {"from": "devices/+/telemetry", "to": [{"topic": "dry/{device}"}]},
    })  # fmt: skip
    later = ALARM.replace("apps/dashboard", "apps/later")
    path = folder(own, b_json=stop, a_yaml=ALARM, c_yml=later)
    dry = own.run("apply", "-f", str(path), "--dry-run").stdout
    assert dry.splitlines()[:2] == ["+ Route/water-alarm", "+ Route/dry-stop"]
    assert "no routes" in own.run("get", "routes").stdout
    said = own.run("apply", "-f", str(path)).stdout.splitlines()
    assert said[:2] == ["+ Route/water-alarm", "+ Route/dry-stop"] and said[2].startswith("~ Route/water-alarm"), said
    assert "apps/later" in own.run("describe", "route", "water-alarm").stdout
    again = json.loads(own.run("apply", "-f", str(path), "--output", "json").stdout)
    assert again["unchanged"] == ["Route/dry-stop"] and len(again["changes"]) == 2, again


def test_of_a_folder_with_a_mistake_nothing_is_applied_and_each_mistake_is_named(own):
    path = folder(own, a_yaml=ALARM, b_yaml=STOP.replace("level <", "levl <").replace("when:", "whn:"), c_yaml="x: 1")
    refused = own.run("apply", "-f", str(path), check=False)
    assert refused.returncode == 1
    assert f"{path}/b.yaml:6" in refused.stderr and f"{path}/c.yaml:1" in refused.stderr, refused.stderr
    assert "no routes" in own.run("get", "routes").stdout


def test_a_folder_without_a_manifest_is_refused(own):
    refused = own.run("apply", "-f", str(folder(own)), check=False)
    assert refused.returncode == 1 and "site: no *.yaml, *.yml or *.json is in it" in refused.stderr


def manifest(name: str, desired: str) -> str:
    """Of a device of which this is desired."""
    return DEVICE.replace("NAME", name).replace("DESIRED", desired)


def desired_of(own, name: str) -> dict:
    """As the twin has it."""
    return json.loads(own.run("twin", "get", name).stdout)["desired"]


REFUSED = [("$meta: 1", '"$meta" cannot be set'), ("$version: 7, interval_s: 5", "the desired state is at version 1")]


@pytest.mark.parametrize(("desired", "why"), REFUSED)
def test_of_a_file_with_a_desired_state_that_cannot_be_nothing_is_applied(own, desired, why):
    """The first device of the file stays as it was, and so does one that has been there before."""
    own.run("device", "add", "pump-7", "pump-8", "--trusted-certificate")
    own.run("twin", "set", "pump-8", '{"interval_s": 10}')
    done = apply(own, manifest("pump-7", "interval_s: 5") + "---\n" + manifest("pump-8", desired), check=False)
    assert done.returncode == 1
    assert "manifest.yaml:11: spec.desired: " in done.stderr and why in done.stderr, done.stderr
    assert done.stderr.endswith("   (nothing was applied)\n")
    assert "interval_s" not in desired_of(own, "pump-7")
    assert desired_of(own, "pump-8")["interval_s"] == 10


def test_what_is_desired_in_a_file_and_was_changed_beside_it_is_applied_again(own):
    """A manifest is compared with what is so; what it does not name is left to others."""
    own.run("device", "add", "pump-7", "--trusted-certificate")
    file = manifest("pump-7", "interval_s: 10, mode: {day: low}")
    apply(own, file)
    own.run("twin", "set", "pump-7", '{"other": 1, "mode": {"night": "off"}}')
    assert apply(own, file).stdout == "= Device/pump-7 unchanged\n"
    own.run("twin", "set", "pump-7", '{"interval_s": 20, "mode": {"day": null}}')
    said = apply(own, file).stdout
    assert "interval_s" in said and "day" in said and "unchanged" not in said
    expected = {"interval_s": 10, "mode": {"day": "low", "night": "off"}, "other": 1, "$version": 4}
    assert desired_of(own, "pump-7") == expected


def test_a_route_survives_a_kill(own, client):
    """Applied is applied."""
    apply(own, ALARM)
    own.kill()
    own.start()
    app, pump = client(to=own), client(to=own)
    app.subscribe("apps/#")
    pump.publish("devices/pump-7/telemetry", b'{"level": 0}')
    app.receive()


def test_a_placeholder_never_makes_a_topic_of_twins_and_methods(start, dial):
    """What a client puts into its topic would else be a call that nobody made, past all that a call is checked for."""
    own = start(http=True)
    apply(
        own,
        ALARM.replace("devices/+/telemetry", "in/#").replace("apps/dashboard/alarms/{device}", '"{2}/{3}/{4}/{5}/{6}"'),
    )
    pump, app = dial(to=own).open("p7"), dial(to=own).open("")
    pump.subscribe([("devices/p7/#", 0)])
    for topic in ("in/devices/p7/methods/stop/1", "in/devices/p7/twin/desired/set"):
        app.publish(topic, b'{"level": 0}', qos=1, packet_id=1).expect(Kind.PUBACK)
    pump.ping()
    app.publish("in/devices/p7/alarms/water/low", b'{"level": 0}')
    assert pump.expect(Kind.PUBLISH).topic == "devices/p7/alarms/water/low"
    counted = 'selvedge_route_failed_total{tenant="default",route="water-alarm"} 2'
    assert counted in get(own, "/metrics")[1].splitlines()
    described = own.run("describe", "route", "water-alarm").stdout
    assert "it gives a topic of twins and methods, which routes leave alone" in described
