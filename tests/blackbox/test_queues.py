"""Queues of sessions that are full, with the policy `refuse` (promise 3)."""

import time

import pytest

from history import KEPT, History, Publisher
from raw import PATIENCE_S, Closed
from test_operation import get
from wire import Kind

pytestmark = pytest.mark.contract

QUOTA_EXCEEDED = 0x97


@pytest.fixture
def refusing(start, dial):
    """A broker with room for two messages a session, and a session "full" that is away and has them."""
    own = start(configuration='[limits]\nqueue_messages = 2\nqueue_policy = "refuse"\n', http=True)
    away = dial(to=own).open("full", **KEPT)
    away.subscribe([("a", 2)])
    away.leave()
    writer = dial(to=own).open("filler")
    for packet_id in (1, 2):
        writer.publish("a", b"kept", qos=1, packet_id=packet_id)
        assert writer.expect(Kind.PUBACK).reason == 0
    return own


def test_a_publisher_of_version_5_is_told_and_a_neighbour_has_the_message_at_once(refusing, dial):
    """Section 3.4.2.1: Quota exceeded; what cannot be kept for one is not kept from another."""
    neighbour = dial(to=refusing).open("neighbour")
    neighbour.subscribe([("a", 1)])
    writer = dial(to=refusing).open("writer")
    writer.publish("a", b"too much", qos=1, packet_id=1)
    assert neighbour.expect(Kind.PUBLISH).payload == b"too much"
    assert writer.expect(Kind.PUBACK).reason == QUOTA_EXCEEDED
    writer.publish("a", b"too much", qos=2, packet_id=2)
    assert writer.expect(Kind.PUBREC).reason == QUOTA_EXCEEDED
    writer.publish("elsewhere", b"x", qos=1, packet_id=3)
    assert writer.expect(Kind.PUBACK).reason < 0x80


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_of_3_1_1_gets_no_acknowledgement_and_is_closed_so_that_it_keeps_the_message(refusing, dial, qos):
    """MQTT 3.1.1 has no word for it; MQTT-4.4.0-1 lets it send again."""
    writer = dial(version=4, to=refusing).open("writer")
    writer.publish("a", b"too much", qos=qos, packet_id=1)
    with pytest.raises(Closed):
        writer.receive()


def test_there_is_room_again_once_the_session_has_read(refusing, dial):
    """What was kept is there, and only that."""
    back = dial(to=refusing).open("full", **KEPT)
    for _ in range(2):
        got = back.expect(Kind.PUBLISH)
        assert got.payload == b"kept"
        back.answer(Kind.PUBACK, got.packet_id)
    back.leave()
    writer = dial(to=refusing).open("writer")
    writer.publish("a", b"again", qos=1, packet_id=1)
    assert writer.expect(Kind.PUBACK).reason == 0


def test_a_refused_message_is_no_acknowledged_one_in_a_history(refusing):
    """Else the checks of histories would blame a broker that keeps its word, or praise one that takes nothing."""
    history = History()
    publisher = Publisher("a", history, window=8)
    publisher.run(refusing, time.monotonic() + 0.5)
    assert publisher.refused > 0 and history.acknowledged == {1: [], 2: []}
    assert len(publisher.ids) + len(publisher.waiting) == 8


ROUTE = """\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: kept}
spec:
  from: apps/press/out
  to:
    - topic: apps/keeper/in
    - topic: apps/keeper/also
"""


@pytest.fixture
def routed(start, dial):
    """Sends copies to a session that is away: two topics, room for one message each time it has read."""
    own = start(configuration='[limits]\nqueue_messages = 1\nqueue_policy = "refuse"\n', http=True)
    dial(to=own).open("keeper", **KEPT).subscribe([("apps/keeper/in", 2)])
    path = own.directory / "route.yaml"
    path.write_text(ROUTE)
    own.run("apply", "-f", str(path))
    return own


def said(writer, qos: int) -> int:
    """What the writer of a message that is routed is told."""
    writer.publish("apps/press/out", b"x", qos=qos, packet_id=1)
    got = writer.expect(Kind.PUBACK if qos == 1 else Kind.PUBREC)
    if got.kind == Kind.PUBREC and got.reason == 0:
        writer.answer(Kind.PUBREL, 1)
        writer.expect(Kind.PUBCOMP)
    return got.reason


