"""Bytes that the standard forbids, each with what it asks for; other connections never notice.

A row: a name, the bytes, the clause, the reasons of 5.0 that are right (in 3.1.1 the connection just closes).
"""

import contextlib

import pytest

import brokers
import wire
from raw import Closed
from wire import Kind, packet, text, varint

MALFORMED, PROTOCOL = 0x81, 0x82
HEAD = text("MQTT") + bytes([5])


WILL = b"\0" + text("w") + text("m")


def connect_with(flags: int, rest: bytes, level: int = 5, name: str = "MQTT") -> bytes:
    """CONNECT whose flags and rest are the test's own."""
    block = b"\0" if level == 5 else b""
    return packet(Kind.CONNECT, text(name) + bytes([level, flags]) + b"\0\x3c" + block + rest)


def with_properties(kind: Kind, block: bytes, head: bytes = b"", rest: bytes = b"", flags: int = 0) -> bytes:
    """A packet with a property block of the test's own."""
    return packet(kind, head + varint(len(block)) + block + rest, flags)


def twice(name: str, value: object) -> bytes:
    """A property that may be there once, twice."""
    return wire.encode_property(name, value) * 2


def five(*rows: tuple) -> list:
    """Rows as parameters of pytest."""
    return [pytest.param(*row[1:], id=row[0]) for row in rows]


BEFORE_CONNECT = five(
    ("reserved_bit_in_the_connect_flags", connect_with(0x03, text("x")), {MALFORMED, PROTOCOL}, "MQTT-3.1.2-3"),
    ("will_qos_3", connect_with(0x1E, text("x") + WILL), {MALFORMED}, "MQTT-3.1.2-12"),
    ("will_qos_without_a_will", connect_with(0x0A, text("x")), {MALFORMED, PROTOCOL}, "MQTT-3.1.2-11"),
    ("will_retain_without_a_will", connect_with(0x22, text("x")), {MALFORMED, PROTOCOL}, "MQTT-3.1.2-13"),
    ("will_announced_but_absent", connect_with(0x06, text("x")), {MALFORMED}, "MQTT-3.1.3-1"),
    ("user_name_announced_but_absent", connect_with(0x82, text("x")), {MALFORMED}, "MQTT-3.1.2-17"),
    ("user_name_there_but_not_announced", connect_with(0x02, text("x") + text("u")), {MALFORMED}, "MQTT-3.1.2-16"),
    ("protocol_name_unknown", packet(1, text("MQTX") + b"\5\2\0\x3c\0" + text("x")), {0x84, 1}, "MQTT-3.1.2-1"),
    ("client_id_not_utf_8", connect_with(0x02, text(b"\xc3\x28")), {MALFORMED, 0x85}, "MQTT-1.5.4-1"),
    ("client_id_with_nul", connect_with(0x02, text("a\0b")), {MALFORMED, 0x85}, "MQTT-1.5.4-2"),
    ("client_id_with_a_surrogate", connect_with(0x02, text(b"\xed\xa0\x80")), {MALFORMED, 0x85}, "MQTT-1.5.4-1"),
    ("client_id_longer_than_the_packet", connect_with(0x02, b"\xff\xffx"), {MALFORMED}, "1.5.4"),
    ("will_topic_with_a_wildcard", wire.connect("x", will=wire.Will("a/#")), {MALFORMED, PROTOCOL, 0x90}, "3.1.3.3"),
    ("will_topic_with_nul", wire.connect("x", will=wire.Will("a\0b")), {MALFORMED, PROTOCOL, 0x90}, "MQTT-1.5.4-2"),
    ("will_topic_not_utf_8", wire.connect("x", will=wire.Will(b"\xff")), {MALFORMED, 0x90}, "MQTT-3.1.3-11"),
    ("user_name_not_utf_8", connect_with(0x82, text("x") + text(b"\xff")), {MALFORMED, 0x86}, "MQTT-3.1.3-12"),
    ("bytes_after_its_end", connect_with(0x02, text("x") + b"more"), {MALFORMED}, "3.1.3"),
    ("will_topic_empty", wire.connect("x", will=wire.Will("")), {MALFORMED, PROTOCOL, 0x90}, "MQTT-4.7.3-1"),
    ("fixed_header_flags", packet(1, HEAD + b"\2\0\x3c\0" + text("x"), flags=1), {MALFORMED}, "MQTT-2.1.3-1"),
    ("cut_short_in_its_variable_header", packet(1, text("MQTT") + b"\5"), {MALFORMED}, "3.1.2"),
    ("receive_maximum_zero", wire.connect("x", properties=[("receive_maximum", 0)]), {PROTOCOL}, "3.1.2.11.3"),
    ("maximum_packet_size_zero", wire.connect("x", properties=[("maximum_packet_size", 0)]), {PROTOCOL}, "3.1.2.11.4"),
    ("request_problem_information_2", wire.connect("x", properties=[("request_problem_information", 2)]),
     {PROTOCOL}, "3.1.2.11.7"),
    ("request_response_information_2", wire.connect("x", properties=[("request_response_information", 2)]),
     {PROTOCOL}, "3.1.2.11.6"),
    ("session_expiry_twice", with_properties(Kind.CONNECT, twice("session_expiry_interval", 1), HEAD + b"\2\0\x3c",
     text("x")), {PROTOCOL}, "3.1.2.11.2"),
    ("receive_maximum_twice", with_properties(Kind.CONNECT, twice("receive_maximum", 9), HEAD + b"\2\0\x3c",
     text("x")), {PROTOCOL}, "3.1.2.11.3"),
    ("property_of_publish", wire.connect("x", properties=[("topic_alias", 1)]), {PROTOCOL, MALFORMED}, "2.2.2.2"),
    ("property_unknown", with_properties(Kind.CONNECT, b"\x7f\0", HEAD + b"\2\0\x3c", text("x")),
     {MALFORMED, PROTOCOL}, "2.2.2.2"),
    ("property_length_past_the_end", packet(1, HEAD + b"\2\0\x3c\x7f" + text("x")), {MALFORMED}, "2.2.2.1"),
    ("authentication_data_without_a_method", wire.connect("x", properties=[("authentication_data", b"d")]),
     {PROTOCOL}, "3.1.2.11.10"),
    ("auth_before_connect", packet(Kind.AUTH, b"\x18\0"), {None, PROTOCOL}, "MQTT-3.1.0-1"),
    ("packet_type_0", b"\x00\x00", {None, MALFORMED}, "2.1.2"),
    ("http_request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", {None, MALFORMED, PROTOCOL}, "MQTT-3.1.0-1"),
    ("tls_hello", bytes.fromhex("16030100c8010000c40303") + bytes(180), {None, MALFORMED, PROTOCOL}, "MQTT-3.1.0-1"),
    ("remaining_length_of_five_bytes", b"\x10\xff\xff\xff\xff\x01", {MALFORMED}, "1.5.5"),
)  # fmt: skip

