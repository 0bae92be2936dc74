"""Method calls to devices over MQTT: never stored, answered in time by the device or by the hub."""

import json
import time

import pytest

pytestmark = pytest.mark.contract


def call(app, device: str, number: str, payload: object = b"{}", **extra: object) -> None:
    """Calls the method `stop`."""
    app.publish(f"devices/{device}/methods/stop/{number}", payload, **extra)


@pytest.fixture
def app(client, name):
    """An application that hears all results of its device."""
    one = client(f"{name}-app")
    one.subscribe(f"devices/{name}/methods/+/+/result")
    return one


@pytest.fixture
def device(client, name):
    """A device that is there and listens for calls."""
    one = client(name)
    one.subscribe(f"devices/{name}/methods/+/+")
    return one


def test_a_call_reaches_the_device_and_its_result_the_caller(app, device, name):
    """Contract of `methods/{name}/{call}`; payloads are opaque."""
    call(app, name, "1", b"\x00\xffopaque")
    got = device.receive()
    assert (got.topic, got.payload, got.retain) == (f"devices/{name}/methods/stop/1", b"\x00\xffopaque", False)
    device.publish(f"{got.topic}/result", json.dumps({"status": 200, "payload": "done"}))
    answer = app.receive()
    assert answer.topic == f"devices/{name}/methods/stop/1/result"
    assert json.loads(answer.payload) == {"status": 200, "payload": "done"}


def test_a_call_to_a_device_that_is_away_is_answered_404_at_once(app, name):
    """A call is never stored: the hub itself answers."""
    since = time.monotonic()
    call(app, name, "1")
    answer = app.receive()
    assert json.loads(answer.payload)["status"] == 404
    assert time.monotonic() - since < 3


def test_a_call_is_not_waiting_for_a_device_that_comes_later(app, client, name):
    """Never stored, not even for a session that is kept."""
    kept = {"clean": False, "SessionExpiryInterval": 60}
    one = client(name, **kept)
    one.subscribe(f"devices/{name}/methods/+/+")
    one.disconnect()
    call(app, name, "1")
    assert json.loads(app.receive().payload)["status"] == 404
    client(name, **kept).nothing_arrives()


def test_a_call_that_is_not_answered_in_its_time_is_answered_504(app, device, name):
    """The time is the call's message expiry interval, 5 s by default."""
    call(app, name, "1", MessageExpiryInterval=1)
    device.receive()
    answer = app.receive()
    assert json.loads(answer.payload)["status"] == 504


def test_a_late_result_is_dropped(app, device, name):
    """After its 504 a call is over."""
    call(app, name, "1", MessageExpiryInterval=1)
    got = device.receive()
    assert json.loads(app.receive().payload)["status"] == 504
    device.publish(f"{got.topic}/result", b'{"status": 200}')
    app.nothing_arrives()


def test_an_id_may_be_used_again_once_it_was_answered(app, device, name):
    """Contract of the call's id."""
    for payload in ("first", "second"):
        call(app, name, "1", payload)
        got = device.receive()
        assert got.payload == payload.encode()
        device.publish(f"{got.topic}/result", f'{{"status": 200, "payload": "{payload}"}}')
        assert json.loads(app.receive().payload)["payload"] == payload


def test_an_id_in_use_is_answered_409(app, device, name):
    """Two calls of one id cannot be told apart."""
    call(app, name, "1")
    device.receive()
    call(app, name, "1")
    assert json.loads(app.receive().payload)["status"] == 409


def test_a_call_of_mqtt_5_is_answered_on_its_response_topic(app, device, client, name):
    """Section 4.10: response topic and correlation data come back with the result."""
    asking = client()
    asking.subscribe(f"apps/{name}/answers")
    call(asking, name, "1", ResponseTopic=f"apps/{name}/answers", CorrelationData=b"\x07")
    got = device.receive()
    device.publish(f"{got.topic}/result", b'{"status": 200, "payload": 1}')
    answer = asking.receive()
    assert (answer.properties.CorrelationData, json.loads(answer.payload)["status"]) == (b"\x07", 200)


def test_calls_to_one_device_come_in_their_order(app, device, name):
    """MQTT-4.6.0-6."""
    for number in range(50):
        call(app, name, str(number), str(number))
    assert device.payloads(50) == [str(number).encode() for number in range(50)]


def test_a_result_to_nobody_is_dropped(app, device, name):
    """A device cannot invent answers."""
    device.publish(f"devices/{name}/methods/stop/99/result", b'{"status": 200}')
    app.nothing_arrives()


def test_a_call_works_from_3_1_1_to_3_1_1(client, name):
    """No property of 5.0 is needed."""
    one, other = client(f"{name}-app", 4), client(name, 4)
    one.subscribe(f"devices/{name}/methods/+/+/result", 1)
    other.subscribe(f"devices/{name}/methods/+/+", 1)
    call(one, name, "1")
    other.publish(f"{other.receive().topic}/result", b'{"status": 200}')
    assert json.loads(one.receive().payload) == {"status": 200}
