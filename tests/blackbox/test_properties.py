"""Properties of PUBLISH and the limits both sides name: sections 3.3.2.3, 3.1.2.11 and 3.2.2.3 of MQTT 5.0."""

import time

import pytest

import wire
from wire import Kind


def test_every_property_reaches_the_subscriber_unchanged(client, name):
    """MQTT-3.3.2-4, MQTT-3.3.2-15, MQTT-3.3.2-16, MQTT-3.3.2-17, MQTT-3.3.2-18, MQTT-3.3.2-20."""
    one = client()
    one.subscribe(name)
    pairs = [("zebra", "1"), ("ant", "2"), ("zebra", "3"), ("", ""), ("ключ", "値")]
    client().publish(
        name,
        "wörld",
        PayloadFormatIndicator=1,
        ContentType="text/plain; charset=utf-8",
        ResponseTopic=f"{name}/answer",
        CorrelationData=bytes(range(256)),
        UserProperty=pairs,
    )
    got = one.receive().properties
    assert got.PayloadFormatIndicator == 1
    assert got.ContentType == "text/plain; charset=utf-8"
    assert got.ResponseTopic == f"{name}/answer"
    assert got.CorrelationData == bytes(range(256))
    assert got.UserProperty == pairs


def test_a_request_finds_its_answer_by_response_topic_and_correlation_data(client, name):
    """Section 4.10."""
    asking, answering = client(), client()
    asking.subscribe(f"{name}/answers")
    answering.subscribe(f"{name}/questions")
    asking.publish(f"{name}/questions", b"6*7", ResponseTopic=f"{name}/answers", CorrelationData=b"\x01")
    question = answering.receive().properties
    answering.publish(question.ResponseTopic, b"42", CorrelationData=question.CorrelationData)
    answer = asking.receive()
    assert (answer.payload, answer.properties.CorrelationData) == (b"42", b"\x01")


def test_properties_stay_away_from_a_subscriber_of_3_1_1(client, name):
    """Section 3.3: PUBLISH of 3.1.1 has no property block."""
    one = client(version=4)
    one.subscribe(name, 1)
    client().publish(name, b"payload alone", UserProperty=[("a", "b")], ContentType="c")
    assert one.receive().payload == b"payload alone"


def test_message_expiry_is_counted_down_while_a_message_waits(dial, client, name):
    """MQTT-3.3.2-6."""
    kept = {"clean": False, "properties": [("session_expiry_interval", 60)]}
    one = dial().open(name, **kept)
    one.subscribe([(name, 1)])
    one.leave()
    client().publish(name, b"x", MessageExpiryInterval=100)
    time.sleep(2.1)  # The message waits for this long; that is the test.
    left = dial().open(name, **kept).expect(Kind.PUBLISH).get("message_expiry_interval")
    assert left in (97, 98)


def test_an_expired_message_is_not_delivered(dial, client, name):
    """MQTT-3.3.2-5."""
    kept = {"clean": False, "properties": [("session_expiry_interval", 60)]}
    one = dial().open(name, **kept)
    one.subscribe([(name, 1)])
    one.leave()
    writer = client()
    writer.publish(name, b"short", MessageExpiryInterval=1)
    writer.publish(name, b"long", MessageExpiryInterval=600)
    time.sleep(2.1)  # Longer than the message lives; its end has no event.
    back = dial().open(name, **kept)
    assert back.expect(Kind.PUBLISH).payload == b"long"
    back.ping()


def test_a_topic_alias_of_the_client_stands_for_its_topic(dial, client, name):
    """MQTT-3.3.2-8 to MQTT-3.3.2-12."""
    watcher = client()
    watcher.subscribe(f"{name}/#")
    one = dial().open(name)
    assert one.connack.get("topic_alias_maximum", 0) >= 1, "the broker takes no topic aliases"
    one.publish(f"{name}/a", b"1", properties=[("topic_alias", 1)])
    one.publish("", b"2", properties=[("topic_alias", 1)])
    one.publish(f"{name}/b", b"3", properties=[("topic_alias", 1)])
    one.publish("", b"4", properties=[("topic_alias", 1)])
    got = [watcher.receive() for _ in range(4)]
    assert [(each.topic[-1], each.payload) for each in got] == [("a", b"1"), ("a", b"2"), ("b", b"3"), ("b", b"4")]
    assert not any(hasattr(each.properties, "TopicAlias") for each in got)


def test_a_topic_alias_ends_with_its_connection(dial, name):
    """MQTT-3.3.2-7."""
    kept = [("session_expiry_interval", 60)]
    one = dial().open(name, properties=kept)
    one.publish(name, b"1", properties=[("topic_alias", 1)])
    one.leave()
    back = dial().open(name, clean=False, properties=kept)
    assert back.publish("", b"2", properties=[("topic_alias", 1)]).verdict() in (None, 0x82, 0x94)


