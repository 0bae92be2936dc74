"""Wills: sections 3.1.2.5, 3.1.3.2 and 3.14.4 of MQTT 5.0."""

import time

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

import wire


def will(name: str, **more: object) -> dict:
    """A will on this test's own topic."""
    return {"topic": f"{name}/will", "payload": b"gone", "qos": 1, **more}


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_will_is_sent_when_the_connection_is_cut(client, name, version):
    """MQTT-3.1.2-8."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    client(name, version, will=will(name)).cut()
    assert watcher.receive().payload == b"gone"


def test_a_will_is_sent_when_the_keep_alive_runs_out(client, dial, name):
    """MQTT-3.1.2-22 with MQTT-3.1.2-8."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    dial().open(name, keep_alive=1, will=wire.Will(f"{name}/will"))
    assert watcher.receive().payload == b"gone"


def test_a_will_is_sent_when_the_client_breaks_the_protocol(client, dial, name):
    """MQTT-3.1.2-8: the server closed because of a protocol error."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    dial().open(name, will=wire.Will(f"{name}/will")).send(wire.connect(name))
    assert watcher.receive().payload == b"gone"


def test_a_will_is_sent_when_the_session_is_taken_over(client, dial, name):
    """MQTT-3.1.4-3: the takeover closes the connection without DISCONNECT 0x00."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    dial().open(name, will=wire.Will(f"{name}/will"))
    dial().open(name)
    assert watcher.receive().payload == b"gone"


@pytest.mark.parametrize("version", [4, 5])
def test_a_normal_disconnect_discards_the_will(client, name, version):
    """MQTT-3.14.4-3."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    client(name, version, will=will(name)).disconnect()
    watcher.nothing_arrives()


def test_disconnect_with_will_sends_it(client, name):
    """Section 3.14.2.1: reason 0x04."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    client(name, will=will(name)).disconnect(ReasonCode(PacketTypes.DISCONNECT, "Disconnect with will message"))
    assert watcher.receive().payload == b"gone"


def test_a_will_carries_its_qos_retain_and_properties(client, name):
    """MQTT-3.1.3-10: user properties in order; section 3.1.3.2."""
    pairs = [("b", "1"), ("a", "2"), ("b", "3")]
    extra = {
        "ContentType": "text/plain",
        "ResponseTopic": f"{name}/answer",
        "CorrelationData": b"\x00\xff",
        "PayloadFormatIndicator": 1,
        "UserProperty": pairs,
    }
    watcher = client()
    watcher.subscribe(f"{name}/will", 2)
    client(name, will=will(name, retain=True, **extra)).cut()
    live = watcher.receive()
    assert (live.qos, live.retain) == (1, False)
    late = client()
    late.subscribe(f"{name}/will", 2)
    kept = late.receive()
    assert (kept.qos, kept.retain) == (1, True)
    for message in (live, kept):
        assert message.properties.ContentType == "text/plain"
        assert message.properties.ResponseTopic == f"{name}/answer"
        assert message.properties.CorrelationData == b"\x00\xff"
        assert message.properties.PayloadFormatIndicator == 1
        assert message.properties.UserProperty == pairs
    late.publish(f"{name}/will", b"", retain=True)


def test_a_will_waits_for_its_delay(client, name):
    """MQTT-3.1.3-9: not before the delay has passed."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    one = client(name, SessionExpiryInterval=60, will=will(name, WillDelayInterval=1))
    since = time.monotonic()
    one.cut()
    watcher.nothing_arrives()
    watcher.receive()
    assert time.monotonic() - since >= 0.9


def test_a_reconnect_within_the_delay_cancels_the_will(client, name):
    """MQTT-3.1.3-9: a new connection before the delay has passed."""
    watcher = client()
    watcher.subscribe(f"{name}/#", 1)
    client(name, SessionExpiryInterval=60, will=will(name, WillDelayInterval=2)).cut()
    client(name, clean=False, SessionExpiryInterval=60)
    control = client(f"{name}-2", SessionExpiryInterval=60, will=will(name, payload=b"control", WillDelayInterval=3))
    control.cut()
    assert watcher.receive().payload == b"control"


def test_a_will_is_sent_when_the_session_ends_before_the_delay(client, name):
    """MQTT-3.1.3-9: whichever happens first."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    client(name, SessionExpiryInterval=1, will=will(name, WillDelayInterval=600)).cut()
    assert watcher.receive().payload == b"gone"


def test_a_clean_start_ends_the_session_and_so_sends_the_delayed_will(client, name):
    """Section 3.1.3.2.2 with MQTT-3.1.2-4."""
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    client(name, SessionExpiryInterval=600, will=will(name, WillDelayInterval=600)).cut()
    client(name, clean=True)
    assert watcher.receive().payload == b"gone"


def test_a_will_expires_like_any_message(client, dial, name):
    """Section 3.1.3.2.4: the message expiry interval counts from the publication of the will."""
    away = dial().open(f"{name}-away", clean=False, properties=[("session_expiry_interval", 60)])
    away.subscribe([(f"{name}/will", 1)])
    away.leave()
    watcher = client()
    watcher.subscribe(f"{name}/will", 1)
    client(name, will=will(name, MessageExpiryInterval=1)).cut()
    assert watcher.receive().properties.MessageExpiryInterval == 1
    time.sleep(2.1)  # Longer than the message lives; its end has no event.
    dial().open(f"{name}-away", clean=False, properties=[("session_expiry_interval", 60)]).ping()


def test_a_will_to_its_own_session_waits_in_its_queue(client, name):
    """MQTT-3.1.2-8: published to all subscribers, the dead client's session among them."""
    one = client(name, SessionExpiryInterval=60, will=will(name))
    one.subscribe(f"{name}/will", 1)
    one.cut()
    back = client(name, clean=False, SessionExpiryInterval=60)
    assert back.receive().payload == b"gone"