AFTER_CONNECT = five(
    ("publish_qos_3", packet(3, text("a") + b"\0\1\0x", 6), {MALFORMED}, "MQTT-3.3.1-4"),
    ("publish_dup_with_qos_0", packet(3, text("a") + b"\0x", 8), {MALFORMED, PROTOCOL}, "MQTT-3.3.1-2"),
    ("publish_packet_id_0", wire.publish("a", b"x", qos=1, packet_id=0), {MALFORMED, PROTOCOL}, "MQTT-2.2.1-3"),
    ("publish_without_its_packet_id", packet(3, text("a"), 2), {MALFORMED}, "MQTT-2.2.1-2"),
    ("publish_topic_with_hash", wire.publish("a/#", b"x"), {MALFORMED, PROTOCOL, 0x90}, "MQTT-3.3.2-2"),
    ("publish_topic_with_plus", wire.publish("a/+/b", b"x"), {MALFORMED, PROTOCOL, 0x90}, "MQTT-3.3.2-2"),
    ("publish_topic_empty_without_alias", wire.publish("", b"x"), {PROTOCOL, 0x90}, "MQTT-4.7.3-1"),
    ("publish_topic_with_nul", wire.publish("a\0b", b"x"), {MALFORMED, 0x90}, "MQTT-1.5.4-2"),
    ("publish_topic_not_utf_8", wire.publish(b"\xff\xfe", b"x"), {MALFORMED, 0x90}, "MQTT-1.5.4-1"),
    ("publish_topic_overlong_utf_8", wire.publish(b"a\xc0\x80", b"x"), {MALFORMED, 0x90}, "MQTT-1.5.4-1"),
    ("publish_topic_with_a_surrogate", wire.publish(b"a\xed\xa0\x80", b"x"), {MALFORMED, 0x90}, "MQTT-1.5.4-1"),
    ("publish_topic_longer_than_the_packet", packet(3, b"\xff\xffa"), {MALFORMED}, "1.5.4"),
    ("publish_empty", packet(3, b""), {MALFORMED}, "3.3.2"),
    ("publish_alias_unknown", wire.publish("", b"x", properties=[("topic_alias", 9)]), {PROTOCOL, 0x94}, "3.3.2.3.4"),
    ("publish_alias_twice", packet(3, text("a") + b"\6" + twice("topic_alias", 1)), {PROTOCOL}, "3.3.2.3.4"),
    ("publish_expiry_twice", packet(3, text("a") + varint(10) + twice("message_expiry_interval", 1)),
     {PROTOCOL}, "3.3.2.3.3"),
    ("publish_with_a_subscription_identifier", wire.publish("a", b"x", properties=[("subscription_identifier", 1)]),
     {PROTOCOL}, "MQTT-3.3.4-6"),
    ("publish_with_a_property_of_connect", wire.publish("a", b"x", properties=[("session_expiry_interval", 1)]),
     {PROTOCOL, MALFORMED}, "2.2.2.2"),
    ("publish_response_topic_with_nul", wire.publish("a", b"x", properties=[("response_topic", "a\0b")]),
     {MALFORMED, PROTOCOL, 0x90}, "MQTT-1.5.4-2"),
    ("publish_payload_format_2", wire.publish("a", b"x", properties=[("payload_format_indicator", 2)]),
     {PROTOCOL, MALFORMED}, "3.3.2.3.2"),
    ("publish_user_property_cut_short", packet(3, text("a") + b"\4\x26\0\1k"), {MALFORMED}, "2.2.2.2"),
    ("publish_property_not_utf_8", wire.publish("a", b"x", properties=[("content_type", b"\xff")]),
     {MALFORMED}, "MQTT-1.5.4-1"),
    ("publish_correlation_twice", packet(3, text("a") + varint(8) + twice("correlation_data", b"x")),
     {PROTOCOL}, "3.3.2.3.6"),
    ("subscribe_flags", packet(8, b"\0\1\0" + text("a") + b"\0", 0), {MALFORMED}, "MQTT-3.8.1-1"),
    ("subscribe_without_a_filter", packet(8, b"\0\1\0", 2), {PROTOCOL, MALFORMED}, "MQTT-3.8.3-2"),
    ("subscribe_packet_id_0", wire.subscribe("a", packet_id=0), {MALFORMED, PROTOCOL}, "MQTT-2.2.1-3"),
    ("subscribe_qos_3", wire.subscribe([("a", 3)]), {PROTOCOL, MALFORMED}, "MQTT-3.8.3-5"),
    ("subscribe_reserved_option_bits", wire.subscribe([("a", 0x40)]), {MALFORMED, PROTOCOL}, "MQTT-3.8.3-5"),
    ("subscribe_retain_handling_3", wire.subscribe([("a", 0x30)]), {PROTOCOL, MALFORMED}, "3.8.3.1"),
    ("subscribe_filter_without_options", packet(8, b"\0\1\0" + text("a"), 2), {MALFORMED}, "3.8.3"),
    ("subscribe_filter_not_utf_8", wire.subscribe([(b"\xff", 0)]), {MALFORMED, 0x8F}, "MQTT-3.8.3-1"),
    ("subscribe_filter_with_nul", wire.subscribe([("a\0b", 0)]), {MALFORMED, 0x8F}, "MQTT-1.5.4-2"),
    ("subscribe_filter_longer_than_the_packet", packet(8, b"\0\1\0\xff\xffa\0", 2), {MALFORMED}, "1.5.4"),
    ("subscribe_cut_short", packet(8, b"\0", 2), {MALFORMED}, "3.8.2"),
    ("subscribe_identifier_0", wire.subscribe("a", properties=[("subscription_identifier", 0)]),
     {PROTOCOL}, "3.8.2.1.2"),
    ("subscribe_identifier_twice", wire.subscribe("a", properties=[("subscription_identifier", 1)] * 2),
     {PROTOCOL}, "3.8.2.1.2"),
    ("unsubscribe_flags", packet(10, b"\0\1\0" + text("a"), 0), {MALFORMED}, "MQTT-3.10.1-1"),
    ("unsubscribe_without_a_filter", packet(10, b"\0\1\0", 2), {PROTOCOL, MALFORMED}, "MQTT-3.10.3-2"),
    ("unsubscribe_packet_id_0", wire.unsubscribe(["a"], packet_id=0), {MALFORMED, PROTOCOL}, "MQTT-2.2.1-3"),
    ("unsubscribe_filter_with_nul", wire.unsubscribe(["a\0b"], packet_id=1), {MALFORMED, 0x8F}, "MQTT-1.5.4-2"),
    ("unsubscribe_filter_not_utf_8", packet(10, b"\0\1\0" + text(b"\xff"), 2), {MALFORMED, 0x8F}, "MQTT-3.10.3-1"),
    ("pubrel_flags", packet(6, b"\0\1", 0), {MALFORMED}, "MQTT-3.6.1-1"),
    ("pubrel_packet_id_0", packet(6, b"\0\0", 2), {MALFORMED, PROTOCOL}, "MQTT-2.2.1-3"),
    ("pubrel_cut_short", packet(6, b"\1", 2), {MALFORMED}, "3.6.2"),
    ("pubrec_flags", packet(5, b"\0\1", 2), {MALFORMED}, "MQTT-2.1.3-1"),
    ("pubrec_packet_id_0", packet(5, b"\0\0"), {MALFORMED, PROTOCOL}, "MQTT-2.2.1-3"),
    ("pubcomp_flags", packet(7, b"\0\1", 2), {MALFORMED}, "MQTT-2.1.3-1"),
    ("pubcomp_packet_id_0", packet(7, b"\0\0"), {MALFORMED, PROTOCOL}, "MQTT-2.2.1-3"),
    ("puback_properties_past_the_end", packet(4, b"\0\1\0\7"), {MALFORMED}, "2.2.2.1"),
    ("puback_flags", packet(4, b"\0\1", 2), {MALFORMED}, "MQTT-2.1.3-1"),
    ("puback_packet_id_0", packet(4, b"\0\0"), {MALFORMED, PROTOCOL}, "MQTT-2.2.1-3"),
    ("puback_cut_short", packet(4, b"\1"), {MALFORMED}, "3.4.2"),
    ("puback_with_an_unknown_reason", packet(4, b"\0\1\x42"), {MALFORMED, PROTOCOL}, "MQTT-3.4.2-1"),
    ("pingreq_flags", packet(12, b"", 1), {MALFORMED}, "MQTT-2.1.3-1"),
    ("pingreq_with_a_body", packet(12, b"x"), {MALFORMED}, "3.12.3"),
    ("disconnect_flags", packet(14, b"", 1), {MALFORMED}, "MQTT-3.14.1-1"),
    ("disconnect_with_an_unknown_reason", packet(14, b"\x42"), {MALFORMED, PROTOCOL, None}, "MQTT-3.14.2-1"),
    ("auth_without_a_method", packet(15, b"\x19\0"), {PROTOCOL}, "MQTT-4.12.1-1"),
    ("auth_flags", packet(15, b"\x18\0", 1), {MALFORMED}, "MQTT-3.15.1-1"),
    ("connack_from_a_client", packet(2, b"\0\0\0"), {PROTOCOL}, "2.1.2"),
    ("suback_from_a_client", packet(9, b"\0\1\0\0"), {PROTOCOL}, "2.1.2"),
    ("unsuback_from_a_client", packet(11, b"\0\1\0\0"), {PROTOCOL}, "2.1.2"),
    ("pingresp_from_a_client", packet(13), {PROTOCOL}, "2.1.2"),
    ("packet_type_0", b"\x00\x00", {MALFORMED, PROTOCOL}, "2.1.2"),
    ("remaining_length_of_five_bytes", b"\x30\xff\xff\xff\xff\x01", {MALFORMED}, "1.5.5"),
)  # fmt: skip

