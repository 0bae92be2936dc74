"""Retained messages: sections 3.3.1.3 and 3.8.3.1 of MQTT 5.0."""

import time

import pytest


@pytest.fixture
def kept(client, name):
    """A topic with the retained message `old`, cleared at the end."""
    keeper = client()
    keeper.publish(f"{name}/kept", b"old", retain=True)
    yield f"{name}/kept"
    keeper.publish(f"{name}/kept", b"", retain=True)


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_retained_message_reaches_a_later_subscriber_with_retain_set(client, kept, version):
    """MQTT-3.3.1-6 (3.1.1), MQTT-3.3.1-9, MQTT-3.3.1-5."""
    late = client(version=version)
    late.subscribe(kept, 1)
    got = late.receive()
    assert (got.payload, got.retain, got.qos) == (b"old", True, 1)


def test_only_the_last_message_is_retained(client, kept):
    """MQTT-3.3.1-5."""
    writer = client()
    writer.publish(kept, b"new", retain=True)
    writer.publish(kept, b"passing", retain=False)
    late = client()
    late.subscribe(kept)
    assert late.receive().payload == b"new"
    late.nothing_arrives()


def test_an_empty_payload_clears_it_and_still_reaches_live_subscribers(client, kept):
    """MQTT-3.3.1-6, MQTT-3.3.1-7."""
    live = client()
    live.subscribe(kept)
    live.receive()
    client().publish(kept, b"", retain=True)
    assert live.receive().payload == b""
    late = client()
    late.subscribe(kept)
    late.nothing_arrives()


def test_a_live_message_to_a_present_subscription_has_retain_clear(client, kept):
    """MQTT-3.3.1-9, MQTT-3.3.1-12."""
    live = client()
    live.subscribe(kept)
    live.receive()
    client().publish(kept, b"now", retain=True)
    assert not live.receive().retain


def test_retain_as_published_keeps_the_flag(client, kept):
    """MQTT-3.3.1-13."""
    live = client()
    live.subscribe(kept, retainAsPublished=True)
    live.receive()
    writer = client()
    writer.publish(kept, b"kept", retain=True)
    writer.publish(kept, b"passing", retain=False)
    assert [live.receive().retain, live.receive().retain] == [True, False]


def test_retain_handling_0_sends_it_at_every_subscribe(client, kept):
    """MQTT-3.3.1-9, MQTT-3.8.4-4."""
    one = client()
    for _ in range(2):
        one.subscribe(kept, retainHandling=0)
        assert one.receive().payload == b"old"


def test_retain_handling_1_sends_it_for_a_new_subscription_only(client, kept):
    """MQTT-3.3.1-10."""
    one = client()
    one.subscribe(kept, retainHandling=1)
    assert one.receive().payload == b"old"
    one.subscribe(kept, retainHandling=1)
    one.nothing_arrives()
    one.unsubscribe(kept)
    one.subscribe(kept, retainHandling=1)
    assert one.receive().payload == b"old"


def test_retain_handling_2_never_sends_it(client, kept):
    """MQTT-3.3.1-11."""
    one = client()
    one.subscribe(kept, retainHandling=2)
    one.nothing_arrives()


def test_a_wildcard_brings_every_retained_message_below_it_once(client, name):
    """MQTT-3.3.1-9."""
    writer = client()
    topics = {f"{name}/a", f"{name}/a/b", f"{name}/a/b/c", f"{name}/d"}
    for topic in topics:
        writer.publish(topic, topic, retain=True)
    for topic_filter, expected in {
        f"{name}/#": topics,
        f"{name}/+": {f"{name}/a", f"{name}/d"},
        f"{name}/a/+/c": {f"{name}/a/b/c"},
        f"{name}/a/#": topics - {f"{name}/d"},
    }.items():
        late = client()
        late.subscribe(topic_filter)
        assert {late.receive().topic for _ in expected} == expected
        late.nothing_arrives()
    for topic in topics:
        writer.publish(topic, b"", retain=True)


def test_a_retained_message_comes_at_the_lower_of_both_qos(client, kept):
    """MQTT-3.8.4-8."""
    for granted, expected in {0: 0, 1: 1, 2: 1}.items():
        late = client()
        late.subscribe(kept, granted)
        assert late.receive().qos == expected


def test_a_retained_message_expires(client, name):
    """MQTT-3.3.2-5, MQTT-3.3.2-6: the interval counts down, then the message is gone."""
    client().publish(f"{name}/short", b"brief", retain=True, MessageExpiryInterval=3)
    early = client()
    early.subscribe(f"{name}/short")
    assert early.receive().properties.MessageExpiryInterval in (1, 2, 3)
    time.sleep(3.3)  # Longer than the message lives; its end has no event.
    late = client()
    late.subscribe(f"{name}/short")
    late.nothing_arrives()


def test_a_shared_subscription_gets_no_retained_messages(client, kept, name):
    """Section 4.8.2: none are sent to the session when it first subscribes."""
    one = client()
    one.subscribe(f"$share/{name}/{kept}")
    one.nothing_arrives()


def test_a_retained_message_keeps_its_properties(client, name):
    """MQTT-3.3.2-17, MQTT-3.3.2-18."""
    topic = f"{name}/kept"
    client().publish(topic, b"x", retain=True, UserProperty=[("k", "1"), ("k", "2")], ContentType="c")
    late = client()
    late.subscribe(topic)
    got = late.receive()
    assert (got.properties.UserProperty, got.properties.ContentType) == ([("k", "1"), ("k", "2")], "c")
    late.publish(topic, b"", retain=True)
