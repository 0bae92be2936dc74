"""Shared subscriptions: section 4.8.2 of MQTT 5.0."""

from collections import Counter

from wire import Kind


def test_each_message_goes_to_one_member_of_the_group(client, name):
    """Section 4.8.2: to only one of the sessions that share the subscription."""
    members = [client() for _ in range(3)]
    for member in members:
        member.subscribe(f"$share/workers/{name}", 1)
    writer = client()
    for number in range(60):
        writer.publish(name, str(number))
    counts = [[message.payload for message in member.everything()] for member in members]
    assert Counter(payload for count in counts for payload in count) == Counter(str(n).encode() for n in range(60))
    assert all(counts), f"a member of the group got nothing: {[len(count) for count in counts]}"


def test_every_group_and_every_plain_subscriber_gets_its_own_copy(client, name):
    """Section 4.8.2."""
    one, two, plain = client(), client(), client()
    one.subscribe(f"$share/one/{name}", 1)
    two.subscribe(f"$share/two/{name}", 1)
    plain.subscribe(name, 1)
    client().publish(name, b"x")
    assert [each.receive().payload for each in (one, two, plain)] == [b"x"] * 3


def test_a_client_may_hold_a_plain_and_a_shared_subscription(client, name):
    """Section 4.8.2: a client that is in the group and subscribes by itself gets both copies."""
    one = client()
    one.subscribe(f"$share/workers/{name}", 1)
    one.subscribe(name, 1)
    client().publish(name, b"x")
    assert one.payloads(2) == [b"x", b"x"]


def test_messages_of_a_member_that_leaves_go_to_the_others(client, name):
    """Section 4.8.2: while members are connected, none of them waits for one who is gone."""
    leaving, staying = client(), client()
    for member in (leaving, staying):
        member.subscribe(f"$share/workers/{name}", 1)
    leaving.cut()
    writer = client()
    for number in range(10):
        writer.publish(name, str(number))
    assert staying.payloads(10) == [str(number).encode() for number in range(10)]


def test_what_a_dead_member_never_acknowledged_goes_to_another(dial, client, name):
    """MQTT-4.8.2-4, MQTT-4.8.2-5: QoS 1 of a session that ends should be sent to another member."""
    dying = dial().open(f"{name}-dying", clean=True, properties=[("receive_maximum", 100)])
    dying.subscribe([(f"$share/workers/{name}", 1)])
    writer = client()
    for number in range(5):
        writer.publish(name, str(number))
    for _ in range(5):
        dying.expect(Kind.PUBLISH)
    heir = client()
    heir.subscribe(f"$share/workers/{name}", 1)
    dying.cut()
    assert sorted(heir.payloads(5)) == [str(number).encode() for number in range(5)]


def test_a_member_that_cannot_take_more_is_passed_over(dial, client, name):
    """Section 4.8.2: the server may choose the member; one whose receive maximum is full is a poor choice."""
    full = dial().open(f"{name}-full", properties=[("receive_maximum", 1)])
    full.subscribe([(f"$share/workers/{name}", 1)])
    free = client()
    free.subscribe(f"$share/workers/{name}", 1)
    writer = client()
    for number in range(20):
        writer.publish(name, str(number))
    assert len(free.payloads(18)) == 18


def test_a_group_has_its_filter_with_wildcards(client, name):
    """MQTT-4.8.2-1: the topic filter behind the group's name has the usual form."""
    one = client()
    one.subscribe(f"$share/workers/{name}/+/x", 1)
    client().publish(f"{name}/a/x", b"x")
    assert one.receive().topic == f"{name}/a/x"


def test_a_member_that_unsubscribes_is_out_of_the_group(client, name):
    """MQTT-4.8.2-3 and section 3.10."""
    one, two = client(), client()
    for member in (one, two):
        member.subscribe(f"$share/workers/{name}", 1)
    one.unsubscribe(f"$share/workers/{name}")
    writer = client()
    for number in range(6):
        writer.publish(name, str(number))
    assert len(two.payloads(6)) == 6
    one.nothing_arrives()


def test_a_group_with_a_subscription_identifier_brings_it(client, name):
    """MQTT-3.3.4-3."""
    one = client()
    one.subscribe(f"$share/workers/{name}", 1, identifier=5)
    client().publish(name, b"x")
    assert one.receive().properties.SubscriptionIdentifier == [5]


def test_the_group_is_remembered_with_a_kept_session(client, dial, name):
    """Section 4.8.2: a session that is away keeps its membership and gets what nobody else can take."""
    kept = {"clean": False, "SessionExpiryInterval": 60}
    one = client(name, **kept)
    one.subscribe(f"$share/workers/{name}", 1)
    one.disconnect()
    client().publish(name, b"waiting")
    assert client(name, **kept).receive().payload == b"waiting"