AFTER_CONNECT_3 = five(
    ("publish_qos_3", packet(3, text("a") + b"\0\1x", 6), "MQTT-3.3.1-4"),
    ("publish_packet_id_0", wire.publish("a", b"x", 4, qos=1, packet_id=0), "MQTT-2.3.1-1"),
    ("publish_topic_with_hash", wire.publish("a/#", b"x", 4), "MQTT-3.3.2-2"),
    ("publish_topic_empty", wire.publish("", b"x", 4), "MQTT-4.7.3-1"),
    ("publish_topic_with_nul", wire.publish("a\0b", b"x", 4), "MQTT-1.5.3-2"),
    ("publish_topic_not_utf_8", wire.publish(b"\xff", b"x", 4), "MQTT-1.5.3-1"),
    ("publish_cut_short", packet(3, b"\0\5ab"), "3.3.2"),
    ("publish_empty", packet(3, b""), "3.3.2"),
    ("publish_without_its_packet_id", packet(3, text("a"), 2), "MQTT-2.3.1-1"),
    ("publish_topic_with_plus", wire.publish("a/+", b"x", 4), "MQTT-3.3.2-2"),
    ("subscribe_flags", packet(8, b"\0\1" + text("a") + b"\0", 0), "MQTT-3.8.1-1"),
    ("subscribe_without_a_filter", packet(8, b"\0\1", 2), "MQTT-3.8.3-3"),
    ("subscribe_qos_3", wire.subscribe([("a", 3)], 4), "MQTT-3-8.3-4"),
    ("subscribe_options_of_5_0", wire.subscribe([("a", 0x04)], 4), "MQTT-3-8.3-4"),
    ("subscribe_packet_id_0", wire.subscribe("a", 4, packet_id=0), "MQTT-2.3.1-1"),
    ("subscribe_filter_with_nul", wire.subscribe([("a\0b", 0)], 4), "MQTT-1.5.3-2"),
    ("subscribe_filter_not_utf_8", wire.subscribe([(b"\xff", 0)], 4), "MQTT-3.8.3-1"),
    ("subscribe_filter_empty", wire.subscribe([("", 0)], 4), "MQTT-4.7.3-1"),
    ("subscribe_cut_short", packet(8, b"\0\1\0\5a", 2), "3.8.3"),
    ("unsubscribe_flags", packet(10, b"\0\1" + text("a"), 0), "MQTT-3.10.1-1"),
    ("unsubscribe_without_a_filter", packet(10, b"\0\1", 2), "MQTT-3.10.3-2"),
    ("pubrel_flags", packet(6, b"\0\1", 0), "MQTT-3.6.1-1"),
    ("pubrel_cut_short", packet(6, b"\1", 2), "3.6.2"),
    ("puback_flags", packet(4, b"\0\1", 2), "MQTT-2.2.2-2"),
    ("puback_cut_short", packet(4, b"\1"), "3.4.2"),
    ("puback_with_a_reason_of_5_0", packet(4, b"\0\1\0"), "3.4.2"),
    ("pubrec_flags", packet(5, b"\0\1", 2), "MQTT-2.2.2-2"),
    ("pubcomp_flags", packet(7, b"\0\1", 2), "MQTT-2.2.2-2"),
    ("pingreq_flags", packet(12, b"", 1), "MQTT-2.2.2-2"),
    ("pingreq_with_a_body", packet(12, b"x"), "3.12"),
    ("disconnect_flags", packet(14, b"", 1), "MQTT-3.14.1-1"),
    ("disconnect_with_a_reason_of_5_0", packet(14, b"\0"), "3.14"),
    ("connack_from_a_client", packet(2, b"\0\0"), "2.2.1"),
    ("suback_from_a_client", packet(9, b"\0\1\0"), "2.2.1"),
    ("unsuback_from_a_client", packet(11, b"\0\1"), "2.2.1"),
    ("pingresp_from_a_client", packet(13), "2.2.1"),
    ("remaining_length_of_five_bytes", b"\x30\xff\xff\xff\xff\x01", "2.2.3"),
    ("auth_which_3_1_1_lacks", packet(15, b"\x18\0"), "2.2.1"),
    ("second_connect", wire.connect("x", 4), "MQTT-3.1.0-2"),
    ("packet_type_0", b"\x00\x00", "2.2.1"),
)

