"""Topic filters, subscription options and identifiers: sections 3.8, 3.10 and 4.7 of MQTT 5.0."""

import pytest

import wire
from raw import Closed
from wire import Kind

MATCHING = [
    ("a/b", "a/b"),
    ("a/+", "a/b"),
    ("+/b", "a/b"),
    ("+/+", "a/b"),
    ("a/#", "a/b"),
    ("a/#", "a"),
    ("#", "a/b/c"),
    ("a/+/c", "a/b/c"),
    ("a/+", "a/"),
    ("+/+", "/x"),
    ("/+", "/x"),
    ("a//b", "a//b"),
    ("a/+/b", "a//b"),
    ("a/#", "a//"),
    ("+", "a"),
    ("a/ b", "a/ b"),
    ("ä/ö", "ä/ö"),
    ("a/$x", "a/$x"),
    ("a/+", "a/$x"),
]
APART = [
    ("a/b", "a"), ("a/b", "a/b/"), ("a/b", "A/b"), ("+", "a/b"), ("+", "/a"), ("a/+", "a"), ("a/+", "a/b/c"),
    ("a/#", "ab"), ("/a", "a"), ("a/+/c", "a/b"), ("b/#", "a/b"), ("a/b/#", "a"), ("+/a/#", "a"),
]  # fmt: skip


@pytest.mark.parametrize(("topic_filter", "topic"), MATCHING)
def test_a_filter_matches_its_topics(client, name, topic_filter, topic):
    """MQTT-4.7.1-2, MQTT-4.7.1-3, MQTT-4.7.3-4: below a level of our own, so that tests do not meet."""
    one = client()
    one.subscribe(f"{name}/{topic_filter}", 0)
    one.publish(f"{name}/{topic}", b"x", qos=0)
    assert one.receive().topic == f"{name}/{topic}"


@pytest.mark.parametrize(("topic_filter", "topic"), APART)
def test_a_filter_leaves_other_topics_alone(client, name, topic_filter, topic):
    """MQTT-4.7.3-1, MQTT-4.7.3-4."""
    one = client()
    one.subscribe(f"{name}/{topic_filter}", 0)
    one.publish(f"{name}/{topic}", b"x", qos=0)
    one.nothing_arrives()


BAD_FILTERS = ["a/#/b", "a#", "#a", "a/b+", "+a", "a+/b", "##", "++", "a/##", ""]
BAD_FILTERS += ["$share/g", "$share//a", "$share/g+/a", "$share/g#/a", "$share/g/"]


CASES = [(filter_, version) for filter_ in BAD_FILTERS for version in (4, 5) if version == 5 or "$share" not in filter_]


@pytest.mark.parametrize(("topic_filter", "version"), CASES)
def test_a_malformed_filter_is_refused_and_harms_nobody(dial, client, name, topic_filter, version):
    """MQTT-4.7.1-1, MQTT-4.7.1-2, MQTT-4.7.3-1, MQTT-4.8.2-1, MQTT-4.8.2-2: a failure code, or the connection ends."""
    other = client()
    one = dial(version).open(name)
    one.send(wire.subscribe([(topic_filter, 0)], version, packet_id=3))
    try:
        got = one.receive()
        reason = got.reasons[0] if got.kind == Kind.SUBACK else got.reason
        assert reason in ((0x80,) if version == 4 else (0x80, 0x81, 0x82, 0x8F))
    except Closed:
        assert version == 4
    other.nothing_arrives()


@pytest.mark.parametrize("version", [4, 5])
def test_several_filters_in_one_subscribe_are_answered_in_their_order(dial, name, version):
    """MQTT-3.8.4-5, MQTT-3.8.4-6."""
    one = dial(version).open(name)
    assert one.subscribe([(f"{name}/a", 2), (f"{name}/b", 0), (f"{name}/c", 1)]) == [2, 0, 1]


def test_a_message_that_matches_two_filters_comes_at_the_highest_qos(dial, client, name):
    """MQTT-3.3.4-2, MQTT-3.3.4-3: once or once each; one copy has the highest of their QoS."""
    one = dial().open(name)
    one.subscribe([(f"{name}/#", 0), (f"{name}/a", 2)])
    client().publish(f"{name}/a", b"x", qos=2)
    copies = [one.expect(Kind.PUBLISH)]
    one.send(wire.PINGREQ)
    while (got := one.receive()).kind != Kind.PINGRESP:
        copies.append(got)
    assert max(each.qos for each in copies) == 2 and len(copies) <= 2


def test_a_second_subscribe_replaces_the_first(dial, client, name):
    """MQTT-3.8.4-3."""
    one = dial().open(name)
    one.subscribe([(name, 2)])
    one.subscribe([(name, 0)])
    client().publish(name, b"x", qos=2)
    assert one.expect(Kind.PUBLISH).qos == 0
    one.ping()


