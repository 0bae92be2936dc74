"""What a D-E round trip costs the broker, against ceilings that only a change of cost.toml raises.

The path with everything on: password, access control, a route, twins. The device's telemetry goes through the route to
the responder, which acknowledges it and calls a method; the device acknowledges the call and publishes its result.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

import brokers
import credentials
import raw
import wire
from brokers import Settings
from watchers import Callgrind, Strace
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.needs("apply"), pytest.mark.machine("strace", "valgrind")]

CEILINGS = tomllib.loads(Path(__file__).with_name("cost.toml").read_text())
# Enough that one more turn of the loop at either end is lost in the rounding.
TRIPS = 150
# The smallest count is the one in which none of the broker's own timers ran: where the machine is busy with other
# tests, some of them run in most.
COUNTS = 6
COUNTS_MAX = 30
WARM_UP_TRIPS = 50
PAYLOAD = b"x" * 64

ROUTE = """\
apiVersion: selvedge.dev/v1
kind: Route
metadata: {name: to-responder}
spec:
  from: devices/+/telemetry
  to:
    - topic: apps/responder/in/{device}
"""


class Stand:
    """An edge under a watcher, one device and the responder, each a bare socket."""

    def __init__(self, directory: Path, watcher: tuple[str, ...]):
        settings = Settings(anonymous=False, durability="os", arguments=["--shards", "1"], watcher=list(watcher))
        self.broker = brokers.make(directory, settings)
        accounts = [credentials.add(self.broker, "device", "dev"), credentials.add(self.broker, "app", "responder")]
        (directory / "route.yaml").write_text(ROUTE)
        self.broker.run("apply", "-f", str(directory / "route.yaml"))
        self.broker.start()
        self.device, self.responder = (self.connect(account) for account in accounts)
        self.device.subscribe("devices/dev/methods/+/+")
        self.responder.subscribe("apps/responder/in/+")

    def connect(self, account: credentials.Account) -> raw.Connection:
        """A clean session; no keep-alive, so that no timer of it runs."""
        options = {"user": account.user, "password": account.password.encode(), "keep_alive": 0}
        return raw.dial(self.broker.port).open(account.user, **options)

    def stop(self) -> None:
        """Ends all."""
        self.device.cut()
        self.responder.cut()
        self.broker.stop()

    def trips(self, qos: int, count: int) -> None:
        """Round trips in a closed loop. Each side has all it is owed before the other sends, so that the broker's
        turns do not depend on timing."""
        owed = b""
        for number in range(count):
            call = f"devices/dev/methods/echo/{number}"
            owed = carry(self.device, owed, "devices/dev/telemetry", PAYLOAD, qos, self.responder)
            owed = carry(self.responder, owed, call, PAYLOAD, qos, self.device)
            owed = carry(self.device, owed, f"{call}/result", b'{"status":200}', qos, None)
        self.device.send(owed).ping()


def carry(
    sender: raw.Connection, before: bytes, topic: str, payload: bytes, qos: int, receiver: raw.Connection | None
) -> bytes:
    """Sends a message and sees it acknowledged and received; the bytes that its last receiver sends next."""
    message = wire.publish(topic, payload, qos=qos, packet_id=1 if qos else None)
    if receiver is None and qos == 0:
        return before + message  # Nothing would tell when it has arrived: it goes with what follows.
    sender.send(before, message)
    arrived = receiver.expect(Kind.PUBLISH) if receiver else None
    if qos == 1:
        sender.expect(Kind.PUBACK)
    elif qos == 2:
        sender.expect(Kind.PUBREC)
        sender.answer(Kind.PUBREL, 1).expect(Kind.PUBCOMP)
    return finish(receiver, arrived.packet_id, qos) if receiver and qos else b""


def finish(receiver: raw.Connection, packet_id: int, qos: int) -> bytes:
    """Acknowledges a message as far as packets are awaited; the last one, which travels with the next message."""
    if qos == 1:
        return wire.acknowledge(Kind.PUBACK, packet_id)
    receiver.answer(Kind.PUBREC, packet_id).expect(Kind.PUBREL)
    return wire.acknowledge(Kind.PUBCOMP, packet_id)


def smallest(counts: Iterable[int]) -> float:
    """Of the counts, by round trip."""
    return round(min(counts) / TRIPS, 1)


@pytest.fixture(scope="module")
def costs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, float]]:
    """Counts of one round trip, by QoS and name."""
    measured: dict[int, dict[str, float]] = {0: {}, 1: {}, 2: {}}
    stand = Stand(tmp_path_factory.mktemp("strace"), Strace.COMMAND)
    strace = Strace(stand.broker)
    for qos, cost in measured.items():
        stand.trips(qos, WARM_UP_TRIPS)
        counts = []
        # A broker at rest makes some, too: a count that is free of them is a whole number for each round trip.
        while len(counts) < COUNTS or min(counts) % TRIPS and len(counts) < COUNTS_MAX:
            counts.append(strace.count(lambda qos=qos: stand.trips(qos, TRIPS)).system_calls)
        cost["system_calls"] = smallest(counts)
    stand.stop()
    stand = Stand(tmp_path_factory.mktemp("callgrind"), Callgrind.COMMAND)
    callgrind = Callgrind(stand.broker)
    callgrind.begin()
    control = callgrind.count(lambda: stand.device.subscribe("devices/dev/other/#"))
    assert control.allocations > 0, "a subscription must allocate: does the count still know the allocator's names?"
    for qos, cost in measured.items():
        stand.trips(qos, WARM_UP_TRIPS)
        counts = [callgrind.count(lambda qos=qos: stand.trips(qos, TRIPS)) for _ in range(COUNTS)]
        cost["instructions"] = smallest(count.instructions for count in counts)
        cost["allocations"] = smallest(count.allocations for count in counts)
    stand.stop()
    print(measured)
    return measured


@pytest.mark.parametrize("what", ["system_calls", "allocations", "instructions"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_round_trip_costs_no_more_than_agreed(costs, qos, what):
    """Grew on purpose? Then raise the ceiling in cost.toml and say why there."""
    agreed = CEILINGS[f"qos_{qos}"][what]
    assert costs[qos][what] <= agreed["ceiling"], agreed["why"]
