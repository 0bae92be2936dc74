"""What a publisher was promised and what a subscriber got, across any number of crashes."""

from __future__ import annotations

import json
import time
from collections import Counter, deque
from dataclasses import dataclass, field

import wire
from brokers import Broker
from raw import Closed, Connection, dial
from wire import Kind

KEPT = {"clean": False, "keep_alive": 0, "properties": [("session_expiry_interval", 86_400)]}
GONE = (Closed, OSError)
# Reason codes from here on are refusals (section 2.4).
REFUSED = 0x80


@dataclass
class History:
    """Numbers of messages, by QoS: those acknowledged to the publisher, and those delivered, in order."""

    acknowledged: dict[int, list[int]] = field(default_factory=lambda: {1: [], 2: []})
    delivered: dict[int, list[int]] = field(default_factory=lambda: {1: [], 2: []})

    def faults(self) -> list[str]:
        """Every promise that was broken."""
        found = []
        for qos, got in self.delivered.items():
            counts = Counter(got)
            lost = [number for number in self.acknowledged[qos] if number not in counts]
            firsts = list(dict.fromkeys(got))
            found += [f"QoS {qos}: {len(lost)} acknowledged but lost, such as {lost[:5]}"] if lost else []
            found += [f"QoS {qos}: out of order"] if firsts != sorted(firsts) else []
            twice = [number for number, count in counts.items() if count > 1]
            found += [f"QoS 2: delivered more than once: {twice[:5]}"] if qos == 2 and twice else []
        return found


class Publisher:
    """Keeps a window of messages in flight, QoS 1 and 2 in turn, and takes them up again after a crash."""

    def __init__(self, topic: str, history: History, window: int = 64):
        self.topic = topic
        self.history = history
        self.window = window
        self.number = 0
        self.waiting: dict[int, tuple[int, int]] = {}
        self.released: dict[int, tuple[int, int]] = {}
        self.refused = 0
        self.sessions_gone = 0
        self.ids = deque(range(1, window + 1))

    def run(self, broker: Broker, stop_at: float) -> None:
        """Publishes until the broker dies or the time has come."""
        try:
            line = dial(broker.port).open("publisher", **KEPT)
            self._resume(line)
            while time.monotonic() < stop_at:
                self._fill(line)
                self._take(line, line.receive(1))
        except (*GONE, TimeoutError):
            return

    def finish(self, broker: Broker) -> None:
        """Waits until everything in flight is acknowledged."""
        line = dial(broker.port).open("publisher", **KEPT)
        self._resume(line)
        while self.waiting or self.released:
            self._take(line, line.receive())
        line.leave()

    def _resume(self, line: Connection) -> None:
        self.sessions_gone += not line.connack.session_present and any(self.history.acknowledged.values())
        resend = [(packet_id, *message) for packet_id, message in self.waiting.items()]
        for packet_id, number, qos in sorted(resend, key=lambda each: each[1]):
            self._publish(line, packet_id, number, qos, dup=True)
        for packet_id in self.released:
            line.answer(Kind.PUBREL, packet_id)

    def _publish(self, line: Connection, packet_id: int, number: int, qos: int, dup: bool = False) -> None:
        line.publish(self.topic, b"%d %d" % (qos, number), qos=qos, packet_id=packet_id, dup=dup)

    def _fill(self, line: Connection) -> None:
        while self.ids:
            packet_id = self.ids.popleft()
            self.number += 1
            self.waiting[packet_id] = (self.number, 1 + self.number % 2)
            self._publish(line, packet_id, *self.waiting[packet_id])

    def _take(self, line: Connection, got: wire.Received) -> None:
        is_answer = got.kind in (Kind.PUBACK, Kind.PUBREC) and got.packet_id in self.waiting
        if is_answer and got.reason >= REFUSED:
            # Nothing is promised, and nothing more is said of it (section 4.3.3).
            del self.waiting[got.packet_id]
            self.ids.append(got.packet_id)
            self.refused += 1
        elif got.kind == Kind.PUBREC and got.packet_id in self.waiting:
            self.released[got.packet_id] = self.waiting.pop(got.packet_id)
            # From here on the message is the broker's: it may never be sent again.
            self.history.acknowledged[2].append(self.released[got.packet_id][0])
            line.answer(Kind.PUBREL, got.packet_id)
        elif got.kind == Kind.PUBACK and got.packet_id in self.waiting:
            self.history.acknowledged[1].append(self.waiting.pop(got.packet_id)[0])
            self.ids.append(got.packet_id)
        elif got.kind == Kind.PUBCOMP and self.released.pop(got.packet_id, None):
            self.ids.append(got.packet_id)