BEFORE_CONNECT_3 = five(
    ("reserved_bit_in_the_connect_flags", connect_with(0x03, text("x"), 4), "MQTT-3.1.2-3"),
    ("will_qos_3", connect_with(0x1E, text("x") + WILL[1:], 4), "MQTT-3.1.2-14"),
    ("will_qos_without_a_will", connect_with(0x0A, text("x"), 4), "MQTT-3.1.2-13"),
    ("will_retain_without_a_will", connect_with(0x22, text("x"), 4), "MQTT-3.1.2-15"),
    ("will_announced_but_absent", connect_with(0x06, text("x"), 4), "MQTT-3.1.3-1"),
    ("will_topic_with_nul", connect_with(0x06, text("x") + text("a\0b") + text("m"), 4), "MQTT-1.5.3-2"),
    ("will_topic_not_utf_8", connect_with(0x06, text("x") + text(b"\xff") + text("m"), 4), "MQTT-3.1.3-10"),
    ("user_name_announced_but_absent", connect_with(0x82, text("x"), 4), "MQTT-3.1.2-19"),
    ("user_name_not_utf_8", connect_with(0x82, text("x") + text(b"\xff"), 4), "MQTT-3.1.3-11"),
    ("user_name_there_but_not_announced", connect_with(0x02, text("x") + text("u"), 4), "MQTT-3.1.2-18"),
    ("password_without_a_user_name", connect_with(0x42, text("x") + text("p"), 4), "MQTT-3.1.2-22"),
    ("client_id_not_utf_8", connect_with(0x02, text(b"\xc3\x28"), 4), "MQTT-3.1.3-4"),
    ("client_id_with_nul", connect_with(0x02, text("a\0b"), 4), "MQTT-1.5.3-2"),
    ("client_id_longer_than_the_packet", connect_with(0x02, b"\xff\xffx", 4), "1.5.3"),
    ("client_id_absent", connect_with(0x02, b"", 4), "MQTT-3.1.3-3"),
)  # fmt: skip


