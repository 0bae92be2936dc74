"""QoS 1 and 2 at the level of bytes: sections 3.3 to 3.7, 4.3, 4.4 and 4.9 of MQTT 5.0."""

import pytest

import wire
from wire import Kind

KEPT = {"clean": False, "properties": [("session_expiry_interval", 600)]}
KEPT_3 = {"clean": False}


def kept(version: int) -> dict:
    """Options of CONNECT that keep the session."""
    return KEPT if version == 5 else KEPT_3


def subscriber(dial, name: str, version: int = 5, qos: int = 2):
    """A session that survives its connection, subscribed to the test's topic."""
    one = dial(version).open(f"{name}-subscriber", **kept(version))
    one.subscribe([(name, qos)])
    return one


@pytest.mark.parametrize("version", [4, 5])
def test_a_qos_1_publish_is_answered_by_its_puback(dial, name, version):
    """MQTT-4.3.2-4."""
    one = dial(version).open(name)
    one.publish(name, b"x", qos=1, packet_id=0xABCD)
    answer = one.expect(Kind.PUBACK)
    assert answer.packet_id == 0xABCD and answer.reason in (0x00, 0x10)


@pytest.mark.parametrize("version", [4, 5])
def test_a_qos_2_publish_runs_through_pubrec_pubrel_pubcomp(dial, name, version):
    """MQTT-4.3.3-8 to MQTT-4.3.3-12."""
    one = dial(version).open(name)
    one.publish(name, b"x", qos=2, packet_id=77)
    received = one.expect(Kind.PUBREC)
    assert received.packet_id == 77 and received.reason in (0x00, 0x10)
    one.answer(Kind.PUBREL, 77)
    done = one.expect(Kind.PUBCOMP)
    assert (done.packet_id, done.reason) == (77, 0)


@pytest.mark.parametrize("published", [0, 1, 2])
@pytest.mark.parametrize("granted", [0, 1, 2])
def test_a_message_comes_at_the_lower_of_published_and_granted_qos(dial, client, name, published, granted):
    """MQTT-3.8.4-8."""
    one = subscriber(dial, name, qos=granted)
    client().publish(name, b"x", qos=published)
    assert one.expect(Kind.PUBLISH).qos == min(published, granted)


@pytest.mark.parametrize("version", [4, 5])
def test_an_unacknowledged_qos_1_message_comes_again_with_dup_and_the_same_id(dial, client, name, version):
    """MQTT-4.4.0-1, MQTT-3.3.1-1, MQTT-4.3.2-3."""
    one = subscriber(dial, name, version)
    client().publish(name, b"x", qos=1)
    first = one.expect(Kind.PUBLISH)
    assert not first.dup
    one.cut()
    back = dial(version).open(f"{name}-subscriber", **kept(version))
    again = back.expect(Kind.PUBLISH)
    assert (again.dup, again.packet_id, again.payload) == (True, first.packet_id, b"x")
    back.answer(Kind.PUBACK, again.packet_id)
    back.ping()
    back.cut()
    dial(version).open(f"{name}-subscriber", **kept(version)).ping()


@pytest.mark.parametrize("version", [4, 5])
def test_an_owed_pubrel_comes_again_after_a_reconnect(dial, client, name, version):
    """MQTT-4.4.0-1, MQTT-4.3.3-7: after PUBREC the message is not sent again, PUBREL is."""
    one = subscriber(dial, name, version)
    client().publish(name, b"x", qos=2)
    message = one.expect(Kind.PUBLISH)
    one.answer(Kind.PUBREC, message.packet_id)
    assert one.expect(Kind.PUBREL).packet_id == message.packet_id
    one.cut()
    back = dial(version).open(f"{name}-subscriber", **kept(version))
    assert back.expect(Kind.PUBREL).packet_id == message.packet_id
    back.answer(Kind.PUBCOMP, message.packet_id)
    back.ping()


