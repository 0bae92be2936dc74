"""Promise 9: a tenant uses what it may use, and slows down or fills up nobody else."""

import contextlib
import json
import socket

import pytest

import raw
import wire
from credentials import Account, Authority, add, context
from test_doors import Web
from test_operation import get
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.needs("tenant")]

LASTING = {"clean": False, "properties": [("session_expiry_interval", 600)]}


@pytest.fixture
def own(start, tmp_path):
    """An edge with two tenants, `a` and `b`, an app in each."""
    certificate, key = Authority(tmp_path).issue("server", "/CN=localhost")
    edge = start(anonymous=False, http=True, unix=True, websocket=True, tls={"certificate": certificate, "key": key})
    edge.authority = tmp_path / "ca.pem"
    edge.accounts = {tenant: add(edge, "app", "dash", tenant=tenant) for tenant in ("a", "b")}
    return edge


@pytest.fixture
def inside(own, dial):
    """Opens a connection of an app of this tenant."""

    def open_one(tenant: str, client_id: str, **options):
        return dial(to=own).open(client_id, **login(own.accounts[tenant]), **options)

    return open_one


def stream(own, door: str) -> socket.socket:
    """A connection below MQTT."""
    if door == "unix":
        made = socket.socket(socket.AF_UNIX)
        made.connect(str(own.unix_path))
        return made
    if door == "tcp":
        return socket.create_connection(("127.0.0.1", own.port))
    return context(own.authority).wrap_socket(socket.create_connection(("127.0.0.1", own.tls_port)))


def login(account: Account) -> dict[str, object]:
    """As `wire.connect` takes it."""
    return {"user": account.user, "password": account.password.encode()}


def counted(own, name: str, label: str) -> float:
    """A figure of /metrics."""
    start = f"selvedge_{name}{{{label}}} "
    return next(float(line.split()[-1]) for line in get(own, "/metrics")[1].splitlines() if line.startswith(start))


def acknowledged(connection, count: int) -> None:
    """Awaits this many PUBACKs that accept."""
    for _ in range(count):
        answer = connection.expect(Kind.PUBACK, 30)
        assert answer.reason in (0, 0x10), hex(answer.reason)


def test_a_connection_too_many_is_refused_and_counted(own, inside, dial):
    """0x97, quota exceeded; 3, server unavailable, in 3.1.1. Other tenants come in."""
    inside("a", "early")
    own.run("tenant", "set", "a", "--connections", "2")
    leaving = inside("a", "leaving")
    account = login(own.accounts["a"])
    assert dial(5, to=own).send(wire.connect("more", **account)).verdict() == 0x97
    assert dial(4, to=own).send(wire.connect("more", 4, **account)).verdict() == 3
    inside("b", "other").ping()
    assert counted(own, "tenant_connections_refused_total", 'tenant="a"') == 2
    assert counted(own, "tenant_connections_refused_total", 'tenant="b"') == 0
    assert counted(own, "connections_refused_total", 'reason="quota"') == 2
    leaving.leave()
    inside("a", "more").ping()


def test_at_the_bound_a_client_still_takes_over_its_own_connection(own, inside):
    """A device that comes back before its old connection is found dead is let in."""
    own.run("tenant", "set", "a", "--connections", "1")
    before = inside("a", "same")
    inside("a", "same").ping()
    assert before.verdict() == 0x8E


def test_a_tenant_over_its_rate_waits_loses_nothing_and_slows_nobody(own, inside):
    """The loop stops reading those that publish too fast; TCP does the rest."""
    own.run("tenant", "set", "a", "--messages-per-s", "100")
    listener = inside("a", "listener")
    listener.subscribe([("flood", 1)])
    flood = inside("a", "flood")
    flood.send(*[wire.publish("flood", str(number).encode(), qos=1, packet_id=number) for number in range(1, 301)])
    other = inside("b", "other")
    other.subscribe([("beat", 0)])
    for _ in range(50):
        other.publish("beat", b"x")
        assert other.expect(Kind.PUBLISH).payload == b"x"
    acknowledged(flood, 300)
    for number in range(1, 301):
        got = listener.expect(Kind.PUBLISH)
        assert got.payload == str(number).encode()
        listener.answer(Kind.PUBACK, got.packet_id)
    assert counted(own, "tenant_pauses_total", 'tenant="a"') > 0
    assert counted(own, "tenant_pauses_total", 'tenant="b"') == 0
    flood.ping()
    assert counted(own, "connections_paused", 'tenant="a"') == 0


def test_many_floods_of_one_tenant_take_turns(own, inside):
    """Each goes on; those that only listen are read all the time."""
    own.run("tenant", "set", "a", "--messages-per-s", "200")
    listener = inside("a", "listener")
    floods = [inside("a", f"flood-{number}") for number in range(10)]
    packets = [wire.publish("flood", b"x", qos=1, packet_id=number) for number in range(1, 51)]
    for flood in floods:
        flood.send(*packets)
    listener.ping()
    modest = inside("a", "modest")
    for number in range(1, 21):
        modest.publish("modest", b"x", qos=1, packet_id=number)
        acknowledged(modest, 1)
    for flood in floods:
        acknowledged(flood, 50)


