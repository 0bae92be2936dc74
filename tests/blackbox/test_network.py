"""A network that delays, splits and cuts: what was acknowledged arrives, in order, and at QoS 2 once."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time

import pytest

from history import History, Publisher, Subscriber
from raw import PATIENCE_S

CUTS = 100
# To close with this sends RST instead of FIN, and throws away what was not sent yet.
ABORT = struct.pack("ii", 1, 0)


class Network:
    """Stands between clients and the broker, and treats their bytes badly, by a printed seed."""

    def __init__(self, port: int, seed: int):
        self.behind = port
        self.chance = random.Random(seed)
        self.door = socket.create_server(("127.0.0.1", 0))
        self.port = self.door.getsockname()[1]
        self.lines: list[tuple[socket.socket, socket.socket]] = []
        self.abandoned: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self.door.accept()
                far = socket.create_connection(("127.0.0.1", self.behind), PATIENCE_S)
                far.settimeout(None)
                self.lines.append((near, far))
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=pair, daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        """Splits what comes anywhere, and holds some of it back for a while."""
        with contextlib.suppress(OSError):
            while chunk := source.recv(self.chance.randrange(1, 3_000)):
                if self.chance.random() < 0.02:
                    time.sleep(self.chance.uniform(0, 0.01))  # The delay of this network.
                target.sendall(chunk)

    def cut(self) -> None:
        """Ends every connection towards the client; towards the broker with FIN, with RST, or not at all, as when a
        cable is pulled."""
        lines, self.lines = self.lines, []
        for near, far in lines:
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)
            near.close()
            way = self.chance.choice(("fin", "rst", "silence"))
            if way == "silence":
                self.abandoned.append(far)
                continue
            if way == "rst":
                far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            with contextlib.suppress(OSError):
                far.shutdown(socket.SHUT_RD)
            far.close()

    def close(self) -> None:
        """Ends it."""
        self.cut()
        self.door.close()
        for one in self.abandoned:
            one.close()


@pytest.fixture
def network():
    """Puts a network before a broker."""
    made = []

    def before(own, seed: int) -> Network:
        made.append(Network(own.port, seed))
        return made[-1]

    yield before
    for one in made:
        one.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_a_hundred_cuts_under_load_lose_and_double_nothing(start, network, seed):
    """Section 4.4: messages of QoS 1 and 2 are sent again after a reconnect, under their ids and in their order."""
    own, history = start(), History()
    line = network(own, seed)
    publisher, subscriber = Publisher("history", history), Subscriber("history", history)
    subscriber.subscribe(own)
    for _ in range(CUTS):
        stop_at = time.monotonic() + 5
        load = [
            threading.Thread(target=publisher.run, args=(line, stop_at)),
            threading.Thread(target=subscriber.drain, args=(line, 5)),
        ]
        for thread in load:
            thread.start()
        time.sleep(line.chance.uniform(0.005, 0.1))  # The instant of the cut is the test's random choice.
        line.cut()
        for thread in load:
            thread.join(20)
    publisher.finish(own)
    subscriber.drain(own)
    assert not history.faults()
    assert publisher.sessions_gone == subscriber.sessions_gone == 0
    counts = [len(numbers) for each in (history.acknowledged, history.delivered) for numbers in each.values()]
    assert min(counts) > CUTS