@pytest.mark.parametrize("alias", ["zero", "over the maximum"])
def test_a_topic_alias_out_of_range_is_refused(dial, name, alias):
    """MQTT-3.3.2-8, MQTT-3.3.2-9: 0x94; zero may also be called malformed or a protocol error."""
    one = dial().open(name)
    number = 0 if alias == "zero" else one.connack.get("topic_alias_maximum", 0) + 1
    if number > 65_535:
        number = 0
    assert one.publish(name, b"x", properties=[("topic_alias", number)]).verdict() in (
        (0x94,) if number else (0x81, 0x82, 0x94)
    )


def test_no_topic_alias_comes_to_a_client_that_allows_none(dial, client, name):
    """MQTT-3.1.2-27."""
    one = dial().open(name)
    one.subscribe([(name, 0)])
    writer = client()
    for _ in range(10):
        writer.publish(name, b"x", qos=0)
    for _ in range(10):
        got = one.expect(Kind.PUBLISH)
        assert got.topic == name and got.get("topic_alias") is None


def test_topic_aliases_to_a_client_stay_in_its_maximum_and_resolve(dial, client, name):
    """MQTT-3.1.2-26, MQTT-3.3.2-8: whether the server uses them is its own choice."""
    one = dial().open(name, properties=[("topic_alias_maximum", 2)])
    one.subscribe([(f"{name}/#", 0)])
    writer = client()
    for number in range(40):
        writer.publish(f"{name}/{number % 5}", str(number % 5), qos=0)
    known = {}
    for _ in range(40):
        got = one.expect(Kind.PUBLISH)
        alias = got.get("topic_alias")
        assert alias is None or 1 <= alias <= 2
        if alias and got.topic:
            known[alias] = got.topic
        assert (got.topic or known[alias]) == f"{name}/{got.payload.decode()}"


def test_a_packet_over_the_clients_maximum_is_not_sent_to_it(dial, client, name):
    """MQTT-3.1.2-24, MQTT-3.1.2-25: dropped as if it had been sent."""
    one = dial().open(name, properties=[("maximum_packet_size", 200)])
    one.subscribe([(name, 1)])
    other = client()
    other.subscribe(name, 1)
    writer = client()
    writer.publish(name, b"x" * 400)
    writer.publish(name, b"small")
    assert one.expect(Kind.PUBLISH).payload == b"small"
    assert other.payloads(2) == [b"x" * 400, b"small"]


def test_a_packet_over_the_servers_maximum_is_refused_with_0x95(dial, name):
    """MQTT-3.2.2-15 and section 4.13."""
    one = dial().open(name)
    maximum = one.connack.get("maximum_packet_size")
    assert maximum, "the broker names no maximum packet size"
    one.send(bytes([0x30]) + wire.varint(maximum + 1))
    assert one.verdict() == 0x95


def test_a_packet_of_exactly_the_servers_maximum_passes(dial, client, name):
    """MQTT-3.2.2-15: the whole packet counts, fixed header and all."""
    one = dial().open(name)
    maximum = one.connack.get("maximum_packet_size")
    watcher = client()
    watcher.subscribe(name, 0)
    frame = len(wire.publish(name, b"x" * (maximum - 100))) - (maximum - 100)
    one.publish(name, b"x" * (maximum - frame))
    assert len(watcher.receive().payload) == maximum - frame


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 250_000])
def test_a_payload_of_any_size_comes_whole(client, name, size):
    """Section 1.5.5: around the steps of the remaining length, and the papers' largest payload."""
    one = client()
    one.subscribe(name)
    payload = bytes(number % 251 for number in range(size))
    client().publish(name, payload)
    assert one.receive().payload == payload


def test_a_response_topic_with_a_wildcard_ends_the_connection(dial, name):
    """MQTT-3.3.2-14."""
    one = dial().open(name)
    assert one.publish(name, b"x", properties=[("response_topic", f"{name}/#")]).verdict() in (0x81, 0x82, 0x90)


def test_text_that_is_not_utf_8_is_passed_on_or_refused_with_0x99(dial, client, name):
    """Section 3.3.2.3.2: a server may check the payload format that was announced."""
    watcher = client()
    watcher.subscribe(name)
    one = dial().open(name)
    one.publish(name, b"\xff\xfe", qos=1, packet_id=1, properties=[("payload_format_indicator", 1)])
    answer = one.receive()
    assert answer.reason in (0x00, 0x99)
    assert answer.reason or watcher.receive().payload == b"\xff\xfe"
