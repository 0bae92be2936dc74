"""The commands that operate an edge, running or stopped: what they say, and what comes of it."""

import json
import signal
import stat
import subprocess
import time

import pytest

import wire
from credentials import add
from raw import PATIENCE_S
from test_operation import get

pytestmark = pytest.mark.contract

DEVICE = """\
apiVersion: selvedge.dev/v1
kind: Device
metadata: {name: pump-7}
spec:
  labels: {kind: pump}
  desired: {interval_s: 10}
"""
BY_LABEL = """\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: pumps}
spec:
  from: devices/+/telemetry
  when: device.labels.kind == "pump"
  to: [{topic: "apps/dash/{device}"}]
"""


@pytest.fixture
def own(start):
    """An edge that lets nobody in without credentials."""
    return start(anonymous=False, http=True)


def apply(own, text: str):
    """`selvedge apply -f FILE`."""
    path = own.directory / "manifest.yaml"
    path.write_text(text)
    return own.run("apply", "-f", str(path))


def eventually(holds) -> None:
    """What the edge does when it gets to it."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)  # Nothing tells when it is done.


def test_the_line_to_try_works_as_it_is_printed(own):
    """What such a page prints works as printed."""
    said = own.run("device", "add", "pump-7").stdout
    line = next(line.split(maxsplit=1)[1] for line in said.splitlines() if line.strip().startswith("try"))
    assert line.startswith("mosquitto_pub ")
    subprocess.run(line, shell=True, check=True, timeout=PATIENCE_S, capture_output=True)


def test_a_generated_password_is_shown_once_and_kept_nowhere(own):
    """Only its hash is."""
    added = json.loads(own.run("device", "add", "pump-7", "--output", "json").stdout)
    password = added[0]["issued"]["password"]
    assert password not in own.run("device", "show", "pump-7", "--output", "json").stdout
    own.stop()
    kept = b"".join(path.read_bytes() for path in own.data.rglob("*") if path.is_file() and path.suffix != ".log")
    assert password.encode() not in kept


def test_the_desired_state_is_set_and_the_device_hears_of_it(own, client):
    """`selvedge twin set` on a running edge."""
    pump = client(to=own, **add(own, "device", "pump-7").login())
    pump.subscribe("devices/pump-7/twin/desired")
    said = own.run("twin", "set", "pump-7", '{"interval_s": 10}').stdout
    assert "version 1" in said and "connected" in said
    assert json.loads(pump.receive().payload) == {"$version": 1, "interval_s": 10}
    pump.publish("devices/pump-7/twin/reported", b'{"level": 0.5}')
    assert json.loads(own.run("twin", "get", "pump-7").stdout)["reported"]["level"] == 0.5
    stale = own.run("twin", "set", "pump-7", '{"$version": 0, "interval_s": 20}', check=False)
    assert stale.returncode == 1 and "version 1 now" in stale.stderr


def test_a_call_prints_what_the_device_answers(own, client):
    """`selvedge call`: the payload of the result, or why there is none."""
    away = own.run("call", "pump-7", "stop", check=False)
    assert away.returncode == 1 and "no device" in away.stderr
    pump = client(to=own, **add(own, "device", "pump-7").login())
    silent = own.run("call", "pump-7", "stop", "--timeout", "0.2", check=False)
    assert silent.returncode == 1 and "not connected" in silent.stderr
    pump.subscribe("devices/pump-7/methods/+/+")
    late = own.run("call", "pump-7", "stop", "--timeout", "0.2", check=False)
    assert late.returncode == 1 and "did not answer" in late.stderr and "0.2 s" in late.stderr
    pump.receive()
    calling = subprocess.Popen(
        [own.command()[0], "call", "pump-7", "stop", "now", "--data", str(own.data)], stdout=subprocess.PIPE
    )
    asked = pump.receive()
    assert asked.payload == b"now"
    pump.publish(f"{asked.topic}/result", b'{"status": 200, "payload": "stopped"}')
    assert calling.communicate(timeout=PATIENCE_S)[0] == b"stopped\n"


def test_labels_of_a_manifest_steer_routes_at_once(own, client):
    """`device.labels` in a condition follows the registry."""
    account = add(own, "device", "pump-7")
    dash = client(to=own, **add(own, "app", "dash").login())
    dash.subscribe("apps/dash/+")
    pump = client(to=own, **account.login())
    apply(own, BY_LABEL)
    pump.publish("devices/pump-7/telemetry", b"before")
    apply(own, DEVICE)
    pump.publish("devices/pump-7/telemetry", b"after")
    assert dash.receive().payload == b"after"
    own.run("device", "label", "pump-7", "kind-")
    pump.publish("devices/pump-7/telemetry", b"no more")
    dash.nothing_arrives()
    assert json.loads(own.run("twin", "get", "pump-7").stdout)["desired"]["interval_s"] == 10


def test_who_is_disabled_keeps_the_session_and_who_is_removed_loses_it(own, client):
    """Disabled: out, and back with all that waited. Removed: one of the same name begins anew."""
    account = add(own, "device", "pump-7")
    kept = {"clean": False, "SessionExpiryInterval": 600, **account.login()}
    pump = client("p", to=own, **kept)
    pump.subscribe("devices/pump-7/echo", 1)
    own.run("device", "disable", "pump-7")
    pump.end()
    assert "pump-7" in own.run("get", "sessions").stdout
    own.run("device", "enable", "pump-7")
    client("p", to=own, **kept)
    own.run("device", "remove", "pump-7")
    eventually(lambda: "pump-7" not in own.run("get", "sessions").stdout)


def test_commands_on_a_stopped_edge_hold_when_it_starts(own, client):
    """The same commands without an edge: registry, twins and routes."""
    own.stop()
    account = add(own, "device", "pump-7")
    add(own, "app", "dash")
    said = own.run("twin", "set", "pump-7", '{"interval_s": 10}').stdout
    assert "once the edge runs" in said
    apply(own, DEVICE + "---\n" + BY_LABEL)
    refused = own.run("call", "pump-7", "stop", check=False)
    assert refused.returncode == 1 and "no edge runs" in refused.stderr
    own.start()
    pump = client(to=own, **account.login())
    pump.subscribe("devices/pump-7/twin/desired")
    assert json.loads(pump.receive().payload)["interval_s"] == 10
    dash = client(to=own, user="dash", password="correct horse")
    dash.subscribe("apps/dash/+")
    pump.publish("devices/pump-7/telemetry", b"routed")
    assert dash.receive().payload == b"routed"


def test_the_audit_log_has_refused_logins_changed_credentials_and_calls(own, client, dial):
    """And no secret."""
    account = add(own, "device", "pump-7", password="zebra-crossing-42")
    dash = client(to=own, **add(own, "app", "dash").login())
    client(to=own, **account.login())
    dial(to=own).send(wire.connect("x", user="pump-7", password=b"giraffe-crossing-43")).verdict()
    for number in range(100):
        dash.publish(f"devices/pump-7/methods/stop/{number}", b"{}")
    own.run("device", "disable", "pump-7")
    own.stop()
    text = (own.data / "audit.log").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert {"zebra-crossing-42", "giraffe-crossing-43"}.isdisjoint(text.split('"'))
    changed = [(line["action"], line["id"]) for line in lines if line["event"] == "credential"]
    assert changed == [("added", "pump-7"), ("added", "dash"), ("disabled", "pump-7")]
    refused = [(line["user_name"], line["reason"]) for line in lines if line["event"] == "login_refused"]
    assert refused == [("pump-7", "wrong password")]
    first = next(line for line in lines if line["event"] == "call_made")
    assert (first["caller"], first["device"], first["method"]) == ("dash", "pump-7", "stop")
    assert [line["times"] for line in lines if line["event"] == "repeated"] == [99]


def test_the_control_socket_is_for_its_owner_alone(own):
    """Whoever reaches it may do anything."""
    assert stat.S_IMODE((own.data / "control.sock").stat().st_mode) == 0o600
    assert get(own, "/v1/tenants/default/devices")[0] == 404


def test_a_support_bundle_has_what_helps(own, tmp_path):
    """Configuration, figures, the ends of the logs."""
    bundle = tmp_path / "bundle.tar.gz"
    own.run("support-bundle", "--output", str(bundle))
    listed = subprocess.run(["tar", "-xzOf", str(bundle)], capture_output=True, timeout=30, check=True).stdout
    for part in (b"[limits]", b"selvedge_connections", b"kernel", b"registry.db", b"ready"):
        assert part in listed, part


def test_a_hangup_takes_limits_over_and_leaves_the_old_where_the_file_is_wrong(start, dial):
    """SIGHUP: limits without dropping anybody."""
    own = start(configuration="[limits]\nsubscriptions_per_session = 1\n", http=True)
    one = dial(to=own).open("one")
    answer = one.subscribe([("a", 0), ("b", 0)])
    assert [reason < 0x80 for reason in answer] == [True, False]
    path = own.directory / "selvedge.toml"
    path.write_text("[limits]\nsubscriptions_per_session = 3\n")
    own.signal(signal.SIGHUP)
    eventually(lambda: one.subscribe([("b", 0)])[0] < 0x80)
    path.write_text("[limits]\nsubscriptions_per_sesion = 9\n")
    own.signal(signal.SIGHUP)
    eventually(lambda: 'did you mean "subscriptions_per_session"' in own.log.read_text())
    answer = one.subscribe([("c", 0), ("d", 0)])
    assert [reason < 0x80 for reason in answer] == [True, False]


def test_an_unknown_key_of_the_file_keeps_the_edge_from_starting(start):
    """Named with file, line and what would be right."""
    own = start(begin=False, configuration="\n[limits]\nconections = 5\n")
    own.spawn()
    assert own.process.wait(PATIENCE_S) == 1
    assert 'selvedge.toml:3: unknown key "conections"; did you mean "connections"?' in own.tail()


def test_logs_of_another_number_of_shards_are_not_lost_by_starting(start):
    """A tenant lives on one shard: with another number it would be looked for elsewhere."""
    own = start(arguments=["--shards", "2"])
    own.stop()
    own.settings.arguments = ["--shards", "3"]
    own.spawn()
    assert own.process.wait(PATIENCE_S) == 1
    assert "2 shards" in own.tail()
    own.settings.arguments = []
    own.start()


def test_a_log_in_json_is_an_object_a_line(start, dial):
    """`--log-format json`."""
    own = start(arguments=["--log-format", "json"], anonymous=False)
    dial(to=own).send(wire.connect("x")).verdict()
    lines = [line for line in own.log.read_text().splitlines() if not line.startswith("edge")]
    assert lines and all("fields" in json.loads(line) for line in lines)
