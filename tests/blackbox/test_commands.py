"""The commands that operate an edge, running or stopped: what they say, and what comes of it."""

import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import time
from pathlib import Path

import pytest

import wire
from brokers import BINARY
from credentials import add
from raw import PATIENCE_S
from test_operation import get
from wire import Kind

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
    assert silent.returncode == 1 and "has not subscribed to devices/pump-7/methods/+/+" in silent.stderr
    pump.subscribe("devices/pump-7/methods/+/+")
    late = own.run("call", "pump-7", "stop", "--timeout", "0.2", check=False)
    assert late.returncode == 1 and "did not answer" in late.stderr and "200 ms; it is connected" in late.stderr
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
    """Whoever reaches it may do anything; the port wants to know who asks, and has less."""
    assert stat.S_IMODE((own.data / "control.sock").stat().st_mode) == 0o600
    assert get(own, "/v1/tenants/default/devices")[0] == 401
    assert get(own, "/v1/configuration")[0] == 404


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
    lines = [line for line in own.said("turned away").splitlines() if not line.startswith("edge")]
    assert lines and all("fields" in json.loads(line) for line in lines)


def test_tenants_are_added_listed_set_and_removed_on_a_running_edge_and_a_stopped_one(own, client):
    """`selvedge tenant`; what it may use and what it uses."""

    def shown(name: str) -> dict:
        return json.loads(own.run("tenant", "show", name, "--output", "json").stdout)

    added = json.loads(own.run("tenant", "add", "plant-b", "--connections", "5", "--output", "json").stdout)
    assert added["quotas"]["connections"] == 5 and added["quotas"]["messages_per_s"] is None
    client(to=own, **add(own, "app", "dash", tenant="plant-b").login())
    assert shown("plant-b")["uses"]["connections"] == 1
    own.run("tenant", "set", "plant-b", "--bytes", "64MiB", "--messages-per-s", "100", "--connections", "none")
    quotas = shown("plant-b")["quotas"]
    assert (quotas["stored_bytes"], quotas["messages_per_s"], quotas["connections"]) == (64 << 20, 100, None)
    table = own.run("tenant", "list").stdout
    assert "1 of 20000" in next(line for line in table.splitlines() if line.startswith("plant-b"))
    assert [tenant["name"] for tenant in json.loads(own.run("tenant", "list", "--output", "json").stdout)] == [
        "default",
        "plant-b",
    ]
    refused = own.run("tenant", "remove", "plant-b", check=False)
    assert refused.returncode == 1 and "still has devices or apps" in refused.stderr
    own.stop()
    own.run("tenant", "set", "plant-b", "--bytes-per-s", "1MiB")
    assert shown("plant-b")["quotas"]["bytes_per_s"] == 1 << 20
    own.run("app", "remove", "dash", "--tenant", "plant-b")
    own.run("tenant", "remove", "plant-b")
    lines = [json.loads(line) for line in (own.data / "audit.log").read_text().splitlines()]
    done = [(line["action"], line["what"]) for line in lines if line["event"] == "tenant"]
    assert done == [
        ("added", "tenant connections=5"),
        ("changed", "quotas connections=none messages_per_s=100 stored_bytes=67108864"),
        ("changed", "quotas bytes_per_s=1048576"),
        ("removed", "tenant"),
    ]


def test_a_tenant_that_is_removed_leaves_nothing_to_one_of_its_name(own, client):
    """Retained messages, on a running edge and on a stopped one."""
    for is_running in (True, False):
        dash = client(to=own, **add(own, "app", "dash", tenant="plant-b").login())
        dash.subscribe("#", 1)
        dash.nothing_arrives()
        dash.publish("plant/level", b"0.5", retain=True)
        dash.receive()
        if not is_running:
            own.stop()
        own.run("app", "remove", "dash", "--tenant", "plant-b")
        own.run("tenant", "remove", "plant-b")
        if not is_running:
            own.start()
    dash = client(to=own, **add(own, "app", "dash", tenant="plant-b").login())
    dash.subscribe("#", 1)
    dash.nothing_arrives()


def test_a_tenant_that_is_not_there_is_not_made_by_asking(own):
    """A typo leaves no trace."""
    for words in (("get", "sessions"), ("get", "routes"), ("device", "list"), ("device", "show", "pump-7")):
        done = own.run(*words, "--tenant", "plnt", check=False)
        assert done.returncode == 1 and "plnt" in done.stderr, done
    assert "plnt" not in get(own, "/metrics")[1]


def test_a_tenant_or_quota_that_cannot_be_is_refused_with_what_would_be_right(own):
    """Errors name the value and what would be right."""
    own.run("tenant", "add", "plant-b")
    for words, hint in (
        (("add", "plant-b"), "exists"),
        (("add", "a/b"), "tenant"),
        (("show", "plant-c"), 'did you mean "plant-b"'),
        (("set", "plant-b"), "--connections 100"),
        (("set", "plant-b", "--bytes", "1.5MiB"), "a whole number"),
        (("remove", "default"), "cannot be removed"),
    ):
        done = own.run("tenant", *words, check=False)
        assert done.returncode != 0 and hint in done.stderr, done


