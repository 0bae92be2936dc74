"""Running it: graceful stop, reload, health and metrics, messages on the command line."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import brokers
import wire
from credentials import Authority, add, add_with_token, context
from raw import PATIENCE_S
from wire import Kind

pytestmark = pytest.mark.contract


def test_a_stop_says_goodbye_to_clients_of_5_0_and_ends_well(start, dial):
    """DISCONNECT 0x8B, server shutting down; 3.1.1 is just closed."""
    own = start()
    five, three = dial(5, to=own).open("five"), dial(4, to=own).open("three")
    own.signal(signal.SIGTERM)
    assert five.verdict() == 0x8B
    assert three.verdict() is None
    assert own.process.wait(PATIENCE_S) == 0


def test_a_stop_waits_for_no_client_that_does_not_read(start, dial):
    """Within a limit of time."""
    own = start()
    sleeper = dial(to=own).open("sleeper", keep_alive=0)
    sleeper.subscribe([("a", 0)])
    writer = dial(to=own).open("writer")
    writer.send(*[wire.publish("a", bytes(500_000))] * 20)
    writer.ping()
    own.signal(signal.SIGTERM)
    assert own.process.wait(15) == 0


def test_a_stop_does_not_send_wills(start, dial):
    """Section 3.1.2.5: the server ends the connection in good order; a client that comes back is as before."""
    own = start()
    away = dial(to=own).open("away", clean=False, properties=[("session_expiry_interval", 600)])
    away.subscribe([("will", 1)])
    dial(to=own).open("dying", will=wire.Will("will", qos=1))
    own.stop()
    own.start()
    back = dial(to=own).open("away", clean=False, properties=[("session_expiry_interval", 600)])
    back.send(wire.PINGREQ)
    while back.receive().kind != Kind.PINGRESP:
        pass


def test_ctrl_c_ends_it_like_sigterm(start, dial):
    """SIGINT."""
    own = start()
    one = dial(to=own).open("x")
    own.signal(signal.SIGINT)
    assert one.verdict() == 0x8B
    assert own.process.wait(PATIENCE_S) == 0


def test_its_ready_line_names_the_addresses(start):
    """The first thing that a person sees."""
    own = start()
    line = next(line for line in own.said(" ready ").splitlines() if line.startswith("edge"))
    assert "ready" in line and f"127.0.0.1:{own.port}" in line


def test_it_is_ready_in_a_tenth_of_a_second_give_or_take_a_busy_machine(start):
    """Promise 5 is measured by the bench; here only that nothing waits for a timer."""
    own = start(begin=False)
    since = time.monotonic()
    own.start()
    assert time.monotonic() - since < 2


@pytest.mark.needs("device")
def test_a_hangup_drops_nobody(start, dial):
    """SIGHUP reloads; connections stay."""
    own = start()
    one = dial(to=own).open("x")
    own.signal(signal.SIGHUP)
    for _ in range(20):
        one.ping()
    assert own.alive()
    dial(to=own).open("y").ping()


@pytest.mark.needs("--mqtts")
def test_a_hangup_reads_a_new_certificate(start, dial, client, tmp_path):
    """SIGHUP reloads certificates without dropping anybody."""
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    certificate, key = old.issue("server", "/CN=localhost")
    own = start(tls={"certificate": certificate, "key": key})
    before = client(port=own.tls_port, tls=context(old.certificate))
    for mine, theirs in zip((certificate, key), new.issue("server", "/CN=localhost"), strict=True):
        mine.write_bytes(theirs.read_bytes())
    own.signal(signal.SIGHUP)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            client(port=own.tls_port, tls=context(new.certificate))
            break
        except OSError:
            assert time.monotonic() < deadline, "still the old certificate"
    before.subscribe("a")
    before.publish("a", b"still here")
    assert before.receive().payload == b"still here"


def get(own, path: str) -> tuple[int, str]:
    """Status and body of an HTTP request."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{own.http_port}{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.needs("--http")
def test_health_readiness_and_metrics_are_served(start, dial):
    """`/healthz`, `/readyz` and `/metrics` in Prometheus' format."""
    own = start(http=True)
    dial(to=own).open("x").ping()
    assert get(own, "/healthz")[0] == 200
    assert get(own, "/readyz")[0] == 200
    status, body = get(own, "/metrics")
    assert status == 200
    names = {line.split("{")[0].split()[0] for line in body.splitlines() if line and not line.startswith("#")}
    assert names and all(name.startswith("selvedge_") for name in names), names
    assert get(own, "/nothing")[0] == 404


SAMPLE = re.compile(
    r'(?P<name>[a-z_]+)(?:\{(?P<labels>[a-z_]+="[^"\\\n]*"(?:,[a-z_]+="[^"\\\n]*")*)\})? (?P<value>\d+(?:\.\d+)?)'
)

