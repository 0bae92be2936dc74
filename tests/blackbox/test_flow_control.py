"""Receive maximum both ways, packet ids, limits in CONNACK: sections 3.1.2.11.3, 3.2.2.3 and 4.9 of MQTT 5.0."""

import pytest

import brokers
import wire
from wire import Kind


def test_no_more_messages_are_in_flight_than_the_client_receives_at_once(dial, client, name):
    """MQTT-3.3.4-9, MQTT-4.9.0-2: the next comes only after an acknowledgement."""
    one = dial().open(name, properties=[("receive_maximum", 3)])
    one.subscribe([(name, 1)])
    other = client()
    for number in range(10):
        other.publish(name, str(number), qos=1)
    waiting = [one.expect(Kind.PUBLISH).packet_id for _ in range(3)]
    one.ping()
    for expected in range(3, 10):
        one.answer(Kind.PUBACK, waiting.pop(0))
        got = one.expect(Kind.PUBLISH)
        assert got.payload == str(expected).encode()
        waiting.append(got.packet_id)
        one.ping()


def test_a_qos_2_flow_holds_its_place_until_pubcomp(dial, client, name):
    """MQTT-4.9.0-2: PUBREC does not free it, PUBCOMP does."""
    one = dial().open(name, properties=[("receive_maximum", 1)])
    one.subscribe([(name, 2)])
    other = client()
    other.publish(name, b"first", qos=2)
    other.publish(name, b"second", qos=2)
    first = one.expect(Kind.PUBLISH)
    one.answer(Kind.PUBREC, first.packet_id)
    one.expect(Kind.PUBREL)
    one.ping()
    one.answer(Kind.PUBCOMP, first.packet_id)
    assert one.expect(Kind.PUBLISH).payload == b"second"


def test_a_pubrec_with_an_error_frees_the_place(dial, client, name):
    """Section 4.9: a PUBREC with a reason code of 0x80 or more ends the flow."""
    one = dial().open(name, properties=[("receive_maximum", 1)])
    one.subscribe([(name, 2)])
    other = client()
    other.publish(name, b"first", qos=2)
    other.publish(name, b"second", qos=2)
    one.answer(Kind.PUBREC, one.expect(Kind.PUBLISH).packet_id, 0x80)
    assert one.expect(Kind.PUBLISH).payload == b"second"


def test_qos_0_passes_a_full_receive_maximum(dial, client, name):
    """MQTT-3.3.4-7: the maximum counts QoS 1 and 2 alone."""
    one = dial().open(name, properties=[("receive_maximum", 1)])
    one.subscribe([(name, 1)])
    other = client()
    other.publish(name, b"in flight", qos=1)
    one.expect(Kind.PUBLISH)
    other.publish(name, b"beside", qos=0)
    assert one.expect(Kind.PUBLISH).payload == b"beside"


def test_a_reconnect_with_a_smaller_receive_maximum_is_respected(dial, client, name):
    """MQTT-4.9.0-1: the maximum belongs to the connection, also for what is sent again."""
    kept = [("session_expiry_interval", 600)]
    one = dial().open(name, clean=False, properties=kept)
    one.subscribe([(name, 1)])
    other = client()
    for number in range(5):
        other.publish(name, str(number), qos=1)
    for _ in range(5):
        one.expect(Kind.PUBLISH)
    one.cut()
    back = dial().open(name, clean=False, properties=[*kept, ("receive_maximum", 2)])
    waiting = [back.expect(Kind.PUBLISH) for _ in range(2)]
    back.ping()
    back.answer(Kind.PUBACK, waiting[0].packet_id)
    assert back.expect(Kind.PUBLISH).payload == b"2"


def test_a_client_over_the_servers_receive_maximum_is_closed_with_0x93(dial, client, name):
    """MQTT-3.3.4-8."""
    client().subscribe(name, 0)
    one = dial().open(name)
    maximum = one.connack.get("receive_maximum", 65535)
    assert one.connack.get("receive_maximum") != 0
    try:
        for first in range(1, maximum + 1, 500):
            last = min(first + 499, maximum)
            one.send(*(wire.publish(name, b"", qos=2, packet_id=each) for each in range(first, last + 1)))
            for _ in range(first, last + 1):
                one.expect(Kind.PUBREC)
    except AssertionError as error:
        raise AssertionError("closed below its own receive maximum") from error
    if maximum < 65535:
        one.publish(name, b"", qos=2, packet_id=maximum + 1)
        assert one.verdict() == 0x93


def flood(writer, topic: str, count: int) -> None:
    """Publishes at QoS 1, each acknowledged."""
    writer.send(*(wire.publish(topic, b"", 4, qos=1, packet_id=each) for each in range(1, count + 1)))
    for _ in range(count):
        writer.expect(Kind.PUBACK)


# As many as there are packet ids, in each broker's words.
ALL_IDS = {"selvedge": "[limits]\nin_flight = 65535\n", "mosquitto": "max_inflight_messages 0\n"}


@pytest.mark.parametrize(
    ("settings", "count"), [("", 3_000), (ALL_IDS[brokers.NAME], 65_800)], ids=["default", "65535"]
)
def test_what_finds_no_packet_id_in_flight_waits_until_one_is_acknowledged(start, dial, name, settings, count):
    """Section 2.2.1: no id is used twice at once; with the default bound of the broker, and with all 65,535."""
    own = start(configuration=settings)
    one = dial(to=own).open(name, keep_alive=0)
    one.subscribe([(name, 1)])
    writer = dial(4, to=own).open("writer", keep_alive=0)
    seen = set()
    for _ in range(0, count, 200):
        flood(writer, name, 200)
        one.send(wire.PINGREQ)
        while (got := one.receive()).kind != Kind.PINGRESP:
            assert got.packet_id not in seen, "a packet id in flight was used again"
            seen.add(got.packet_id)
    assert 0 not in seen
    assert len(seen) == 65_535 if settings else len(seen) < count
    for packet_id in sorted(seen)[:3]:
        one.answer(Kind.PUBACK, packet_id)
        assert one.expect(Kind.PUBLISH).packet_id == packet_id or not settings
    one.ping()


@pytest.mark.parametrize("version", [4, 5])
def test_a_publisher_that_sends_a_thousand_at_once_gets_every_acknowledgement(dial, name, version):
    """MQTT-4.3.2-4, at a rate that fills buffers."""
    one = dial(version).open(name)
    maximum = (one.connack.get("receive_maximum", 65535) if version == 5 else 65535) or 65535
    count = min(1000, maximum)
    one.send(*(wire.publish(name, b"x" * 100, version, qos=1, packet_id=each) for each in range(1, count + 1)))
    assert [one.expect(Kind.PUBACK).packet_id for _ in range(count)] == list(range(1, count + 1))