def test_a_route_that_stays_as_it_was_goes_on_counting(own, client):
    """Another route is applied, and this one again."""
    account = add(own, "device", "pump-7")
    pump = client(to=own, **account.login())
    apply(own, BY_LABEL)
    pump.publish("devices/pump-7/telemetry", b"x")
    apply(own, BY_LABEL)
    apply(own, BY_LABEL.replace("pumps", "others"))
    pump.publish("devices/pump-7/telemetry", b"x")
    routes = json.loads(own.run("get", "routes", "--output", "json").stdout)
    assert [(route["name"], route["matched"]) for route in routes] == [("others", 1), ("pumps", 2)]


def test_a_hangup_takes_over_what_clients_are_told_and_names_what_needs_a_restart(start, dial):
    """Packet size, receive maximum, aliases and in-flight hold for those that connect from then on."""
    limits = "packet_bytes = {}\nreceive_maximum = {}\ntopic_alias_maximum = {}\nin_flight = {}"
    file = f'[limits]\n{limits}\n[log]\nlevel = "{{}}"\n'
    own = start(configuration=file.format(2000, 5, 3, 2, "info"), http=True)
    path = own.directory / "selvedge.toml"
    before = dial(to=own).open("before")
    path.write_text("shards = 7\n" + file.format(1000, 6, 4, 1, "debug") + "[store]\nlimit_bytes = 100000000\n")
    own.signal(signal.SIGHUP)
    eventually(lambda: "reloaded" in own.log.read_text())
    after = dial(to=own).open("after")

    def told(connection) -> list[int]:
        of = dict(connection.connack.properties)
        return [of["maximum_packet_size"], of["receive_maximum"], of["topic_alias_maximum"]]

    assert (told(before), told(after)) == ([2000, 5, 3], [1000, 6, 4])
    before.publish("a", bytes(1500)).publish("a", b"x", properties=[("topic_alias", 3)]).ping()
    after.publish("a", bytes(1500))
    assert after.verdict() == 0x95
    again = dial(to=own).open("again")
    again.subscribe([("in-flight", 1)])
    for number in (1, 2):
        before.publish("in-flight", b"x", qos=1, packet_id=number)
        before.expect(Kind.PUBACK)
    again.expect(Kind.PUBLISH)
    again.ping()
    own.said("DEBUG")
    warned = [line for line in own.log.read_text().splitlines() if "started again" in line]
    assert len(warned) == 2 and "shards" in warned[0] and "store.limit_bytes" in warned[1]


def test_a_hangup_puts_other_names_into_the_edge_s_own_certificate(start):
    """`tls.names`, for clients that connect from then on."""
    file = '[tls]\nnames = ["{}"]\n'
    own = start(configuration=file.format("old.example"), arguments=["--mqtts", "127.0.0.1:0"])
    address = next(word for word in own.said("mqtts://").split() if word.startswith("mqtts://"))
    port = int(address.rsplit(":", 1)[1])

    def is_named(name: str) -> bool:
        trust = ssl.create_default_context(cafile=str(own.data / "ca.pem"))
        with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as stream:
            try:
                trust.wrap_socket(stream, server_hostname=name).close()
            except ssl.SSLCertVerificationError:
                return False
        return True

    assert is_named("old.example") and not is_named("new.example")
    (own.directory / "selvedge.toml").write_text(file.format("new.example"))
    own.signal(signal.SIGHUP)
    eventually(lambda: is_named("new.example"))
    assert not is_named("old.example")


def test_an_edge_serves_though_nothing_that_it_says_can_be_written(start, dial):
    """Its output is a file on a disk that is full."""
    own = start()
    own.stop()
    words = [BINARY, "edge", "--data", str(own.data), "--mqtt", f"127.0.0.1:{own.port}", "--allow-anonymous"]
    with Path("/dev/full").open("w") as full, subprocess.Popen(words, stdout=full, stderr=full) as edge:
        eventually(lambda: edge.poll() is not None or answers(own.port))
        dial(to=own).open("a").ping()
        dial(to=own).send(b"\0\0").verdict()  # Something for its log.
        dial(to=own).open("b").ping()
        edge.terminate()
        assert edge.wait(PATIENCE_S) == 0


def answers(port: int) -> bool:
    """Whether somebody listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_command_whose_answer_cannot_be_written_says_so(own):
    """An error where the disk is full; no word where nobody reads any more, as with any other program."""
    words = [BINARY, "device", "list", "--data", str(own.data)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (1, "error: standard output: No space left on device (os error 28)\n")
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, "")