REASONS = {
    "selvedge_connections_refused_total": {
        *("unfinished", "broken", "malformed", "no_connect", "authentication_method", "login_refused"),
        *("login_throttled", "logins_waiting", "certificate_refused", "connections", "quota", "will", "client_id"),
        *("revoked", "stopping"),
    },
    "selvedge_messages_dropped_total": {
        *("slow_reader", "offline", "queue_full", "expired", "too_large", "log_full", "damaged", "session_ended"),
        *("retained_full", "tenant_full", "sessions_full", "memory_full"),
    },
    "selvedge_subscriptions_refused_total": {
        *("not_authorized", "invalid", "session_full", "tenant_full", "log_full"),
    },
}
REFUSALS = ("publishes", "calls", "twin_changes", "tenant_connections")


@pytest.mark.needs("--http")
def test_metrics_are_what_prometheus_reads_and_have_every_reason(start, dial):
    """Text format 0.0.4: HELP and TYPE before the samples of a name, which stand together, none of them twice."""
    own = start(http=True)
    dial(to=own).open("x").ping()
    helped, kinds, order, samples = set(), {}, [], {}
    for line in get(own, "/metrics")[1].splitlines():
        words = line.split(" ", 3)
        if words[:2] == ["#", "HELP"]:
            assert words[2] not in helped and words[3]
            helped.add(words[2])
        elif words[:2] == ["#", "TYPE"]:
            kinds[words[2]] = words[3]
            order.append(words[2])
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample and sample["name"] == order[-1], line
            assert (sample["name"], sample["labels"]) not in samples, line
            samples[sample["name"], sample["labels"]] = float(sample["value"])
    assert helped == set(kinds) and all((kind == "counter") == name.endswith("_total") for name, kind in kinds.items())
    for name, reasons in REASONS.items():
        assert {labels for sampled, labels in samples if sampled == name} == {f'reason="{why}"' for why in reasons}
    for what in (*(f"{what}_refused" for what in REFUSALS), "log_refusals", "late_results", "tenant_pauses"):
        assert f"selvedge_{what}_total" in kinds


@pytest.mark.needs("--http")
def test_every_client_that_is_not_let_in_is_counted_by_reason(start, dial):
    """At the doors and behind them."""
    own = start(http=True, anonymous=False, configuration="[limits]\nconnect_timeout_s = 4\nconnections = 2\n")
    dash = add(own, "app", "dash")
    login = {"user": dash.user, "password": dash.password.encode()}
    device = add(own, "device", "pump-7")
    will = wire.Will("devices/pump-8/telemetry")
    dial(to=own).send(wire.connect("x", user=device.user, password=device.password.encode(), will=will)).verdict()
    dial(to=own).send(wire.connect("x", user="dash", password=b"wrong")).verdict()
    dial(4, to=own).send(wire.connect("", 4, clean=False, **login)).verdict()
    dial(to=own).send(b"\x10\x02\x00\x00").verdict()
    dial(to=own).send(wire.PINGREQ).verdict()
    dial(to=own).verdict()
    dial(to=own).cut()
    method = [("authentication_method", "SCRAM")]
    dial(to=own).send(wire.connect("x", properties=method, **login)).verdict()
    dial(to=own).open("x", **login)
    dial(to=own).open("y", **login)
    dial(to=own).send(wire.connect("z", **login)).verdict()

    def counted() -> dict[str, float]:
        lines = [line for line in get(own, "/metrics")[1].splitlines() if "connections_refused_total{reason" in line]
        return {line.split('"')[1]: float(line.split()[-1]) for line in lines if not line.endswith(" 0")}

    expected = ("will", "login_refused", "client_id", "malformed", "no_connect", "unfinished", "broken",
                "authentication_method", "connections")  # fmt: skip
    deadline = time.monotonic() + PATIENCE_S
    while counted() != dict.fromkeys(expected, 1.0):
        assert time.monotonic() < deadline, counted()
        time.sleep(0.02)  # Nothing tells when a connection's end has been noticed.


@pytest.mark.needs("--http")
def test_what_is_refused_to_those_who_are_inside_is_counted(start, dial):
    """Publishes, subscriptions, changes of twins."""
    own = start(http=True, anonymous=False)
    device = add(own, "device", "pump-7")
    pump = dial(to=own).open("p", user=device.user, password=device.password.encode())
    pump.publish("devices/pump-8/telemetry", b"x").publish("devices/pump-7/twin/reported", b"no JSON")
    assert pump.subscribe([("#", 0), ("devices/pump-7/#", 0)])[0] == 0x87
    pump.publish("devices/pump-7/methods/stop/1/result", b"{}").ping()
    body = get(own, "/metrics")[1]
    for name in ("publishes_refused", "twin_changes_refused", "late_results"):
        assert f"selvedge_{name}_total 1\n" in body, name
    assert 'selvedge_subscriptions_refused_total{reason="not_authorized"} 1\n' in body