def away(dial, own) -> None:
    """The session has its only message, and no connection."""
    dial(to=own).open("keeper", **KEPT).leave()
    writer = dial(to=own).open("filler")
    writer.publish("apps/keeper/in", b"kept", qos=1, packet_id=1)
    assert writer.expect(Kind.PUBACK).reason == 0


@pytest.mark.needs("apply")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_copy_that_is_refused_is_told_to_the_publisher_though_a_dashboard_has_the_original(routed, dial, qos):
    """Promise 3 holds for what a route copies. At QoS 2 nobody has it before it comes again."""
    away(dial, routed)
    dashboard = dial(to=routed).open("dashboard")
    dashboard.subscribe([("apps/press/out", 0)])
    writer = dial(to=routed).open("writer", **KEPT)
    assert said(writer, qos) == QUOTA_EXCEEDED
    if qos == 1:
        assert dashboard.expect(Kind.PUBLISH).payload == b"x"
    dashboard.ping()
    keeper = dial(to=routed).open("keeper", **KEPT)
    keeper.answer(Kind.PUBACK, keeper.expect(Kind.PUBLISH).packet_id)
    keeper.ping()
    assert said(writer, qos) == 0
    assert dashboard.expect(Kind.PUBLISH).payload == b"x"
    assert keeper.expect(Kind.PUBLISH).topic == "apps/keeper/in"
    dashboard.ping()


@pytest.mark.needs("apply")
@pytest.mark.parametrize("qos", [1, 2])
def test_a_publisher_of_3_1_1_whose_copy_is_refused_is_closed_so_that_it_keeps_the_message(routed, dial, qos):
    """As for a subscriber of the original."""
    away(dial, routed)
    writer = dial(version=4, to=routed).open("writer")
    writer.publish("apps/press/out", b"x", qos=qos, packet_id=1)
    with pytest.raises(Closed):
        writer.receive()


@pytest.mark.needs("apply")
def test_a_copy_of_qos_2_that_is_refused_after_another_was_taken_is_counted_and_brings_none_twice(routed, dial):
    """Contract of routes: the message counts as accepted, or sending it again would bring the other one twice."""
    away(dial, routed)
    first = dial(to=routed).open("first")
    first.subscribe([("apps/keeper/also", 2)])
    reader = dial(to=routed).open("reader", **KEPT)
    reader.subscribe([("apps/press/out", 2)])
    reader.leave()
    filler = dial(to=routed).open("filler")
    keeper = dial(to=routed).open("keeper", **KEPT)
    keeper.answer(Kind.PUBACK, keeper.expect(Kind.PUBLISH).packet_id)
    keeper.ping()
    assert said(filler, 1) == 0
    keeper.answer(Kind.PUBACK, keeper.expect(Kind.PUBLISH).packet_id)
    first.answer(Kind.PUBACK, first.expect(Kind.PUBLISH).packet_id)
    first.ping()
    keeper.ping()
    assert said(filler, 2) == 0, "the queue of the original's reader is full, but the copies have been taken"
    assert keeper.expect(Kind.PUBLISH).qos == first.expect(Kind.PUBLISH).qos == 2
    metrics = get(routed, "/metrics")[1]
    assert "selvedge_route_copies_refused_total 1" in metrics.splitlines()


def test_consumers_that_hang_do_not_fill_the_memory(start, dial):
    """Sessions that end with their connection, which acknowledge nothing: `memory_bytes` holds for all together."""
    own = start(configuration="[limits]\nmemory_bytes = 100000\n", http=True)
    for number in range(20):
        hung = dial(to=own).open(f"hung-{number}", properties=[("receive_maximum", 1)])
        assert hung.subscribe([(f"to/{number}", 1)]) == [1]
    writer = dial(to=own).open("writer")
    for packet_id in range(1, 201):
        writer.publish(f"to/{packet_id % 20}", bytes(10_000), qos=1, packet_id=packet_id)
        assert writer.expect(Kind.PUBACK).reason == 0
    deadline = time.monotonic() + PATIENCE_S
    while 'selvedge_messages_dropped_total{reason="memory_full"} 0' in (metrics := get(own, "/metrics")[1]):
        assert time.monotonic() < deadline, metrics
    figure = next(line for line in metrics.splitlines() if line.startswith("selvedge_message_memory_bytes{"))
    assert 50_000 < float(figure.split()[-1]) <= 101_000