class Keeper:
    """Overwrites a retained message and a twin without end: each must be the last that was acknowledged, or a later one
    that was sent."""

    TOPIC = "kept/number"
    TWIN = "devices/counter/twin"

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = 0
        self.faults: list[str] = []

    def run(self, broker: Broker, stop_at: float) -> None:
        """Publishes until the broker dies or the time has come."""
        try:
            line = dial(broker.port).open("keeper", keep_alive=0)
            while time.monotonic() < stop_at:
                self.sent += 1
                line.publish(self.TOPIC, b"%d" % self.sent, qos=1, packet_id=1, retain=True)
                line.publish(f"{self.TWIN}/desired/set", b'{"n": %d}' % self.sent, qos=1, packet_id=2)
                reasons = [line.expect(Kind.PUBACK).reason for _ in range(2)]
                if max(reasons) < REFUSED:
                    self.acknowledged = self.sent
        except GONE:
            return

    def check(self, broker: Broker) -> None:
        """Looks at both after a restart."""
        if not self.acknowledged:
            return
        line = dial(broker.port).open("reader", keep_alive=0)
        retained, twin = (line.retained(each, 1)[0].payload for each in (self.TOPIC, f"{self.TWIN}/desired"))
        found = {"retained message": int(retained), "twin": json.loads(twin)["n"]}
        for what, number in found.items():
            if not self.acknowledged <= number <= self.sent:
                self.faults.append(f"{what} is {number}, of {self.acknowledged} acknowledged and {self.sent} sent")
        line.leave()


class Subscriber:
    """A persistent session that acknowledges all it gets, and knows which packet ids of QoS 2 it has seen."""

    def __init__(self, topic: str, history: History, client_id: str = "subscriber"):
        self.topic = topic
        self.history = history
        self.client_id = client_id
        self.seen: set[int] = set()
        self.sessions_gone = 0

    def subscribe(self, broker: Broker) -> None:
        """Makes the session, and waits for the acknowledgement that promises it."""
        line = dial(broker.port).open(self.client_id, **KEPT)
        line.subscribe([(self.topic, 2)])
        line.leave()

    def drain(self, broker: Broker, quiet_s: float = 2) -> None:
        """Takes what there is until nothing comes for a while; a broker that dies meanwhile ends it."""
        line = None
        try:
            line = dial(broker.port).open(self.client_id, **KEPT)
            self.sessions_gone += not line.connack.session_present
            while True:
                self._take(line, line.receive(quiet_s))
        except GONE:
            return
        except TimeoutError:
            line.leave()

    def _take(self, line: Connection, got: wire.Received) -> None:
        if got.kind == Kind.PUBREL:
            self.seen.discard(got.packet_id)
            line.answer(Kind.PUBCOMP, got.packet_id)
            return
        if got.kind == Kind.DISCONNECT:
            raise Closed("the server ends it")
        qos, number = map(int, got.payload.split())
        if got.qos != 2 or got.packet_id not in self.seen:
            self.history.delivered[qos].append(number)
        if got.qos == 2:
            self.seen.add(got.packet_id)
        line.answer(Kind.PUBACK if got.qos == 1 else Kind.PUBREC, got.packet_id)
