"""Clients that mean harm or do harm: each hurts itself alone, and memory stays bounded."""

import contextlib
import random
import time

import pytest

import brokers
import wire
from raw import Closed
from test_reload import figure
from wire import Kind

MIB = 1 << 20


@pytest.fixture
def heartbeat(client, name):
    """Another client that must be served promptly, before and after."""
    other = client()
    other.subscribe(f"{name}/heartbeat", 1)

    def beat(limit_s: float = 5.0) -> None:
        since = time.monotonic()
        other.publish(f"{name}/heartbeat", b"beat")
        assert other.receive(limit_s).payload == b"beat"
        assert time.monotonic() - since < limit_s

    beat()
    yield beat
    beat()


def test_a_topic_of_65535_bytes_is_delivered_or_refused(dial, client, heartbeat):
    """Section 1.5.4: the longest string there is."""
    topic = "x" * 65_535
    one = dial().open("")
    one.send(wire.subscribe([(topic, 0)]))
    answer = one.receive()
    if answer.kind == Kind.SUBACK and answer.reasons[0] < 0x80:
        one.publish(topic, b"far")
        assert one.receive().kind in (Kind.PUBLISH, Kind.DISCONNECT)
    heartbeat()


@pytest.mark.parametrize("longest", ["devices/p7/methods/stop/{}", "devices/p7/methods/{}/1", "devices/{}/twin/get"])
def test_a_request_whose_answer_would_have_a_longer_topic_than_there_is_harms_nobody(dial, heartbeat, longest):
    """The answer's topic is the request's with /result behind it."""
    topic = longest.format("x" * (65_535 - len(longest) + 2))
    everything = dial().open("")
    everything.subscribe([("devices/#", 0)])
    dial().open("").publish(topic, qos=1, packet_id=1).expect(Kind.PUBACK)
    heartbeat()


@pytest.mark.parametrize("version", [4, 5])
def test_a_topic_of_1000_levels_is_delivered_or_refused(dial, name, heartbeat, version):
    """Section 4.7.3: no limit in the standard, so a broker may have its own, and says so."""
    topic = f"{name}/" + "/".join(["l"] * 1000)
    one = dial(version).open("").send(wire.subscribe([(topic, 0)], version))
    other = dial(version).open("")
    other.publish(topic, b"x", qos=1, packet_id=1)
    for connection, answer in ((one, Kind.SUBACK), (other, Kind.PUBACK)):
        try:
            assert connection.receive().kind in (answer, Kind.DISCONNECT)
        except Closed:
            assert version == 4, "closed without a reason"
    heartbeat()


def test_a_filter_of_1000_plus_signs_does_not_slow_anybody(dial, name, heartbeat):
    """Section 4.7.1.3; matching must not grow with the filter's alternatives."""
    one = dial().open("")
    for length in range(1, 60):
        filters = [(f"{name}/" + "/".join(["+"] * length), 0), (f"{name}/" + "/".join(["+"] * length) + "/#", 0)]
        one.send(wire.subscribe(filters, packet_id=length))
        one.expect(Kind.SUBACK)
    other = dial().open("")
    for _ in range(50):
        other.publish(f"{name}/" + "/".join(["l"] * 60), b"x")
    other.ping()
    heartbeat()


def test_a_client_that_never_reads_delays_nobody(start, dial, client, name):
    """What it cannot take is queued up to a bound, then dropped; its neighbours get every message."""
    own = start()
    sleeper = dial(to=own).open(f"{name}-sleeper", keep_alive=0)
    sleeper.subscribe([(name, 0)])
    awake = client(to=own)
    awake.subscribe(name, 0)
    writer = client(to=own)
    before = own.rss_bytes()
    for number in range(600):
        writer.publish(name, f"{number:06}".encode() + bytes(100_000), qos=1)
        assert awake.receive(5).payload[:6] == f"{number:06}".encode()
    assert own.rss_bytes() - before < 64 * MIB, "the messages of a client that never reads are kept without a bound"


def test_a_client_that_never_acknowledges_delays_nobody(start, dial, client, name):
    """Its in-flight window fills, then its queue; neither holds up a neighbour or grows without end."""
    queued, window, sent = 500, 20, 3_000
    key = {"selvedge": "limits.queue_messages =", "mosquitto": "max_queued_messages"}[brokers.NAME]
    own = start(http=brokers.NAME == "selvedge", configuration=f"{key} {queued}\n")
    silent = dial(to=own).open(f"{name}-silent", keep_alive=0, properties=[("receive_maximum", window)])
    silent.subscribe([(name, 1)])
    awake = client(to=own)
    awake.subscribe(name, 1)
    writer = client(to=own)
    before = own.rss_bytes()
    for number in range(sent):
        payload = f"{number:06}".encode() + bytes(20_000)
        writer.publish(name, payload, qos=1)
        assert awake.receive(5).payload == payload
    assert own.rss_bytes() - before < 32 * MIB, "the messages of a client that never acknowledges are kept"
    assert [silent.expect(Kind.PUBLISH).payload[:6] for _ in range(window)] == [b"%06d" % n for n in range(window)]
    if brokers.NAME == "selvedge":
        dropped = figure(own, 'messages_dropped_total{reason="queue_full"}')
        assert dropped == sent - window - queued


