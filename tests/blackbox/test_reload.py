"""SIGHUP: after a reload the new value holds, key by key, and nobody was dropped for it."""

import signal
import tomllib
from collections.abc import Callable

import pytest

import wire
from brokers import ROOT
from credentials import Authority, context
from raw import Connection
from test_commands import eventually
from test_operation import get
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.needs("device", "--http")]

LASTING = {"clean": False, "properties": [("session_expiry_interval", 600)]}
Check = Callable[[object, Callable[..., Connection]], None]

# Tested with more than one value at once, where it changes what clients are told, or in the rooms themselves.
ELSEWHERE = {
    **dict.fromkeys(("packet_bytes", "in_flight", "receive_maximum", "topic_alias_maximum"), "test_commands.py"),
    **dict.fromkeys(("connections", "level", "names"), "test_commands.py"),
    **dict.fromkeys(("certificate", "key"), "test_operation.py"),
    **dict.fromkeys(("connects_per_s", "login_checks"), "crates/hub/src"),
}


def reload(own, configuration: str) -> None:
    """Has it read this file."""
    before = own.log.read_text().count("reloaded")
    (own.directory / "selvedge.toml").write_text(configuration)
    own.signal(signal.SIGHUP)
    eventually(lambda: own.log.read_text().count("reloaded") > before)
    assert "stays as it was" not in own.log.read_text()


def figure(own, line_start: str) -> float:
    """A figure of /metrics."""
    lines = get(own, "/metrics")[1].splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"selvedge_{line_start} "))


def told(connection: Connection, name: str) -> object:
    """A property of its CONNACK."""
    return dict(connection.connack.properties).get(name)


def acknowledged(connection: Connection, topic: str, payload: bytes, **options) -> int:
    """The reason of a PUBLISH's acknowledgement."""
    connection.publish(topic, payload, qos=1, packet_id=1, **options)
    return connection.expect(Kind.PUBACK).reason


def away(dial, own, topic: str) -> None:
    """A session that waits for this topic without connection."""
    one = dial(to=own).open(f"away-{topic}", **LASTING)
    one.subscribe([(topic, 1)])
    one.leave()


def connect_timeout_s(own, dial) -> None:
    """A CONNECT that does not come is not waited for any longer."""
    dial(to=own).verdict()


def connect_bytes(own, dial) -> None:
    """A CONNECT that is longer is refused."""
    dial(to=own).open("short")
    assert dial(to=own).send(wire.connect("x" * 300)).verdict() == 0x95


def pending_connects(own, dial) -> None:
    """The oldest makes room."""
    oldest, *_ = [dial(to=own) for _ in range(3)]
    oldest.verdict()


def sessions(own, dial) -> None:
    """One more than the one that is there, and the one that was there before."""
    dial(to=own).open("one")
    assert dial(to=own).send(wire.connect("two")).verdict() == 0x97


def subscriptions_per_session(own, dial) -> None:
    """One."""
    assert dial(to=own).open("x").subscribe([("a", 0), ("b", 0)]) == [0, 0x97]


def topic_levels(own, dial) -> None:
    """Two."""
    assert dial(to=own).open("x").subscribe([("a/b", 0), ("a/b/c", 0)]) == [0, 0x8F]


def queue_is_full(own, dial) -> None:
    """The second message finds no room."""
    away(dial, own, "queue")
    writer = dial(to=own).open("writer")
    assert [acknowledged(writer, "queue", bytes(600)) for _ in range(2)] == [0, 0x97]


def is_kept_in_the_log_alone(own, dial) -> None:
    """Ten messages of 20 KB, of which one may stay in memory."""
    away(dial, own, "queue")
    writer = dial(to=own).open("writer")
    assert [acknowledged(writer, "queue", bytes(20_000)) for _ in range(10)] == [0] * 10
    eventually(lambda: figure(own, 'message_memory_bytes{tenant="default"}') < 50_000)
    assert figure(own, 'queued_bytes{tenant="default"}') > 200_000


def topic_aliases_outgoing(own, dial) -> None:
    """None, though the client takes some."""
    one = dial(to=own).open("x", properties=[("topic_alias_maximum", 5)])
    one.subscribe([("a/long/topic", 0)])
    for _ in range(2):
        one.publish("a/long/topic", b"x")
        got = one.expect(Kind.PUBLISH)
        assert got.topic == "a/long/topic" and "topic_alias" not in dict(got.properties)