@pytest.mark.parametrize("version", [4, 5])
def test_an_unacknowledged_qos_2_message_comes_again_with_dup(dial, client, name, version):
    """MQTT-4.3.3-3, MQTT-4.4.0-1."""
    one = subscriber(dial, name, version)
    client().publish(name, b"x", qos=2)
    first = one.expect(Kind.PUBLISH)
    one.cut()
    again = dial(version).open(f"{name}-subscriber", **kept(version)).expect(Kind.PUBLISH)
    assert (again.dup, again.packet_id) == (True, first.packet_id)


def test_nothing_is_sent_again_while_the_connection_lasts(dial, client, name):
    """MQTT-4.4.0-1: at no other time."""
    one = subscriber(dial, name)
    client().publish(name, b"x", qos=1)
    one.expect(Kind.PUBLISH)
    with pytest.raises(TimeoutError):
        one.receive(2)


@pytest.mark.parametrize("version", [4, 5])
def test_a_qos_2_publish_sent_twice_is_delivered_once(dial, client, name, version):
    """MQTT-4.3.3-10."""
    watcher = client()
    watcher.subscribe(name, 2)
    one = dial(version).open(name)
    for dup in (False, True):
        one.publish(name, b"once", qos=2, packet_id=5, dup=dup)
        assert one.expect(Kind.PUBREC).packet_id == 5
    one.answer(Kind.PUBREL, 5)
    one.expect(Kind.PUBCOMP)
    assert watcher.receive().payload == b"once"
    watcher.nothing_arrives()


@pytest.mark.parametrize("version", [4, 5])
def test_a_qos_2_publish_repeated_after_a_reconnect_is_delivered_once(dial, client, name, version):
    """MQTT-4.3.3-10: the session remembers the packet id across connections."""
    watcher = client()
    watcher.subscribe(name, 2)
    one = dial(version).open(f"{name}-publisher", **kept(version))
    one.publish(name, b"once", qos=2, packet_id=5)
    one.expect(Kind.PUBREC)
    one.cut()
    back = dial(version).open(f"{name}-publisher", **kept(version))
    back.publish(name, b"once", qos=2, packet_id=5, dup=True)
    assert back.expect(Kind.PUBREC).packet_id == 5
    back.answer(Kind.PUBREL, 5)
    back.expect(Kind.PUBCOMP)
    assert watcher.receive().payload == b"once"
    watcher.nothing_arrives()


def test_a_packet_id_is_free_again_after_its_pubcomp(dial, client, name):
    """MQTT-4.3.3-12: the next PUBLISH of this id is a new message."""
    watcher = client()
    watcher.subscribe(name, 2)
    one = dial().open(name)
    for payload in (b"first", b"second"):
        one.publish(name, payload, qos=2, packet_id=5)
        one.expect(Kind.PUBREC)
        one.answer(Kind.PUBREL, 5)
        one.expect(Kind.PUBCOMP)
    assert watcher.payloads(2) == [b"first", b"second"]


def test_a_repeated_qos_1_publish_is_a_new_message(dial, client, name):
    """MQTT-4.3.2-5: after PUBACK an id may be used again; at least once, not exactly once."""
    watcher = client()
    watcher.subscribe(name, 1)
    one = dial().open(name)
    for payload in (b"first", b"second"):
        one.publish(name, payload, qos=1, packet_id=5)
        one.expect(Kind.PUBACK)
    assert watcher.payloads(2) == [b"first", b"second"]


def test_a_pubrel_of_an_unknown_id_is_answered_with_0x92(dial, name):
    """Section 3.7.2.1: packet identifier not found, not an error of the connection."""
    one = dial().open(name)
    one.answer(Kind.PUBREL, 1234)
    answer = one.expect(Kind.PUBCOMP)
    assert (answer.packet_id, answer.reason) == (1234, 0x92)
    one.ping()


def test_a_pubrel_of_an_unknown_id_is_answered_in_3_1_1(dial, name):
    """MQTT-4.3.3-2 of 3.1.1: PUBCOMP answers every PUBREL, or a lost PUBCOMP would hang the sender for ever."""
    one = dial(4).open(name)
    one.answer(Kind.PUBREL, 1234)
    assert one.expect(Kind.PUBCOMP).packet_id == 1234


