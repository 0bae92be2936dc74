"""Queues of sessions that are full, with the policy `refuse` (promise 3)."""

import pytest

from history import KEPT
from raw import Closed
from wire import Kind

pytestmark = pytest.mark.contract

QUOTA_EXCEEDED = 0x97


@pytest.fixture
def refusing(start, dial):
    """A broker with room for two messages a session, and a session "full" that is away and has them."""
    own = start(configuration='[limits]\nqueue_messages = 2\nqueue_policy = "refuse"\n', http=True)
    away = dial(to=own).open("full", **KEPT)
    away.subscribe([("a", 2)])
    away.leave()
    writer = dial(to=own).open("filler")
    for packet_id in (1, 2):
        writer.publish("a", b"kept", qos=1, packet_id=packet_id)
        assert writer.expect(Kind.PUBACK).reason == 0
    return own


def test_a_publisher_of_version_5_is_told_and_a_neighbour_has_the_message_at_once(refusing, dial):
    """Section 3.4.2.1: Quota exceeded; what cannot be kept for one is not kept from another."""
    neighbour = dial(to=refusing).open("neighbour")
    neighbour.subscribe([("a", 1)])
    writer = dial(to=refusing).open("writer")
    writer.publish("a", b"too much", qos=1, packet_id=1)
    assert neighbour.expect(Kind.PUBLISH).payload == b"too much"
    assert writer.expect(Kind.PUBACK).reason == QUOTA_EXCEEDED
    writer.publish("a", b"too much", qos=2, packet_id=2)
    assert writer.expect(Kind.PUBREC).reason == QUOTA_EXCEEDED
    writer.publish("elsewhere", b"x", qos=1, packet_id=3)
    assert writer.expect(Kind.PUBACK).reason < 0x80


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_of_3_1_1_gets_no_acknowledgement_and_is_closed_so_that_it_keeps_the_message(refusing, dial, qos):
    """MQTT 3.1.1 has no word for it; MQTT-4.4.0-1 lets it send again."""
    writer = dial(version=4, to=refusing).open("writer")
    writer.publish("a", b"too much", qos=qos, packet_id=1)
    with pytest.raises(Closed):
        writer.receive()


def test_there_is_room_again_once_the_session_has_read(refusing, dial):
    """What was kept is there, and only that."""
    back = dial(to=refusing).open("full", **KEPT)
    for _ in range(2):
        got = back.expect(Kind.PUBLISH)
        assert got.payload == b"kept"
        back.answer(Kind.PUBACK, got.packet_id)
    back.leave()
    writer = dial(to=refusing).open("writer")
    writer.publish("a", b"again", qos=1, packet_id=1)
    assert writer.expect(Kind.PUBACK).reason == 0