def too_many_are_not_retained(own, dial) -> None:
    """Beside what the edge itself retains under $SYS; the second is not, and is counted."""
    writer = dial(to=own).open("writer")
    assert all(acknowledged(writer, topic, bytes(600), retain=True) in (0, 0x10) for topic in ("one", "two"))
    late = dial(to=own).open("late")
    late.subscribe([("two", 0)])
    late.ping()
    assert figure(own, 'messages_dropped_total{reason="retained_full"}') >= 1


def session_expiry_s(own, dial) -> None:
    """Granted as far as may be."""
    assert told(dial(to=own).open("x", **LASTING), "session_expiry_interval") == 5


def keep_alive_s(own, dial) -> None:
    """Instead of the client's own."""
    assert told(dial(to=own).open("x", keep_alive=60), "server_keep_alive") == 7


def audit_files(own, dial) -> None:
    """A full file becomes an old one, and the oldest goes."""
    for lot in range(4):
        own.run("device", "add", *[f"pump-{lot}-{number}" for number in range(12)], "--trusted-certificate")
    assert (own.data / "audit.log.1").exists() and not (own.data / "audit.log.2").exists()


CHECKS: dict[str, tuple[str, Check]] = {
    "connect_timeout_s": ("connect_timeout_s = 1", connect_timeout_s),
    "connect_bytes": ("connect_bytes = 200", connect_bytes),
    "pending_connects": ("pending_connects = 2", pending_connects),
    "sessions": ("sessions = 2", sessions),
    "subscriptions_per_session": ("subscriptions_per_session = 1", subscriptions_per_session),
    "topic_levels": ("topic_levels = 2", topic_levels),
    "queue_policy": ('queue_policy = "refuse"\nqueue_messages = 1', queue_is_full),
    "queue_messages": ('queue_messages = 1\nqueue_policy = "refuse"', queue_is_full),
    "queue_bytes": ('queue_bytes = 1000\nqueue_policy = "refuse"', queue_is_full),
    "queue_memory_bytes": ("queue_memory_bytes = 1000", is_kept_in_the_log_alone),
    "memory_bytes": ("memory_bytes = 1000", is_kept_in_the_log_alone),
    "topic_aliases_outgoing": ("topic_aliases_outgoing = 0", topic_aliases_outgoing),
    "retained_messages": ("retained_messages = 1", too_many_are_not_retained),
    "retained_bytes": ("retained_bytes = 1000", too_many_are_not_retained),
    "session_expiry_s": ("session_expiry_s = 5", session_expiry_s),
    "keep_alive_s": ("keep_alive_s = 7", keep_alive_s),
    "max_file_bytes": ("[audit]\nmax_file_bytes = 2000\nold_files = 1", audit_files),
    "old_files": ("[audit]\nold_files = 1\nmax_file_bytes = 1000", audit_files),
}


@pytest.mark.parametrize("key", CHECKS)
def test_after_a_hangup_the_new_value_holds(start, dial, key):
    """For those that come from then on; who was there before stays."""
    own = start(http=True, configuration="[limits]\n")
    before = dial(to=own).open("before")
    line, check = CHECKS[key]
    reload(own, line if line.startswith("[") else f"[limits]\n{line}\n")
    check(own, dial)
    before.ping()


def test_after_a_hangup_certificates_of_another_authority_are_believed(start, client, tmp_path):
    """`tls.client_ca`."""
    old, new = Authority(tmp_path / "old"), Authority(tmp_path / "new")
    own = start(anonymous=False, configuration=f'[tls]\nclient_ca = "{old.certificate}"\n', tls={}, http=True)
    own.run("device", "add", "pump-7", "--trusted-certificate")
    trusted = own.data / "ca.pem"
    client("before", port=own.tls_port, tls=context(trusted, *old.issue("pump-7", "/CN=pump-7")))
    reload(own, f'[tls]\nclient_ca = "{new.certificate}"\n')
    client("after", port=own.tls_port, tls=context(trusted, *new.issue("pump-7", "/CN=pump-7")))


def test_every_key_that_takes_effect_without_a_restart_has_its_test():
    """The manual marks all others."""
    manual = tomllib.loads((ROOT / "docs/edge.toml").read_text())
    keys = {*manual["limits"], *manual["audit"], *manual["tls"], "level"}
    assert keys == {*CHECKS, *ELSEWHERE, "client_ca"}
