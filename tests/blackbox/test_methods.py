"""Method calls to devices over MQTT: never stored, answered in time by the device or by the hub."""

import json
import time

import pytest

import wire
from credentials import add
from wire import Kind

pytestmark = pytest.mark.contract
NOT_AUTHORIZED = 0x87


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


@pytest.fixture
def guarded(start):
    """A broker that lets nobody in without credentials."""
    return start(anonymous=False)


@pytest.fixture
def enter(guarded, dial):
    """Opens a connection of a device or app that is made for it."""

    def enter_one(kind: str, name: str, version: int = 5):
        account = add(guarded, kind, name)
        return dial(version, to=guarded).open(name, user=account.user, password=account.password.encode())

    return enter_one


FORBIDDEN = [
    "apps/other/alarm",
    "apps/other",
    "$SYS/broker/version",
    "devices/p7/telemetry",
    "devices/p7/twin/desired",
    "devices/p7/methods/start/1",
]


@pytest.mark.parametrize("request_topic", ["methods/stop/1", "twin/get", "twin/desired/set"])
def test_an_app_is_not_answered_where_it_may_not_publish(enter, request_topic):
    """Contract of access: a Response Topic gives nobody a right that it has not."""
    app, device, watcher = enter("app", "dash"), enter("device", "p7"), enter("app", "watcher")
    device.subscribe([("devices/p7/methods/+/+", 1)])
    watcher.subscribe([("apps/#", 1), ("devices/p7/telemetry", 1), ("devices/p7/twin/desired", 1)])
    for packet_id, topic in enumerate(FORBIDDEN, 1):
        wanted = [("response_topic", topic)]
        app.publish(f"devices/p7/{request_topic}", b"{}", qos=1, packet_id=packet_id, properties=wanted)
        assert app.expect(Kind.PUBACK).reason == NOT_AUTHORIZED, topic
    device.ping()
    watcher.ping()


@pytest.mark.parametrize("topic", ["devices/p7/twin/desired", "devices/p7/twin/desired/set/result", "$SYS/x"])
def test_nobody_at_all_is_answered_where_the_hub_alone_speaks(dial, topic):
    """Not even where no credentials are asked for."""
    one = dial().open("")
    one.publish("devices/p7/methods/stop/1", b"", qos=1, packet_id=1, properties=[("response_topic", topic)])
    assert one.expect(Kind.PUBACK).reason == NOT_AUTHORIZED


def test_the_call_says_where_its_result_belongs(app, device, client, name):
    """Section 4.10: the device finds the result's topic as Response Topic, whatever the caller's own is."""
    for number, extra in [("1", {}), ("2", {"ResponseTopic": f"apps/{name}/answers", "CorrelationData": b"\x07"})]:
        call(app, name, number, **extra)
        got = device.receive()
        assert got.properties.ResponseTopic == f"devices/{name}/methods/stop/{number}/result"
        assert getattr(got.properties, "CorrelationData", b"") == extra.get("CorrelationData", b"")
        device.publish(got.properties.ResponseTopic, b'{"status": 200}')
        assert json.loads(app.receive().payload)["status"] == 200


def test_a_caller_may_name_the_result_topic_as_its_response_topic(enter):
    """It is answered there anyway, and once."""
    app, device = enter("app", "dash"), enter("device", "p7")
    app.subscribe([("devices/p7/methods/+/+/result", 0)])
    device.subscribe([("devices/p7/methods/+/+", 0)])
    topic = "devices/p7/methods/stop/1"
    app.publish(topic, properties=[("response_topic", f"{topic}/result")])
    device.expect(Kind.PUBLISH)
    device.publish(f"{topic}/result", b"{}")
    assert app.expect(Kind.PUBLISH).topic == f"{topic}/result"
    app.ping()


def test_a_device_that_does_not_listen_is_not_called_absent(enter):
    """The 404 says which of the two it is."""
    app = enter("app", "dash")
    app.subscribe([("devices/p7/methods/+/+/result", 0)])

    def why() -> str:
        app.publish("devices/p7/methods/stop/1")
        answer = json.loads(app.expect(Kind.PUBLISH).payload)
        assert answer["status"] == 404
        return answer["payload"]["message"]

    assert why() == "p7 is not connected"
    device = enter("device", "p7")
    assert why() == "p7 is connected but has not subscribed to devices/p7/methods/+/+"
    device.leave()
    assert why() == "p7 is not connected"


def test_a_watcher_with_credentials_is_not_taken_for_the_device(start, dial):
    """Where devices may come without credentials, an app that hears the calls is none."""
    own = start()
    account = add(own, "app", "watcher")
    watcher = dial(to=own).open("w", user=account.user, password=account.password.encode())
    watcher.subscribe([("devices/#", 0)])
    caller = dial(to=own).open("")
    caller.subscribe([("devices/p7/methods/+/+/result", 0)])
    caller.publish("devices/p7/methods/stop/1")
    assert json.loads(caller.expect(Kind.PUBLISH).payload)["status"] == 404


def test_a_call_beyond_the_limit_says_so_on_the_command_line_too(guarded, enter):
    """429 with the limit, not a hub without an answer."""
    app, device = enter("app", "dash"), enter("device", "p7")
    device.subscribe([("devices/p7/methods/+/+", 0)])
    longer = [("message_expiry_interval", 600)]
    for round_ in range(100):
        calls = (f"devices/p7/methods/stop/{round_}-{number}" for number in range(100))
        app.send(*(wire.publish(topic, properties=longer) for topic in calls)).ping()
        for _ in range(100):
            device.expect(Kind.PUBLISH)
    one_more = guarded.run("call", "p7", "stop", check=False)
    assert one_more.returncode == 1 and "10000 calls are waiting" in one_more.stderr


