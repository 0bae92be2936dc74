"""What one turn of the broker's loop leaves to the next: answers without an event of their own, output without room."""

import contextlib
import socket
import threading
import time

import pytest

import wire
from raw import Connection
from wire import Kind


@pytest.mark.parametrize(("qos", "acknowledgement"), [(1, Kind.PUBACK), (2, Kind.PUBREC)])
def test_a_message_that_its_only_subscriber_cannot_take_is_acknowledged(start, dial, qos, acknowledgement):
    """Its record is taken back before the acknowledgement waits for it, and no commit follows that could free it."""
    own = start()
    reader = dial(to=own).open(
        "reader", clean=False, properties=[("session_expiry_interval", 600), ("maximum_packet_size", 200)]
    )
    reader.subscribe([("a", 2)])
    writer = dial(to=own).open("writer")
    for packet_id in (1, 2):
        writer.publish("a", b"x" * 1000, qos=qos, packet_id=packet_id)
        assert writer.expect(acknowledgement, 3).packet_id == packet_id
    reader.ping()


def test_more_retained_messages_than_fit_in_one_write_come_without_anything_else_happening(start, dial):
    """What has room only after the second write of a turn is written in the next, which follows at once."""
    own = start()
    writer = dial(to=own).open("writer")
    for number in range(40):
        writer.publish(f"r/{number}", b"x" * 100_000, qos=1, packet_id=number + 1, retain=True)
        writer.expect(Kind.PUBACK)
    reader = dial(to=own).open("reader")
    reader.send(wire.subscribe([("r/#", 0)]))
    began = time.monotonic()
    got = [reader.receive(3).kind for _ in range(41)]
    assert got.count(Kind.PUBLISH) == 40
    # The next event of a quiet broker is its report of every ten seconds.
    assert time.monotonic() - began < 9


def test_a_client_that_asks_without_end_and_never_reads_is_read_no_more(start, dial):
    """Its answers wait in memory that is bounded; whoever reads is served meanwhile."""
    own = start()
    before = own.rss_bytes()
    greedy = dial(to=own).open("greedy")
    greedy.stream.settimeout(1)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 64 << 20:
            sent += greedy.stream.send(wire.PINGREQ * 8192)
    assert sent < 64 << 20, "everything was read"
    assert own.rss_bytes() - before < 8 << 20
    dial(to=own).open("other").ping()
    # Nothing of it was lost: as many answers come as questions were taken.
    assert answers(greedy, sent // 2) == sent // 2


def answers(connection: Connection, count: int) -> int:
    """Reads so many PINGRESPs."""
    connection.stream.settimeout(10)
    waiting = count * len(wire.PINGREQ)
    while waiting > 0:
        got = connection.stream.recv(min(waiting, 1 << 20))
        assert got and got == b"\xd0\x00" * (len(got) // 2) + b"\xd0" * (len(got) % 2) or got[:1] == b"\x00"
        waiting -= len(got)
    return count


def test_all_that_a_client_sent_before_it_hung_up_is_served(start, dial):
    """The end of its stream is heard but once, together with the last bytes or long before they are read."""
    own = start()
    reader = dial(to=own).open("reader")
    reader.subscribe([("a", 1)])
    for number, size_bytes in enumerate([1, 10, 65_536, 3_000_000]):
        payloads = [b"%07d" % at + b"x" * min(size_bytes, 8192) for at in range(max(size_bytes // 8192, 3))]
        writer = dial(to=own).open(f"writer-{number}")
        packets = [wire.publish("a", payload, qos=1, packet_id=at + 1) for at, payload in enumerate(payloads)]
        sending = threading.Thread(target=send_and_hang_up, args=(writer, packets))
        sending.start()
        assert [take(reader) for _ in payloads] == payloads
        sending.join()
        while writer.stream.recv(1 << 20):
            pass  # Acknowledgements, until the server has closed too.


def send_and_hang_up(writer: Connection, packets: list[bytes]) -> None:
    """Ends its half of the stream right behind the last byte."""
    writer.send(*packets)
    writer.stream.shutdown(socket.SHUT_WR)


def take(reader: Connection) -> bytes:
    """The payload of the next message, which is acknowledged."""
    message = reader.expect(Kind.PUBLISH)
    reader.answer(Kind.PUBACK, message.packet_id)
    return message.payload


def test_a_client_that_talks_while_it_is_taken_over_hears_why_it_ends(start, dial):
    """0x8E (MQTT-3.1.4-3), even where its bytes and the new connection come in the same turn: else it comes back."""
    own = start()
    talking = dial(to=own).open("twice")
    for _ in range(200):
        new = dial(to=own)
        talking.send(wire.PINGREQ * 50)
        new.send(wire.connect("twice"))
        talking.send(wire.PINGREQ)
        with contextlib.suppress(OSError):
            talking.send(wire.PINGREQ)
        assert new.expect(Kind.CONNACK).reason == 0
        assert talking.verdict() == 0x8E
        talking = new


def test_all_twins_are_there_after_a_kill_while_the_log_has_much_to_empty(start, dial):
    """More than are read back at once: one that moves before its turn has come is the same one."""
    own = start(
        durability="os",
        configuration="[store]\nsegment_bytes = 65536\npending_bytes = 32768\ngarbage_bytes = 65536\n",
    )
    devices = [f"d{number:05}" for number in range(15_000)]
    app = dial(to=own).open("app")
    set_desired(app, devices, b'{"first":"%s"}')
    for round_ in range(3):
        # Two of three again: files that are mostly garbage, with a twin here and there that is not.
        set_desired(app, [device for number, device in enumerate(devices) if number % 3 != round_], b'{"last":"%s"}')
        own.kill()
        own.start()
        app = dial(to=own).open("app")
        app.send(wire.subscribe([("devices/+/twin/desired", 0)]))
        found = [app.receive() for _ in range(len(devices) + 1)]
        twins = {got.topic.split("/")[1]: got.payload for got in found if got.kind == Kind.PUBLISH}
        assert [device for device in devices if b'"first":"%s"' % device.encode() not in twins[device]] == []
        app.leave()
        app = dial(to=own).open("app")


def set_desired(app: Connection, devices: list[str], state: bytes) -> None:
    """Sets some of each one's desired state, and waits until all of it is safe. A small log refuses for moments."""
    waiting = list(devices)
    while waiting:
        some, waiting = waiting[:100], waiting[100:]
        for packet_id, device in enumerate(some, 1):
            topic = f"devices/{device}/twin/desired/set"
            app.publish(topic, state % device.encode(), qos=1, packet_id=packet_id)
        for _ in some:
            got = app.expect(Kind.PUBACK)
            if got.reason >= 0x80:
                waiting.append(some[got.packet_id - 1])
