"""CONNECT, CONNACK, keep alive: sections 3.1, 3.2, 3.12 and 4.1 of MQTT 5.0."""

import time

import pytest

import credentials
import wire
from raw import Closed
from wire import Kind


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_client_of_every_version_connects_publishes_and_receives(client, name, version):
    """MQTT-3.1.2-2; 3.1 is still spoken by devices in the field."""
    one = client(name, version)
    one.subscribe(f"{name}/x", 1)
    one.publish(f"{name}/x", b"hello", qos=1)
    assert one.receive().payload == b"hello"


def test_a_version_that_does_not_exist_is_refused_with_the_code_of_its_connack(dial):
    """MQTT-3.1.2-2: 0x84 in 5.0, 0x01 in 3.1.1; which of them a client of version 6 reads, nobody can know."""
    bytes_of_version_6 = wire.packet(Kind.CONNECT, wire.text("MQTT") + bytes([6, 2, 0, 60, 0]) + wire.text("x"))
    assert dial(5).send(bytes_of_version_6).verdict() in (0x01, 0x84)


def test_an_old_protocol_name_with_a_new_level_is_refused(dial):
    """MQTT-3.1.2-1: name and level have to agree."""
    mixed = wire.packet(Kind.CONNECT, wire.text("MQIsdp") + bytes([4, 2, 0, 60]) + wire.text("x"))
    dial(4).send(mixed).verdict()


@pytest.mark.parametrize("version", [4, 5])
def test_an_empty_client_id_with_a_clean_start_gets_one_assigned(dial, version):
    """MQTT-3.1.3-6, MQTT-3.1.3-7, MQTT-3.2.2-16."""
    one, other = dial(version).open(""), dial(version).open("")
    one.ping()
    other.ping()
    if version == 5:
        ids = {one.connack.get("assigned_client_identifier"), other.connack.get("assigned_client_identifier")}
        assert len(ids) == 2 and all(ids)


def test_in_3_1_1_an_empty_client_id_without_a_clean_session_is_refused_with_2(dial):
    """MQTT-3.1.3-8 of 3.1.1."""
    assert dial(4).send(wire.connect("", 4, clean=False)).verdict() == 2


def test_an_assigned_client_id_names_a_session_that_can_be_resumed(dial):
    """MQTT-3.2.2-16."""
    one = dial().open("", clean=True, properties=[("session_expiry_interval", 60)])
    given = one.connack.get("assigned_client_identifier")
    one.leave()
    assert dial().open(given, clean=False, properties=[("session_expiry_interval", 60)]).connack.session_present


def test_a_client_id_of_any_printable_unicode_is_taken(client, name):
    """MQTT-3.1.3-4."""
    one = client(f"{name}-Zähler №7 水位")
    one.subscribe(name, 0)
    one.publish(name, b"here", qos=0)
    assert one.receive().payload == b"here"


def test_the_first_packet_must_be_a_connect(dial):
    """MQTT-3.1.0-1."""
    for first in (wire.PINGREQ, wire.publish("a", b"b"), wire.subscribe("a")):
        dial().send(first).verdict()


def test_a_second_connect_ends_the_connection(dial, name):
    """MQTT-3.1.0-2."""
    one = dial().open(name)
    assert one.send(wire.connect(name)).verdict() in (None, 0x82)


def test_a_client_may_send_before_it_has_its_connack(dial, name):
    """Section 3.1.4, non-normative comment: clients need not wait for CONNACK."""
    one = dial().send(wire.connect(name), wire.subscribe(name), wire.publish(name, b"early", qos=0))
    assert one.expect(Kind.CONNACK).reason == 0
    got = {packet.kind: packet.payload for packet in (one.receive(), one.receive())}
    assert got == {Kind.SUBACK: b"", Kind.PUBLISH: b"early"}


def test_a_packet_that_comes_in_single_bytes_is_understood(dial, name):
    """Section 4.2: the transport is a stream of bytes."""
    one = dial()
    for byte in wire.connect(name) + wire.subscribe(name):
        one.send(bytes([byte]))
    one.expect(Kind.CONNACK)
    one.expect(Kind.SUBACK)


def test_a_client_that_is_silent_for_one_and_a_half_keep_alives_is_closed(dial, name):
    """MQTT-3.1.2-22; 5.0 may say 0x8D."""
    one = dial().open(name, keep_alive=1)
    since = time.monotonic()
    assert one.verdict() in (None, 0x8D)
    assert time.monotonic() - since >= 1.4


