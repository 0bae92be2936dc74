"""Promise 3: what was acknowledged survives kill -9 at any instant, and nothing of QoS 2 comes twice."""

import random
import threading
import time

import pytest

import wire
from history import GONE, KEPT, History, Keeper, Publisher, Subscriber
from wire import Kind

pytestmark = pytest.mark.contract
KILLS = 50


@pytest.mark.timeout(300)
@pytest.mark.parametrize("durability", ["os", "disk"])
@pytest.mark.parametrize("seed", [1, 2])
def test_fifty_kills_under_load_lose_and_double_nothing(start, durability, seed):
    """Acknowledged, delivered, doubled, out of order: a checker over the whole history, of messages at QoS 1 and 2, a
    retained message and a twin."""
    chance = random.Random(seed)
    own, history = start(durability=durability), History()
    publisher, subscriber = Publisher("history", history), Subscriber("history", history)
    keeper = Keeper()
    subscriber.subscribe(own)
    for _ in range(KILLS):
        load = [threading.Thread(target=each.run, args=(own, time.monotonic() + 5)) for each in (publisher, keeper)]
        if chance.random() < 0.4:
            load.append(threading.Thread(target=subscriber.drain, args=(own,)))
        for thread in load:
            thread.start()
        time.sleep(chance.uniform(0.002, 0.12))  # The instant of the crash is the test's random choice.
        own.kill()
        for thread in load:
            thread.join(20)
        own.start()
        keeper.check(own)
    publisher.finish(own)
    subscriber.drain(own)
    assert not history.faults() + keeper.faults
    assert publisher.sessions_gone == subscriber.sessions_gone == 0
    counts = [len(numbers) for each in (history.acknowledged, history.delivered) for numbers in each.values()]
    assert min(*counts, keeper.acknowledged) > KILLS


def test_a_session_survives_many_restarts_without_any_traffic(start, dial):
    """Promise 3: nothing that only waits is given up, however often the files are opened anew."""
    own = start(durability="os")
    dial(to=own).open("one", **KEPT).subscribe([("a", 1)])
    for _ in range(30):
        own.kill()
        own.start()
        back = dial(to=own).open("one", **KEPT)
        assert back.connack.session_present
        back.leave()


def test_a_retained_message_survives_a_kill(start, dial):
    """Section 3.3.1.3 with promise 3: the PUBACK promised it."""
    own = start()
    one = dial(to=own).open("writer")
    one.publish("kept/one", b"still here", qos=1, packet_id=1, retain=True)
    one.expect(Kind.PUBACK)
    one.publish("kept/two", b"to be cleared", qos=1, packet_id=2, retain=True)
    one.expect(Kind.PUBACK)
    one.publish("kept/two", b"", qos=1, packet_id=3, retain=True)
    one.expect(Kind.PUBACK)
    own.kill()
    own.start()
    late = dial(to=own).open("late")
    late.subscribe([("kept/#", 1)])
    assert late.expect(Kind.PUBLISH).payload == b"still here"
    late.ping()


def test_a_subscription_survives_a_kill(start, dial):
    """Section 4.1 with promise 3: the SUBACK promised it, with its options and identifier."""
    own = start()
    one = dial(to=own).open("one", **KEPT)
    one.subscribe([("a/+", 0x01 | 0x08)], properties=[("subscription_identifier", 42)])
    own.kill()
    own.start()
    writer = dial(to=own).open("writer")
    writer.publish("a/b", b"x", qos=1, packet_id=1, retain=True)
    writer.expect(Kind.PUBACK)
    back = dial(to=own).open("one", **KEPT)
    assert back.connack.session_present
    got = back.expect(Kind.PUBLISH)
    assert (got.retain, got.get("subscription_identifier")) == (True, 42)