def test_a_packet_that_is_announced_and_not_sent_takes_no_memory(start, dial, client, name):
    """After CONNECT, too: a large PUBLISH that stops after its header."""
    own = start()
    maximum = dial(to=own).open("").connack.get("maximum_packet_size", MIB)
    before = own.rss_bytes()
    for _ in range(200):
        dial(to=own).open("").send(bytes([0x30]) + wire.varint(maximum - 5) + wire.text("a"))
    client(to=own).publish(name, b"served")
    assert own.rss_bytes() - before < 16 * MIB


def test_a_subscriber_of_everything_a_thousand_times_is_bounded(dial, name, heartbeat):
    """Subscriptions of one session have a limit, or cost little enough to have none in sight."""
    one = dial().open("")
    for number in range(1, 1001):
        one.send(wire.subscribe([(f"{name}/{number}/#", 0)], packet_id=number))
    reasons = [one.expect(Kind.SUBACK).reasons[0] for _ in range(1000)]
    assert set(reasons) <= {0x00, 0x97}
    heartbeat()


def test_connections_that_come_and_go_leave_nothing_behind(start, dial, client, name):
    """Two thousand connections in a row: no file descriptor and no memory is lost."""
    own = start()

    def wave(numbers) -> tuple[int, int]:
        for number in numbers:
            one = dial(to=own).open(f"{name}-{number}")
            one.subscribe(f"{name}/{number}")
            one.cut() if number % 2 else one.leave()
        settled(lambda: own.descriptors() <= 60)
        return own.descriptors(), own.rss_bytes()

    first = wave(range(1000))
    second = wave(range(1000, 2000))
    assert second[0] <= first[0] + 5
    assert second[1] - first[1] < 4 * MIB


def settled(condition, limit_s: float = 10) -> None:
    """Polls what has no event: the kernel's view of another process."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "did not settle"
        time.sleep(0.02)


def test_a_client_id_that_is_taken_over_in_a_tight_loop_delays_nobody(start, dial, client, name):
    """MQTT-3.1.4-3, two thousand times in a row, each with a kept session, a subscription and a will."""
    own = start()
    other = client(to=own)
    other.subscribe(f"{name}/heartbeat", 1)
    hello = wire.connect(
        name, clean=False, will=wire.Will(f"{name}/will"), properties=[("session_expiry_interval", 60)]
    )
    loop = hello + wire.subscribe(f"{name}/#", packet_id=1)
    before = own.rss_bytes()
    for number in range(2000):
        dial(to=own).send(loop)
        if number % 100 == 0:
            other.publish(f"{name}/heartbeat", b"beat")
            assert other.receive(5).payload == b"beat"
    settled(lambda: own.descriptors() <= 60)
    last = dial(to=own).open(name, clean=False, properties=[("session_expiry_interval", 60)])
    assert last.connack.session_present
    assert own.rss_bytes() - before < 16 * MIB


def test_random_bytes_of_any_kind_end_only_their_own_connection(dial, name, heartbeat):
    """Three hundred connections with a fixed seed, half of them after a good CONNECT."""
    chance = random.Random(20_240_501)
    for number in range(300):
        one = dial()
        if number % 2:
            one.open("")
        with contextlib.suppress(OSError):
            one.send(chance.randbytes(chance.randrange(1, 400)))
        one.cut()
    heartbeat()


def test_good_packets_with_one_byte_changed_end_only_their_own_connection(dial, name, heartbeat):
    """Every byte of a CONNECT, a SUBSCRIBE and a PUBLISH, each with three other values."""
    good = wire.subscribe(name) + wire.publish(name, b"payload", qos=1, packet_id=1, properties=[("topic_alias", 1)])
    hello = wire.connect("", will=wire.Will(name))
    for stream in (hello, hello + good):
        for at in range(0, len(stream), 2):
            for change in (0x01, 0x80, 0xFF):
                broken = stream[:at] + bytes([stream[at] ^ change]) + stream[at + 1 :]
                one = dial()
                with contextlib.suppress(OSError):
                    one.send(broken)
                one.cut()
    heartbeat()