@pytest.mark.needs("--http")
def test_drops_are_counted_by_reason(start, dial):
    """No drop is silent."""
    own = start(http=True)
    small = dial(to=own).open("small", properties=[("maximum_packet_size", 100)])
    small.subscribe([("a", 0)])
    writer = dial(to=own).open("writer")
    writer.publish("a", bytes(1000), qos=1, packet_id=1)
    writer.expect(Kind.PUBACK)
    small.ping()
    dropped = [line for line in get(own, "/metrics")[1].splitlines() if "dropped" in line and "reason=" in line]
    assert any(float(line.split()[-1]) >= 1 for line in dropped), dropped


@pytest.mark.needs("device")
def test_the_registry_lists_shows_disables_and_removes(start, client):
    """`selvedge device` and `selvedge app`, on a running edge."""
    own = start(anonymous=False)
    account = add(own, "device", "pump-7")
    assert "pump-7" in own.run("device", "list").stdout
    assert "pump-7" in own.run("device", "show", "pump-7").stdout
    one = client(to=own, **account.login())
    own.run("device", "disable", "pump-7")
    one.end()
    own.run("device", "remove", "pump-7")
    assert "pump-7" not in own.run("device", "list").stdout


@pytest.mark.needs("device")
def test_a_name_that_cannot_be_is_refused_with_what_would_be_right(start):
    """Errors name the value and what would be right."""
    own = start()
    for name in ("", "a/b", "a+b", "#"):
        done = own.run("device", "add", name, "--password", "x", check=False)
        assert done.returncode != 0 and "panicked" not in done.stderr


def test_the_command_line_explains_itself():
    """`--help` and `--version` work, an unknown flag is named."""
    assert {"edge", "--mqtt"} <= brokers.abilities()
    assert brokers.selvedge("--version").stdout.startswith("selvedge ")
    wrong = brokers.selvedge("edge", "--no-such-flag", check=False)
    assert wrong.returncode != 0 and "--no-such-flag" in wrong.stderr


@pytest.mark.needs("check")
def test_check_says_how_this_machine_is(tmp_path):
    """`selvedge check`: one line a finding; a failed one is in the exit status, and is said how to mend."""

    def findings(data) -> tuple[int, dict[str, str]]:
        """Exit status, and the finding of each level that names what it is about."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        done = brokers.selvedge("check", "--data", str(data), "--mqtt", address, check=False)
        lines = [line.split(None, 1) for line in done.stdout.splitlines()]
        assert {level for level, _ in lines} <= {"ok", "warn", "fail"}, done.stdout
        return done.returncode, {text.split(":")[0].removesuffix(f" {data}"): level for level, text in lines}

    good, about = findings(tmp_path / "data")
    assert {"memory", "data directory", "disk", "file descriptors", "clock", "containers"} <= set(about)
    assert about["data directory"] == "ok" and good == 0
    file = tmp_path / "file"
    file.touch()
    bad, about = findings(file)
    assert about["data directory"] == "fail" and bad == 1


@pytest.mark.needs("check")
def test_check_fails_where_another_program_has_the_port(tmp_path):
    """And says which it is and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = brokers.selvedge("check", "--data", str(tmp_path / "data"), "--mqtt", address, check=False)
    assert done.returncode == 1
    (failed,) = [line for line in done.stdout.splitlines() if line.startswith("fail")]
    assert f"{address}: in use by another program" in failed and "--mqtt" in failed


@pytest.fixture
def full_pipe():
    """The end for writing of a pipe that holds as much as it can, and that nobody reads."""
    unread, full = os.pipe()
    os.set_blocking(full, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, bytes(65_536))
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(full, b"x")
    os.set_blocking(full, True)
    yield full
    os.close(full)
    os.close(unread)


@pytest.mark.needs("--http", "device")
def test_a_log_that_nobody_reads_stops_nobody(start, dial, full_pipe):
    """Its standard error is a pipe that is full from the start; refused logins are in the log."""
    own = start(begin=False, anonymous=False, http=True)
    own.spawn(stderr=full_pipe)
    own.said("ready")
    account = add(own, "device", "pump-7")
    for number in range(10):
        refused = dial(to=own).send(wire.connect("x", user=f"{number}" + "x" * 12_000, password=b"wrong"))
        assert refused.verdict() == 0x86
    dial(to=own).open("pump", user=account.user, password=account.password.encode()).ping()
    own.signal(signal.SIGHUP)
    dial(to=own).open("pump", user=account.user, password=account.password.encode()).ping()
    assert "selvedge_process_log_lines_lost_total 0\n" in get(own, "/metrics")[1]
    own.signal(signal.SIGTERM)
    assert own.process.wait(PATIENCE_S) == 0