def test_a_client_that_has_to_wait_is_not_taken_for_silent(own, inside):
    """MQTT-3.1.2-22: what it sent has not been read, so nothing is known of its keep alive."""
    own.run("tenant", "set", "a", "--bytes-per-s", "2000")
    one = inside("a", "one", keep_alive=1)
    one.send(*[wire.publish("x", bytes(5_000), qos=1, packet_id=number) for number in (1, 2, 3)])
    acknowledged(one, 3)
    own.run("tenant", "set", "a", "--bytes-per-s", "none")
    one.ping()


@pytest.mark.parametrize("door", ["tcp", "tls", "tls with a goodbye", "unix"])
def test_a_client_that_leaves_while_it_waits_is_let_go(own, inside, door):
    """What it sent before is served, its will is not sent; at whatever door it came in."""
    own.run("tenant", "set", "a", "--messages-per-s", "10")
    listener = inside("a", "listener")
    listener.subscribe([("#", 0)])
    flood = raw.Connection(stream(own, door))
    flood.open("flood", will=wire.Will("will"), **login(own.accounts["a"]))
    flood.send(*[wire.publish("flood", b"x")] * 30, wire.disconnect())
    if door == "tls with a goodbye":
        flood.stream.settimeout(0.01)
        with contextlib.suppress(TimeoutError):  # The alert has gone; its answer comes once all is served.
            flood.stream.unwrap()
    flood.cut()
    topics = [listener.expect(Kind.PUBLISH, 30).topic for _ in range(30)]
    assert topics == ["flood"] * 30
    own.run("tenant", "set", "a", "--messages-per-s", "none")
    listener.ping()


def test_a_websocket_that_is_closed_while_it_waits_is_served_to_its_end(own, inside):
    """The closing handshake comes in the same bytes as the messages before it."""
    own.run("tenant", "set", "a", "--messages-per-s", "10")
    listener = inside("a", "listener")
    listener.subscribe([("flood", 0)])
    web = Web(own.websocket_port)
    packets = [wire.connect("flood", **login(own.accounts["a"])), *[wire.publish("flood", b"x")] * 30]
    web.frame(b"".join([*packets, wire.disconnect()]))
    web.frame(b"\x03\xe8", opcode=8)
    for _ in range(30):
        listener.expect(Kind.PUBLISH, 30)


def test_messages_that_wait_fill_their_own_tenant_only(own, inside):
    """The newest are dropped and counted; who takes them now still gets them."""
    own.run("tenant", "set", "a", "--bytes", "100KiB")
    for tenant in ("a", "b"):
        inside(tenant, "away", **LASTING).subscribe([("queue", 1)])
        inside(tenant, "away", **LASTING).leave()
    live = inside("a", "live")
    live.subscribe([("queue", 0)])
    for tenant in ("a", "b"):
        writer = inside(tenant, "writer")
        for number in range(1, 21):
            writer.publish("queue", bytes(10_000), qos=1, packet_id=number)
            acknowledged(writer, 1)
        writer.publish("kept", bytes(10_000), retain=True)
        writer.ping()
    for _ in range(20):
        live.expect(Kind.PUBLISH)
    for tenant, kept in (("a", 10), ("b", 20)):
        back = inside(tenant, "away", **LASTING)
        for _ in range(kept):
            got = back.expect(Kind.PUBLISH)
            back.answer(Kind.PUBACK, got.packet_id)
        back.ping()
        late = inside(tenant, "late").send(wire.subscribe([("kept", 0)]), wire.PINGREQ)
        came = [late.receive().kind]
        while came[-1] != Kind.PINGRESP:
            came.append(late.receive().kind)
        assert (Kind.PUBLISH in came) == (tenant == "b")
    assert counted(own, "messages_dropped_total", 'reason="tenant_full"') == 11
    assert counted(own, "stored_bytes", 'tenant="a"') < 10_000


def test_places_in_queues_are_bounded_however_short_the_messages_and_many_the_sessions(own, inside):
    """One message that many wait for is kept once, but each of them has a place for it."""
    own.run("tenant", "set", "a", "--session-bytes", "200000")
    for number in range(20):
        one = inside("a", f"away-{number}", **LASTING)
        one.subscribe([("queue", 1)])
        one.leave()
    live, writer = inside("a", "live"), inside("a", "writer")
    live.subscribe([("queue", 1)])
    for number in range(1, 101):
        writer.publish("queue", b"x", qos=1, packet_id=number)
        acknowledged(writer, 1)
        live.answer(Kind.PUBACK, live.expect(Kind.PUBLISH).packet_id)
    dropped = counted(own, "messages_dropped_total", 'reason="sessions_full"')
    waiting = counted(own, "queued_messages", 'tenant="a"')
    assert dropped > 0 and waiting > 100 and dropped + waiting == 20 * 100
    assert counted(own, "session_bytes", 'tenant="a"') < 200_000 + 20 * 320
    assert counted(own, "messages_dropped_total", 'reason="tenant_full"') == 0
    back = inside("a", "away-0", **LASTING)
    back.answer(Kind.PUBACK, back.expect(Kind.PUBLISH).packet_id)