@pytest.fixture
def bystander(client, name):
    """Another client, which must hear itself after all is over."""
    other = client()
    other.subscribe(f"{name}/bystander", 1)
    yield other
    other.publish(f"{name}/bystander", b"unharmed")
    assert other.receive().payload == b"unharmed"


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(("sent", "reasons", "clause"), BEFORE_CONNECT)
def test_before_connect_it_closes_the_connection(dial, sent, reasons, clause):
    """Section 4.13: a CONNACK with the reason, except where nothing tells that the other side speaks MQTT 5.0."""
    may_be_silent = {None} if brokers.NAME == "mosquitto" else set()
    assert dial().send(sent).verdict() in reasons | may_be_silent, clause


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(("sent", "clause"), BEFORE_CONNECT_3)
def test_before_connect_of_3_1_1_it_closes_the_connection(dial, sent, clause):
    """MQTT-3.1.4-1 and MQTT-3.2.2-6 of 3.1.1: without a CONNACK, where none of its codes says what is wrong."""
    assert dial(4).send(sent).verdict() in (None, 1, 2), clause


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(("sent", "reasons", "clause"), AFTER_CONNECT)
def test_in_5_0_it_closes_the_connection_and_says_why(dial, name, sent, reasons, clause):
    """Section 4.13: DISCONNECT with the reason."""
    assert dial().open(name).send(sent).verdict() in reasons, clause