def refusal(app, device: str, call: str = "1", **options: object) -> tuple[int, dict]:
    """What the PUBACK of a call says, and the answer."""
    app.publish(f"devices/{device}/methods/stop/{call}", qos=1, packet_id=1, **options)
    got = {one.kind: one for one in (app.receive(), app.receive())}
    return got[Kind.PUBACK].reason, json.loads(got[Kind.PUBLISH].payload)


def test_a_call_that_would_wait_too_long_is_refused(enter):
    """600 s are the longest; the device does not hear of it."""
    app, device = enter("app", "dash"), enter("device", "p7")
    app.subscribe([("devices/p7/methods/+/+/result", 0)])
    device.subscribe([("devices/p7/methods/+/+", 0)])
    for seconds in (601, 0xFFFF_FFFF):
        reason, answer = refusal(app, "p7", properties=[("message_expiry_interval", seconds)])
        assert (reason, answer["status"]) == (0x83, 400)
        assert answer["payload"]["message"] == f"the call would wait {seconds} s for its result; at most 600 s"
    device.ping()
    app.publish("devices/p7/methods/stop/1", properties=[("message_expiry_interval", 600)])
    device.expect(Kind.PUBLISH)


@pytest.mark.parametrize("call", ["no id", "größe", "-1", "x" * 129])
def test_a_call_whose_id_is_none_is_refused(enter, call):
    """Letters, digits and four others, 128 at most: what is kept of a call is bounded."""
    app, device = enter("app", "dash"), enter("device", "p7")
    app.subscribe([("devices/p7/methods/+/+/result", 0)])
    device.subscribe([("devices/p7/methods/+/+", 0)])
    reason, answer = refusal(app, "p7", call)
    assert (reason, answer["status"]) == (0x90, 400)
    assert answer["payload"]["message"].startswith("the id of the call: an id ")
    device.ping()


def test_a_call_with_too_much_correlation_data_is_refused(enter):
    """1,024 bytes of it are kept until the result comes."""
    app, device = enter("app", "dash"), enter("device", "p7")
    app.subscribe([("devices/p7/methods/+/+/result", 0)])
    device.subscribe([("devices/p7/methods/+/+", 0)])
    reason, answer = refusal(app, "p7", properties=[("correlation_data", bytes(1_025))])
    assert (reason, answer["status"]) == (0x83, 413)
    device.ping()
    app.publish("devices/p7/methods/stop/1", properties=[("correlation_data", bytes(1_024))])
    device.expect(Kind.PUBLISH)


def leave_no_room(app, device) -> list[tuple[str, object]]:
    """Makes calls until 16 MiB of response topics are kept of them; the properties of one more."""
    properties = [("response_topic", "apps/dash/" + "x" * 64_990), ("message_expiry_interval", 600)]
    for number in range(16 * 1024 * 1024 // len(f"{properties[0][1]}p7stop100")):
        app.publish(f"devices/p7/methods/stop/{number}", properties=properties)
        device.expect(Kind.PUBLISH)
    return properties


def test_what_is_kept_of_the_calls_that_wait_is_bounded(enter):
    """16 MiB of response topics and the like; what is answered makes room again."""
    app, device = enter("app", "dash"), enter("device", "p7")
    app.subscribe([("devices/p7/methods/+/+/result", 0)])
    device.subscribe([("devices/p7/methods/+/+", 0)])
    properties = leave_no_room(app, device)
    for _ in range(2):
        reason, answer = refusal(app, "p7", "more", properties=properties)
        assert (reason, answer["status"]) == (0x97, 429)
    device.publish("devices/p7/methods/stop/0/result", b"{}")
    app.expect(Kind.PUBLISH)
    app.publish("devices/p7/methods/stop/more", properties=properties)
    assert device.expect(Kind.PUBLISH).topic == "devices/p7/methods/stop/more"


def test_a_call_that_there_is_no_room_for_costs_an_old_client_its_connection_no_more(enter):
    """It has its answer, 429, and with the connection it would lose those of all its other calls."""
    app, device = enter("app", "dash"), enter("device", "p7")
    old = enter("app", "old", version=4)
    old.subscribe([("devices/p7/methods/+/more/result", 0)])
    device.subscribe([("devices/p7/methods/+/+", 0)])
    leave_no_room(app, device)
    for number in range(1_200):
        old.publish(f"devices/p7/methods/s/{number}")
    old.publish("devices/p7/methods/stop/more", qos=1, packet_id=1)
    got = {one.kind: one for one in (old.receive(), old.receive())}
    assert json.loads(got[Kind.PUBLISH].payload)["status"] == 429
    assert Kind.PUBACK in got
    old.ping()


def test_an_id_in_use_costs_an_old_client_its_connection_no_more(dial):
    """3.1.1 has no reason code: it is answered 409, and would gain nothing by coming back."""
    app, device = dial(4).open("app"), dial(4).open("p409")
    app.subscribe([("devices/p409/methods/+/+/result", 0)])
    device.subscribe([("devices/p409/methods/+/+", 0)])
    app.publish("devices/p409/methods/stop/1")
    device.expect(Kind.PUBLISH)
    app.publish("devices/p409/methods/stop/1", qos=1, packet_id=1)
    kinds = {one.kind: one for one in (app.receive(), app.receive())}
    assert json.loads(kinds[Kind.PUBLISH].payload)["status"] == 409
    assert Kind.PUBACK in kinds
    app.ping()