@pytest.mark.parametrize("version", [4, 5])
def test_unsubscribe_ends_the_messages(client, name, version):
    """MQTT-3.10.4-2, MQTT-3.10.4-4."""
    one, other = client(version=version), client()
    one.subscribe(name, 1)
    one.unsubscribe(name)
    other.publish(name, b"x", qos=1)
    one.nothing_arrives()


def test_unsubscribe_takes_the_filter_literally(client, name):
    """MQTT-3.10.4-1: compared character by character, no matching."""
    one = client()
    one.subscribe(f"{name}/a", 1)
    one.unsubscribe(f"{name}/+")
    one.publish(f"{name}/a", b"still here", qos=1)
    assert one.receive().payload == b"still here"


def test_no_local_keeps_ones_own_messages_away(client, name):
    """MQTT-3.8.3-3."""
    one, other = client(), client()
    one.subscribe(name, noLocal=True)
    one.publish(name, b"mine")
    other.publish(name, b"theirs")
    assert one.receive().payload == b"theirs"


def test_no_local_on_a_shared_subscription_is_a_protocol_error(dial, name):
    """MQTT-3.8.3-4."""
    one = dial().open(name)
    one.send(wire.subscribe([(f"$share/g/{name}", 0x04)]))
    assert one.verdict() == 0x82


def test_a_subscription_identifier_comes_with_its_messages(client, name):
    """MQTT-3.3.4-3."""
    one, other = client(), client()
    one.subscribe(f"{name}/a", identifier=7)
    one.subscribe(f"{name}/b", identifier=268_435_455)
    other.publish(f"{name}/b", b"x")
    other.publish(f"{name}/a", b"x")
    assert one.receive().properties.SubscriptionIdentifier == [268_435_455]
    assert one.receive().properties.SubscriptionIdentifier == [7]


def test_overlapping_subscriptions_bring_all_their_identifiers(dial, client, name):
    """MQTT-3.3.4-4, MQTT-3.3.4-5: all in one copy, or each in its own."""
    one = dial().open(name)
    one.subscribe([(f"{name}/#", 0)], properties=[("subscription_identifier", 1)])
    one.subscribe([(f"{name}/+", 0)], properties=[("subscription_identifier", 2)])
    client().publish(f"{name}/a", b"x", qos=0)
    found = []
    while len(found) < 2:
        found += one.expect(Kind.PUBLISH).all("subscription_identifier")
    assert sorted(found) == [1, 2]


def test_a_second_subscribe_without_identifier_removes_it(client, name):
    """MQTT-3.8.4-3."""
    one = client()
    one.subscribe(name, identifier=7)
    one.subscribe(name)
    one.publish(name, b"x")
    assert not hasattr(one.receive().properties, "SubscriptionIdentifier")


def test_an_identifier_survives_with_the_session(client, name):
    """Section 4.1: subscriptions, with their identifiers, are part of the session state."""
    client(name, clean=False, SessionExpiryInterval=60).subscribe(f"{name}/a", identifier=9)
    back = client(name, clean=False, SessionExpiryInterval=60)
    client().publish(f"{name}/a", b"x")
    assert back.receive().properties.SubscriptionIdentifier == [9]


def test_a_hash_does_not_see_topics_that_begin_with_a_dollar(client, name):
    """MQTT-4.7.2-1."""
    one = client()
    for topic_filter in ("#", "+/#", "+/broker/uptime"):
        one.subscribe(topic_filter, 0)
    one.publish(name, b"seen", qos=0)
    topics = {message.topic for message in one.everything()}
    assert name in topics and not any(topic.startswith("$") for topic in topics)


def test_sys_says_which_broker_this_is(client):
    """Section 4.7.2: `$SYS/` is widely adopted as the place of what a server says of itself."""
    one = client()
    one.subscribe("$SYS/#", 0)
    topics = {one.receive().topic for _ in range(3)}
    assert all(topic.startswith("$SYS/") for topic in topics)


def test_clients_do_not_write_into_sys(client, dial, name):
    """Section 4.7.2: the server should prevent clients from using `$` topics to exchange messages."""
    watcher = client()
    watcher.subscribe(f"$SYS/{name}", 1)
    one = dial().open(name)
    one.publish(f"$SYS/{name}", b"fake", qos=0)
    watcher.nothing_arrives()


def test_a_subscription_is_live_when_its_suback_is_there(client, name):
    """MQTT-3.8.4-1 with section 4.6; a hundred times, because it is a race where it is wrong."""
    writer = client()
    for number in range(100):
        one = client()
        one.subscribe(f"{name}/{number}", 0)
        writer.publish(f"{name}/{number}", b"x", qos=0)
        one.receive()
        one.disconnect()