@pytest.mark.usefixtures("bystander")
@pytest.mark.parametrize(("sent", "clause"), AFTER_CONNECT_3)
def test_in_3_1_1_it_closes_the_connection(dial, name, sent, clause):
    """MQTT-4.8.0-1 of 3.1.1."""
    assert dial(4).open(name).send(sent).verdict() is None, clause


def test_a_packet_split_anywhere_is_as_good_as_whole(dial, client, name):
    """Section 4.2: no boundary of a segment means anything."""
    watcher = client()
    watcher.subscribe(name)
    whole = wire.publish(name, b"x", qos=1, packet_id=1, properties=[("user_property", ("k", "v"))])
    one = dial().open(name)
    for cut in range(1, len(whole)):
        one.send(whole[:cut])
        one.send(whole[cut:])
        assert one.expect(Kind.PUBACK).packet_id == 1
        assert watcher.receive().payload == b"x"


def test_many_packets_in_one_segment_are_all_answered(dial, name):
    """Section 4.2."""
    one = dial().open(name)
    one.send(*[wire.PINGREQ] * 500, *(wire.subscribe(f"{name}/{n}", packet_id=n) for n in range(1, 101)))
    for _ in range(500):
        one.expect(Kind.PINGRESP)
    assert [one.expect(Kind.SUBACK).packet_id for _ in range(100)] == list(range(1, 101))


def test_a_remaining_length_in_more_bytes_than_it_needs_is_understood_or_refused(dial, name, client):
    """MQTT-1.5.5-1: the sender must use the fewest bytes; the receiver may be lenient, but must not hang."""
    one = dial().open(name)
    one.send(bytes([0xC0, 0x80, 0x00]))
    with contextlib.suppress(Closed):
        assert one.receive().kind in (Kind.PINGRESP, Kind.DISCONNECT)
    client().nothing_arrives()