def test_any_packet_keeps_a_client_alive(dial, name):
    """MQTT-3.1.2-20: PINGREQ is needed only where nothing else is sent."""
    one = dial().open(name, keep_alive=1)
    one.subscribe(name)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        one.publish(name, b"alive", qos=0)
        one.expect(Kind.PUBLISH)
        time.sleep(0.5)  # The rhythm of the client, not a wait for the broker.
    one.ping()


def test_what_the_server_sends_does_not_keep_a_client_alive(dial, client, name):
    """MQTT-3.1.2-22 counts packets from the client."""
    one = dial().open(name, keep_alive=1)
    one.subscribe([(name, 0)])
    other = client()
    until = time.monotonic() + 8
    while time.monotonic() < until:
        other.publish(name, b"noise", qos=0)
        try:
            if one.receive(0.3).kind == Kind.DISCONNECT:
                return
        except Closed:
            return
        except TimeoutError:
            continue
    pytest.fail("a client of keep alive 1 s was silent for 8 s and still connected")


def test_keep_alive_zero_never_closes(dial, name):
    """Section 3.1.2.10: zero turns the mechanism off."""
    one = dial().open(name, keep_alive=0)
    with pytest.raises(TimeoutError):
        one.receive(2.5)
    one.ping()


def test_a_connack_names_no_limit_below_those_of_an_ordinary_client(dial, name):
    """Section 3.2.2.3: retained messages, wildcards, identifiers and shared subscriptions are all available."""
    answer = dial().open(name).connack
    assert answer.get("maximum_qos", 2) == 2
    for ability in ("retain", "wildcard_subscription", "subscription_identifier", "shared_subscription"):
        assert answer.get(f"{ability}_available", 1) == 1


def test_a_password_without_a_user_name_passes_in_5_0_only(dial, name):
    """MQTT-3.1.2-22 of 3.1.1 forbids it; section 3.1.2.9 of 5.0 allows it."""
    dial(4).send(wire.connect(name, 4, password=b"secret")).verdict()
    answer = dial(5).send(wire.connect(name, 5, password=b"secret")).expect(Kind.CONNACK)
    assert answer.reason in (0, 0x86, 0x87)


def test_an_unknown_authentication_method_is_refused_with_0x8c(dial, name):
    """MQTT-4.12.0-1."""
    method = [("authentication_method", "NO-SUCH-METHOD")]
    assert dial().send(wire.connect(name, properties=method)).verdict() == 0x8C


def test_response_information_comes_only_where_it_was_asked_for(dial, name):
    """MQTT-3.1.2-28. A client that may publish anywhere needs none."""
    assert dial().open(name).connack.get("response_information") is None
    dial().open(name, properties=[("request_response_information", 1)]).ping()


@pytest.mark.contract
@pytest.mark.needs("device", "app")
@pytest.mark.parametrize("kind", ["device", "app"])
def test_response_information_names_topics_where_its_client_is_answered(start, dial, kind):
    """Section 4.10.1: what it was told it may subscribe to, and is answered there."""
    own = start(anonymous=False)
    device, app = credentials.add(own, "device", "one"), credentials.add(own, "app", "dash")
    account = device if kind == "device" else app
    login = {"user": account.user, "password": account.password.encode()}
    assert dial(to=own).open("silent", **login).connack.get("response_information") is None
    asker = dial(to=own).open("asker", **login, properties=[("request_response_information", 1)])
    topic = asker.connack.get("response_information")
    assert topic == f"{kind}s/{account.user}/responses"
    assert asker.subscribe([(f"{topic}/#", 1)]) == [1]
    request = [("response_topic", f"{topic}/7"), ("correlation_data", b"7")]
    asker.publish("devices/one/twin/get", properties=request)
    answer = asker.expect(Kind.PUBLISH)
    assert (answer.topic, answer.get("correlation_data")) == (f"{topic}/7", b"7")


def test_reason_strings_and_user_properties_stay_away_where_they_were_not_wanted(dial, name):
    """MQTT-3.1.2-29."""
    one = dial().open(name, properties=[("request_problem_information", 0)])
    one.send(wire.subscribe([("$share/g/#/x", 0)], packet_id=9))
    for answer in iter(lambda: quiet(one), None):
        if answer.kind not in (Kind.PUBLISH, Kind.CONNACK, Kind.DISCONNECT):
            assert not answer.all("reason_string") and not answer.all("user_property")


def quiet(connection):
    """The next packet, or nothing where the server closed or had its say."""
    try:
        return connection.receive(0.5)
    except (Closed, TimeoutError):
        return None