@pytest.mark.needs("--http")
def test_an_edge_whose_log_is_full_is_not_ready(start, dial):
    """It lives, but cannot keep promises; once there is room, it is ready again."""
    log = "[store]\nsegment_bytes = 65536\npending_bytes = 32768\nlimit_bytes = 262144\ngarbage_bytes = 65536\n"
    own = start(http=True, configuration=log, arguments=["--shards", "1"])
    lasting = {"clean": False, "properties": [("session_expiry_interval", 600)]}
    away = dial(to=own).open("away", **lasting)
    away.subscribe([("a", 1)])
    away.leave()
    assert get(own, "/readyz")[0] == 200
    writer = dial(to=own).open("writer")
    status, why = 200, ""
    for _ in range(100):
        writer.publish("a", bytes(10_000), qos=1, packet_id=1)
        # What was refused once may find room: the log gives back files that nobody needs.
        if writer.expect(Kind.PUBACK).reason:
            status, why = get(own, "/readyz")
        if status != 200:
            break
    assert status == 503 and "full" in why
    assert get(own, "/healthz")[0] == 200
    dial(to=own).open("away").ping()
    deadline = time.monotonic() + PATIENCE_S
    while get(own, "/readyz")[0] != 200:
        assert time.monotonic() < deadline, "still full"
        time.sleep(0.02)  # Nothing tells when the log has been emptied.


START_MISTAKES = [
    ("[limits]\nconnections = 0\n", "selvedge.toml:2: limits.connections is 0; it must be at least 1"),
    ("[store]\nsegment_bytes = 10\n", "selvedge.toml:2: store.segment_bytes is 10; it must be from 64 KiB to 1 GiB"),
    ('[listen]\nmqtt = ["localhost:1883"]\n', 'selvedge.toml:2: "localhost:1883" is no address'),
    ('[log]\nlevel = "wran"\n', 'selvedge.toml:2: log.level: unknown level "wran"; did you mean "warn"?'),
]


@pytest.mark.parametrize(("text", "said"), START_MISTAKES)
def test_a_configuration_that_would_serve_nobody_is_refused_at_the_start_and_at_a_reload(start, dial, text, said):
    """With file, line, value, and what would be right; a running edge goes on as it was."""
    own = start(configuration="[limits]\n")
    (own.directory / "selvedge.toml").write_text(text)
    other = ("--data", str(own.directory / "other"), "--config", str(own.directory / "selvedge.toml"))
    refused = brokers.selvedge("edge", *other, check=False)
    assert refused.returncode == 1 and said in refused.stderr
    own.signal(signal.SIGHUP)
    own.said(f"stays as it was: {own.directory}/{said}")
    dial(to=own).open("x").ping()


@pytest.mark.needs("support-bundle")
def test_the_bundle_of_an_edge_that_does_not_run_has_its_configuration_and_says_what_it_lacks(start, tmp_path):
    """It is needed most where an edge does not start."""
    own = start()
    own.stop()
    bundle = tmp_path / "bundle.tar.gz"

    def names(*words: str) -> tuple[set[str], str]:
        said = own.run("support-bundle", "--output", str(bundle), *words).stdout
        listed = subprocess.run(["tar", "-tzf", str(bundle)], capture_output=True, text=True, timeout=30, check=True)
        return {line.split("/")[-1] for line in listed.stdout.splitlines()}, said

    held, said = names()
    assert {"version.txt", "check.txt", "files.txt", "audit.log"} == held
    assert "lacks edge.json, configuration.toml, log.txt, metrics.txt, ready.txt; name the configuration file" in said
    config = tmp_path / "selvedge.toml"
    config.write_text("[limits]\nconnections = 77\n")
    held, said = names("--config", str(config))
    assert "configuration.toml" in held and "lacks edge.json, log.txt, metrics.txt, ready.txt." in said


@pytest.mark.needs("support-bundle")
def test_a_support_bundle_has_no_secrets(start, client, tmp_path):
    """Somebody will mail it."""
    own = start(anonymous=False)
    client(to=own, **add(own, "device", "pump-7", password="zebra-crossing-42").login())
    token = add_with_token(own, "device", "pump-8").password
    own.run("device", "rotate", "pump-7", "--password", "giraffe-crossing-43")
    bundle = tmp_path / "bundle.tar.gz"
    own.run("support-bundle", "--output", str(bundle))
    listed = subprocess.run(["tar", "-xzOf", str(bundle)], capture_output=True, timeout=30, check=True).stdout
    secrets = (b"zebra-crossing-42", b"giraffe-crossing-43", token.encode(), b"PRIVATE KEY", b"$argon2")
    assert not [secret for secret in secrets if secret in listed]
    for name in REASONS:
        assert f"# HELP {name} ".encode() in listed