def test_sessions_with_long_names_and_wills_are_refused_beyond_their_bytes(own, inside, dial):
    """0x97, quota exceeded; 3 in 3.1.1. What ends makes room; other tenants come in."""
    own.run("tenant", "set", "a", "--session-bytes", "40000")
    account = login(own.accounts["a"])
    first = inside("a", "x" * 15_000, **LASTING)
    inside("a", "y" * 15_000, **LASTING)
    long_will = wire.Will("will", b"w" * 15_000)
    assert dial(5, to=own).send(wire.connect("z", will=long_will, **account)).verdict() == 0x97
    assert dial(4, to=own).send(wire.connect("z", 4, will=long_will, **account)).verdict() == 3
    inside("b", "z" * 15_000)
    first.leave()
    inside("a", "x" * 15_000).leave()
    inside("a", "z", will=long_will).ping()
    assert counted(own, "connections_refused_total", 'reason="quota"') == 2


def test_subscriptions_too_many_are_refused_filter_by_filter_and_counted(own, inside, dial):
    """0x97, quota exceeded; 0x80 in 3.1.1. Counted in bytes over all sessions; other tenants are granted theirs."""
    own.run("tenant", "set", "a", "--subscription-bytes", "1MiB")
    filters = [(f"{number}/{'x' * 60_000}", 1) for number in range(5)]
    assert inside("a", "first", **LASTING).subscribe(filters) == [1, 1, 1, 1, 0x97]
    assert inside("a", "second").subscribe([("a", 1), filters[4]]) == [1, 0x97]
    old = dial(4, to=own).open("old", **login(own.accounts["a"]))
    assert old.subscribe([filters[4], ("b", 1)]) == [0x80, 1]
    assert inside("b", "other").subscribe(filters) == [1] * 5
    assert counted(own, "subscriptions_refused_total", 'reason="tenant_full"') == 3
    assert 960_000 < counted(own, "subscription_bytes", 'tenant="a"') < 1 << 20
    old.leave()


def test_subscriptions_over_a_lowered_quota_stay_and_make_room_as_they_go(own, inside):
    """What was acknowledged outlasts a restart; each goes on counting until it ends."""
    filters = [(f"{number}/{'x' * 60_000}", 1) for number in range(4)]
    inside("a", "one", **LASTING).subscribe(filters)
    own.run("tenant", "set", "a", "--subscription-bytes", "500000")
    own.kill()
    own.start()
    before = counted(own, "subscription_bytes", 'tenant="a"')
    assert before > 960_000
    inside("a", "writer").publish(filters[3][0], b"still", qos=1, packet_id=1).expect(Kind.PUBACK)
    one = inside("a", "one", **LASTING)
    assert one.expect(Kind.PUBLISH).payload == b"still"
    assert one.subscribe([filters[0], ("more", 1)]) == [1, 0x97]
    one.send(wire.unsubscribe([name for name, _ in filters[:3]]))
    assert one.expect(Kind.UNSUBACK).reasons == [0, 0, 0]
    assert one.subscribe([("more", 1)]) == [1]
    inside("a", "one").ping()
    assert one.verdict() == 0x8E
    assert counted(own, "subscription_bytes", 'tenant="a"') == 0


def test_a_device_too_many_is_refused(own):
    """The registry's own quota."""
    own.run("tenant", "set", "a", "--devices", "2")
    own.run("device", "add", "pump-7", "--tenant", "a")
    refused = own.run("device", "add", "pump-8", "--tenant", "a", check=False)
    assert refused.returncode == 1 and "has its 2 devices" in refused.stderr
    own.run("device", "add", "pump-8", "--tenant", "b")


def test_a_twin_too_many_is_refused_and_a_refused_patch_makes_none(own, inside):
    """As many as devices may be; what cannot be understood leaves nothing behind."""
    dash = inside("a", "dash")
    expected = {"ghost": (b"no JSON", 0), "pump-7": (b'{"on": true}', 0), "pump-8": (b'{"on": true}', 0x97)}
    for device in expected:
        add(own, "device", device, tenant="a")
    own.run("tenant", "set", "a", "--devices", "1")
    for number, (device, (patch, reason)) in enumerate(expected.items(), 1):
        dash.publish(f"devices/{device}/twin/desired/set", patch, qos=1, packet_id=number)
        assert dash.expect(Kind.PUBACK).reason == reason, device


def test_quotas_outlast_a_restart(own, dial):
    """They are in the registry."""
    own.run("tenant", "set", "a", "--connections", "0", check=False)
    own.run("tenant", "set", "a", "--connections", "1")
    own.stop()
    shown = json.loads(own.run("tenant", "show", "a", "--output", "json").stdout)
    assert shown["quotas"]["connections"] == 1 and shown["uses"] is None
    own.start()
    account = login(own.accounts["a"])
    dial(to=own).open("one", **account)
    assert dial(to=own).send(wire.connect("two", **account)).verdict() == 0x97