def test_an_unsubscribe_survives_a_kill(start, dial):
    """Section 3.11: the UNSUBACK promised it."""
    own = start()
    one = dial(to=own).open("one", **KEPT)
    one.subscribe([("a", 1)])
    one.send(wire.unsubscribe(["a"], packet_id=2))
    one.expect(Kind.UNSUBACK)
    own.kill()
    own.start()
    writer = dial(to=own).open("writer")
    writer.publish("a", b"x", qos=1, packet_id=1)
    writer.expect(Kind.PUBACK)
    dial(to=own).open("one", **KEPT).ping()


@pytest.mark.parametrize("delay_s", [0, 1])
def test_the_will_of_a_lasting_session_survives_a_kill_and_comes_once(start, dial, delay_s):
    """MQTT-3.1.2-8: its connection ended with the broker, without a DISCONNECT."""
    own = start()
    dial(to=own).open("watcher", **KEPT).subscribe([("wills", 1)])
    will = wire.Will("wills", qos=1, properties=[("will_delay_interval", delay_s)])
    dial(to=own).open("one", will=will, **KEPT)
    own.kill()
    own.start()
    watcher = dial(to=own).open("watcher", **KEPT)
    got = watcher.expect(Kind.PUBLISH)
    assert got.payload == b"gone"
    watcher.answer(Kind.PUBACK, got.packet_id)
    watcher.leave()
    own.stop()
    own.start()
    dial(to=own).open("watcher", **KEPT).ping()


def test_the_will_of_a_client_that_took_its_leave_stays_void_after_a_kill(start, dial):
    """MQTT-3.1.2-10."""
    own = start()
    dial(to=own).open("watcher", **KEPT).subscribe([("wills", 1)])
    dial(to=own).open("one", will=wire.Will("wills", qos=1), **KEPT).leave()
    dial(to=own).open("one", **KEPT).cut()
    own.kill()
    own.start()
    dial(to=own).open("watcher", **KEPT).ping()


def test_an_owed_pubrel_survives_a_kill(start, dial):
    """MQTT-4.3.3-7 with promise 3."""
    own = start()
    one = dial(to=own).open("one", **KEPT)
    one.subscribe([("a", 2)])
    writer = dial(to=own).open("writer")
    writer.publish("a", b"x", qos=2, packet_id=1)
    writer.expect(Kind.PUBREC)
    writer.answer(Kind.PUBREL, 1)
    writer.expect(Kind.PUBCOMP)
    message = one.expect(Kind.PUBLISH)
    one.answer(Kind.PUBREC, message.packet_id)
    one.expect(Kind.PUBREL)
    own.kill()
    own.start()
    back = dial(to=own).open("one", **KEPT)
    assert back.expect(Kind.PUBREL).packet_id == message.packet_id


def test_a_qos_2_id_of_the_publisher_survives_a_kill(start, dial):
    """MQTT-4.3.3-10 with promise 3: the PUBREC promised it, so the repeat is no new message."""
    own = start()
    watcher = dial(to=own).open("watcher", **KEPT)
    watcher.subscribe([("a", 2)])
    watcher.leave()
    one = dial(to=own).open("one", **KEPT)
    one.publish("a", b"once", qos=2, packet_id=9)
    one.expect(Kind.PUBREC)
    own.kill()
    own.start()
    back = dial(to=own).open("one", **KEPT)
    assert back.connack.session_present
    back.publish("a", b"once", qos=2, packet_id=9, dup=True)
    back.expect(Kind.PUBREC)
    back.answer(Kind.PUBREL, 9)
    back.expect(Kind.PUBCOMP)
    again = dial(to=own).open("watcher", **KEPT)
    first = again.expect(Kind.PUBLISH)
    again.answer(Kind.PUBREC, first.packet_id)
    again.expect(Kind.PUBREL)
    again.answer(Kind.PUBCOMP, first.packet_id)
    again.ping()


def test_a_session_that_was_ended_does_not_come_back_after_a_kill(start, dial):
    """MQTT-3.1.2-4: the CONNACK of a clean start says that the old session is gone."""
    own = start()
    dial(to=own).open("one", **KEPT).subscribe([("a", 1)])
    dial(to=own).open("one", clean=True).ping()
    own.kill()
    own.start()
    assert not dial(to=own).open("one", **KEPT).connack.session_present