def test_a_pubrec_of_an_unknown_id_is_answered_with_0x92(dial, name):
    """Section 3.6.2.1."""
    one = dial().open(name)
    one.answer(Kind.PUBREC, 1234)
    answer = one.expect(Kind.PUBREL)
    assert (answer.packet_id, answer.reason) == (1234, 0x92)


def test_a_puback_of_an_unknown_id_harms_nobody(dial, name):
    """Section 4.13: it may be late, after an expiry or a takeover."""
    one = dial().open(name)
    one.answer(Kind.PUBACK, 1234)
    one.answer(Kind.PUBCOMP, 1234)
    one.ping()


def test_a_pubrec_with_an_error_ends_the_flow(dial, client, name):
    """MQTT-4.3.3-4: no PUBREL follows, the id is free again."""
    one = subscriber(dial, name)
    client().publish(name, b"x", qos=2)
    message = one.expect(Kind.PUBLISH)
    one.answer(Kind.PUBREC, message.packet_id, 0x97)
    one.ping()
    one.cut()
    dial().open(f"{name}-subscriber", **KEPT).ping()


def test_the_packet_ids_of_both_directions_do_not_meddle(dial, name):
    """Section 2.2.1: client and server assign ids independently."""
    one = dial().open(name)
    one.subscribe([(name, 2)], packet_id=1)
    one.publish(name, b"x", qos=2, packet_id=1).answer(Kind.PUBREL, 1)
    got = {packet.kind: packet.packet_id for packet in (one.receive(), one.receive(), one.receive())}
    assert got.keys() == {Kind.PUBREC, Kind.PUBCOMP, Kind.PUBLISH}
    assert got[Kind.PUBREC] == got[Kind.PUBCOMP] == 1
    one.answer(Kind.PUBREC, got[Kind.PUBLISH])
    assert one.expect(Kind.PUBREL).packet_id == got[Kind.PUBLISH]
    one.answer(Kind.PUBCOMP, got[Kind.PUBLISH])
    one.ping()


def test_a_publish_that_nobody_wants_may_say_so(dial, name):
    """Section 3.4.2.1: 0x10, no matching subscribers, or plain success."""
    one = dial().open(name)
    one.publish(f"{name}/nobody", b"x", qos=1, packet_id=1)
    assert one.expect(Kind.PUBACK).reason in (0x00, 0x10)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_of_one_topic_come_in_the_order_they_were_sent(client, name, qos):
    """MQTT-4.6.0-6."""
    watcher, writer = client(), client()
    watcher.subscribe(name, qos)
    for number in range(200):
        writer.paho.publish(name, str(number), qos)
    assert watcher.payloads(200) == [str(number).encode() for number in range(200)]


def test_messages_are_sent_again_in_the_order_they_were_sent_first(dial, client, name):
    """MQTT-4.6.0-1."""
    one = subscriber(dial, name)
    other = client()
    for number in range(10):
        other.publish(name, str(number), qos=1)
    first = [one.expect(Kind.PUBLISH) for _ in range(10)]
    one.cut()
    back = dial().open(f"{name}-subscriber", **KEPT)
    again = [back.expect(Kind.PUBLISH) for _ in range(10)]
    assert [(each.packet_id, each.payload) for each in again] == [(each.packet_id, each.payload) for each in first]
    assert all(each.dup for each in again)


def test_acknowledgements_come_in_the_order_of_the_publishes(dial, name):
    """MQTT-4.6.0-2, MQTT-4.6.0-3."""
    one = dial().open(name)
    ids = [9, 3, 7, 1, 200]
    one.send(*(wire.publish(name, b"x", qos=1, packet_id=each) for each in ids))
    assert [one.expect(Kind.PUBACK).packet_id for _ in ids] == ids
    one.send(*(wire.publish(name, b"x", qos=2, packet_id=each) for each in ids))
    assert [one.expect(Kind.PUBREC).packet_id for _ in ids] == ids
