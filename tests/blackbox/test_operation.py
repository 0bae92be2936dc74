"""Running it: graceful stop, reload, health and metrics, messages on the command line."""

import signal
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import brokers
import wire
from credentials import Authority, add, context
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
    line = next(line for line in own.log.read_text().splitlines() if line.startswith("edge"))
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
def test_check_says_how_this_machine_is():
    """`selvedge check`: one line a finding."""
    said = brokers.selvedge("check", check=False).stdout
    assert any(line.startswith(("ok", "warn", "error")) for line in said.splitlines())


@pytest.mark.needs("support-bundle")
def test_a_support_bundle_has_no_secrets(start, client, tmp_path):
    """Somebody will mail it."""
    own = start(anonymous=False)
    client(to=own, **add(own, "device", "pump-7", password="zebra-crossing-42").login())
    bundle = tmp_path / "bundle.tar.gz"
    own.run("support-bundle", "--output", str(bundle))
    listed = subprocess.run(["tar", "-xzOf", str(bundle)], capture_output=True, timeout=30, check=True).stdout
    assert b"zebra-crossing-42" not in listed and b"PRIVATE KEY" not in listed