def test_clean_sessions_leave_nothing_behind_a_kill(start, dial):
    """Promise 3: clean sessions promise nothing across a crash, and hold nothing up."""
    own = start()
    dial(to=own).open("one").subscribe([("a", 1)])
    own.kill()
    own.start()
    assert not dial(to=own).open("one", clean=False).connack.session_present


def test_a_stopped_broker_keeps_what_it_promised(start, dial):
    """SIGTERM is no worse than kill -9."""
    own = start()
    one = dial(to=own).open("one", **KEPT)
    one.subscribe([("a", 1)])
    one.leave()
    writer = dial(to=own).open("writer")
    writer.publish("a", b"x", qos=1, packet_id=1)
    writer.expect(Kind.PUBACK)
    assert own.stop() == 0
    own.start()
    assert dial(to=own).open("one", **KEPT).expect(Kind.PUBLISH).payload == b"x"


def test_expiry_goes_on_while_the_broker_is_down(start, dial):
    """Section 3.1.2.11.2: time passes for sessions and messages whether the broker runs or not."""
    own = start()
    short = {"clean": False, "properties": [("session_expiry_interval", 1)]}
    dial(to=own).open("short", **short).leave()
    dial(to=own).open("long", **KEPT).subscribe([("a", 1)])
    writer = dial(to=own).open("writer")
    writer.publish("a", b"brief", qos=1, packet_id=1, properties=[("message_expiry_interval", 1)])
    writer.expect(Kind.PUBACK)
    own.kill()
    time.sleep(2.2)  # Longer than both live.
    own.start()
    assert not dial(to=own).open("short", **short).connack.session_present
    dial(to=own).open("long", **KEPT).ping()


def test_files_do_not_grow_with_what_was_delivered(start, dial):
    """Section 4 of the promises: one idle offline session does not pin the disk."""
    own = start(durability="os", arguments=["--shards", "1"])
    idle = dial(to=own).open("idle", **KEPT)
    idle.subscribe([("quiet", 1)])
    idle.leave()
    writer = dial(to=own).open("writer")
    writer.publish("quiet", b"keep me", qos=1, packet_id=1)
    writer.expect(Kind.PUBACK)
    busy = dial(to=own).open("busy", **KEPT)
    busy.subscribe([("busy", 1)])
    busy.leave()
    payload = bytes(50_000)
    for _ in range(125):
        writer.send(*(wire.publish("busy", payload, qos=1, packet_id=each) for each in range(2, 42)))
        for _ in range(40):
            writer.expect(Kind.PUBACK)
        back = dial(to=own).open("busy", **KEPT)
        for _ in range(40):
            back.answer(Kind.PUBACK, back.expect(Kind.PUBLISH).packet_id)
        back.leave()
    used = sum(path.stat().st_blocks * 512 for path in own.data.rglob("*") if path.is_file())
    assert used < 140 << 20, f"250 MB went through and {used >> 20} MiB are still there"
    assert dial(to=own).open("idle", **KEPT).expect(Kind.PUBLISH).payload == b"keep me"


def test_a_publisher_whose_message_was_never_acknowledged_may_send_it_again(start, dial):
    """MQTT-4.4.0-1 from the client's side: nothing acknowledged, nothing promised, no harm."""
    own = start()
    one = dial(to=own).open("one", **KEPT)
    try:
        one.send(*(wire.publish("a", b"x", qos=1, packet_id=each) for each in range(1, 200)))
        own.kill()
        while True:
            one.receive()
    except GONE:
        pass
    own.start()
    back = dial(to=own).open("one", **KEPT)
    back.send(*(wire.publish("a", b"x", qos=1, packet_id=each, dup=True) for each in range(1, 200)))
    assert [back.expect(Kind.PUBACK).packet_id for _ in range(199)] == list(range(1, 200))
