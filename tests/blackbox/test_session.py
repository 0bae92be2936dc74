"""Sessions: clean start, session present, expiry, takeover. Sections 3.1.2.4, 3.1.2.11.2, 3.1.4, 4.1 and 4.4 of 5.0."""

import time

import pytest

import wire
from raw import Closed
from wire import Kind

FOREVER = 0xFFFFFFFF
KEPT = [("session_expiry_interval", 600)]


def persistent(version: int) -> dict:
    """Options of CONNECT that keep the session."""
    return {"clean": False, "properties": KEPT if version == 5 else ()}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_kept_session_has_its_subscriptions_and_messages_when_the_client_is_back(client, dial, name, version):
    """MQTT-3.1.2-5, MQTT-3.1.2-6 (3.1.1), MQTT-4.1.0-1."""
    one = dial(version).open(name, **persistent(version))
    one.subscribe([(f"{name}/#", 1)])
    one.leave()
    other = client()
    for number in range(5):
        other.publish(f"{name}/x", str(number), qos=1)
    back = dial(version).open(name, **persistent(version))
    assert version == 3 or back.connack.session_present
    got = [back.expect(Kind.PUBLISH) for _ in range(5)]
    assert [one.payload for one in got] == [b"0", b"1", b"2", b"3", b"4"]
    assert not any(one.dup for one in got)


@pytest.mark.parametrize("version", [4, 5])
def test_a_new_session_is_not_present(dial, name, version):
    """MQTT-3.2.2-2, MQTT-3.2.2-3."""
    assert not dial(version).open(name, **persistent(version)).connack.session_present


@pytest.mark.parametrize("version", [4, 5])
def test_a_clean_start_discards_the_session_before(dial, client, name, version):
    """MQTT-3.1.2-4, MQTT-3.2.2-2."""
    one = dial(version).open(name, **persistent(version))
    one.subscribe([(name, 1)])
    one.leave()
    client().publish(name, b"for the old session", qos=1)
    back = dial(version).open(name, clean=True)
    assert not back.connack.session_present
    back.ping()


def test_a_session_without_expiry_ends_with_its_connection(dial, name):
    """Section 3.1.2.11.2: absent or 0 ends the session at the close of the connection."""
    one = dial().open(name, clean=True)
    one.subscribe(name)
    one.leave()
    assert not dial().open(name, clean=False).connack.session_present


def test_a_session_expires_after_its_interval(dial, name):
    """MQTT-3.1.2-23."""
    dial().open(name, clean=False, properties=[("session_expiry_interval", 1)]).leave()
    until = time.monotonic() + 10
    time.sleep(2)  # The interval itself, to which the broker may add.
    while dial().open(name, clean=False, properties=[("session_expiry_interval", 1)]).connack.session_present:
        assert time.monotonic() < until, "a session of 1 s was still there after 10 s"
        dial().open(name, clean=False, properties=[("session_expiry_interval", 1)]).leave()
        time.sleep(2)


def test_a_disconnect_may_shorten_the_session_expiry(dial, name):
    """Section 3.14.2.2.2."""
    one = dial().open(name, clean=False, properties=KEPT)
    one.send(wire.disconnect(0, [("session_expiry_interval", 0)]))
    one.verdict()
    assert not dial().open(name, clean=False).connack.session_present


def test_a_disconnect_may_not_make_an_expiry_of_a_session_without_one(dial, name):
    """MQTT-3.14.2-2: a protocol error."""
    one = dial().open(name, clean=True)
    one.send(wire.disconnect(0, [("session_expiry_interval", 60)]))
    assert one.verdict() in (None, 0x82)
    assert not dial().open(name, clean=False).connack.session_present


def test_a_second_connection_of_a_client_takes_over(dial, name):
    """MQTT-3.1.4-3: the first gets DISCONNECT 0x8E."""
    first = dial().open(name)
    second = dial().open(name)
    assert first.verdict() == 0x8E
    second.ping()


def test_a_takeover_in_3_1_1_closes_the_first_connection(dial, name):
    """MQTT-3.1.4-2 of 3.1.1."""
    first = dial(4).open(name)
    second = dial(4).open(name)
    assert first.verdict() is None
    second.ping()


def test_a_takeover_without_clean_start_keeps_the_session(dial, client, name):
    """MQTT-3.1.4-3, MQTT-3.1.2-5."""
    first = dial().open(name, clean=False, properties=KEPT)
    first.subscribe([(name, 1)])
    second = dial().open(name, clean=False, properties=KEPT)
    assert second.connack.session_present
    assert first.verdict() == 0x8E
    client().publish(name, b"to the second", qos=1)
    assert second.expect(Kind.PUBLISH).payload == b"to the second"


def test_a_session_passes_from_3_1_1_to_5_0(dial, client, name):
    """Section 3.1.2.4: the session belongs to the client id, not to the version."""
    one = dial(4).open(name, clean=False)
    one.subscribe([(name, 1)])
    one.leave()
    client().publish(name, b"kept", qos=1)
    back = dial(5).open(name, clean=False, properties=KEPT)
    assert back.connack.session_present
    assert back.expect(Kind.PUBLISH).payload == b"kept"


def test_messages_of_qos_0_are_not_promised_to_a_client_that_is_away(dial, client, name):
    """Section 4.3.1: at most once; whatever is kept, what was acknowledged at QoS 1 is."""
    one = dial().open(name, clean=False, properties=KEPT)
    one.subscribe([(name, 1)])
    one.leave()
    other = client()
    other.publish(name, b"maybe", qos=0)
    other.publish(name, b"surely", qos=1)
    back = dial().open(name, clean=False, properties=KEPT)
    got = back.expect(Kind.PUBLISH)
    assert got.payload == b"surely" or back.expect(Kind.PUBLISH).payload == b"surely"


def test_an_unsubscribed_filter_stays_so_in_the_session(dial, client, name):
    """MQTT-3.10.4-1, MQTT-3.10.4-4."""
    one = dial().open(name, clean=False, properties=KEPT)
    one.subscribe([(name, 1)])
    one.send(wire.unsubscribe([name, f"{name}/never"], packet_id=2))
    answer = one.expect(Kind.UNSUBACK)
    assert (answer.packet_id, answer.reasons) == (2, [0x00, 0x11])
    one.leave()
    client().publish(name, b"nobody wants this", qos=1)
    dial().open(name, clean=False, properties=KEPT).ping()


def test_a_tight_loop_of_one_client_id_ends_with_the_last_connection_served(dial, name):
    """MQTT-3.1.4-3, two hundred times at once."""
    loop = [dial() for _ in range(200)]
    for connection in loop:
        connection.send(wire.connect(name, clean=False, properties=KEPT))
    for connection in loop:
        assert connection.expect(Kind.CONNACK).reason == 0
    alive = sum(is_served(connection) for connection in loop)
    assert alive == 1
    assert dial().open(name, clean=False, properties=KEPT).connack.session_present


def is_served(connection) -> bool:
    """Whether a PINGREQ is answered; a connection that was taken over is told so, or closed."""
    try:
        return connection.send(wire.PINGREQ).receive().kind == Kind.PINGRESP
    except (Closed, OSError):
        return False
