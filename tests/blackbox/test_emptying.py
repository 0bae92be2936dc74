"""Promise 3 where files of the log are half dead: what one session has read lies between what another is still owed."""

import random
import re
import threading
import time

import pytest

import wire
from history import History, Subscriber
from raw import PATIENCE_S, dial
from test_operation import get
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.needs("--http")]

# Many small files, emptied early; what waits to be written never reaches its bound, where acknowledgements are refused.
SMALL_FILES = "[store]\nsegment_bytes = 524288\npending_bytes = 262144\ngarbage_bytes = 262144\n"
MESSAGES = 60_000
BURST = 500
KILLS = 6
# Of ten messages in a row: seven for the reader, two for the absent session, one for both.
TOPICS = ["read/1/0"] * 3 + ["read/0/1"] + ["read/1/0"] * 3 + ["read/0/1", "read/1/0", "read/1/1"]


def oldest_file(own) -> int:
    """Number of the oldest file of the log: they go in order."""
    return min(int(path.stem, 16) for path in own.data.rglob("*.log") if len(path.stem) == 16)


def faults_of_the_log(own) -> list[str]:
    """Lines of /metrics that count messages or records as lost."""
    counts = re.findall(r'^(\S*(?:_log_faults|reason="damaged")\S*) (\d+)$', get(own, "/metrics")[1], re.MULTILINE)
    assert len(counts) == 2, counts
    return [f"{name} {count}" for name, count in counts if int(count)]


def publish(own, histories: dict[str, History]) -> None:
    """Publishes in bursts; each number goes into the history of those sessions that it is for."""
    line = dial(own.port).open("publisher", keep_alive=0)
    for first in range(0, MESSAGES, BURST):
        numbers = range(first, first + BURST)
        line.send(
            *(
                wire.publish(
                    TOPICS[number % len(TOPICS)], b"1 %d" % number + b" " * 80, qos=1, packet_id=1 + number - first
                )
                for number in numbers
            )
        )
        for number in numbers:
            answer = line.expect(Kind.PUBACK)
            assert (answer.packet_id, answer.reason) == (1 + number - first, 0)
            _, reader, absent = TOPICS[number % len(TOPICS)].split("/")
            for name, is_for in (("reader", reader), ("absent", absent)):
                if is_for == "1":
                    histories[name].acknowledged[1].append(number)
    line.leave()


def wait_until_a_file_goes(own, drain: threading.Thread) -> None:
    """Until the oldest file of now is gone, or nothing moves any more."""
    before, deadline = oldest_file(own), time.monotonic() + PATIENCE_S
    while oldest_file(own) == before and drain.is_alive() and time.monotonic() < deadline:
        time.sleep(0.001)  # Nobody tells when a file goes.


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_kill_while_half_dead_files_are_emptied_loses_nothing_and_keeps_the_order(start, seed):
    """What is still owed moves to the head of the log when its file is emptied, again and again, whenever that ends."""
    chance = random.Random(seed)
    own = start(durability="os", http=True, arguments=["--shards", "1"], configuration=SMALL_FILES)
    histories = {"reader": History(), "absent": History()}
    reader = Subscriber("read/1/+", histories["reader"], "reader")
    absent = Subscriber("read/+/1", histories["absent"], "absent")
    for each in (reader, absent):
        each.subscribe(own)
    publish(own, histories)
    first_file, faults = oldest_file(own), []
    for _ in range(KILLS):
        drain = threading.Thread(target=reader.drain, args=(own,))
        drain.start()
        wait_until_a_file_goes(own, drain)
        time.sleep(chance.uniform(0, 0.02))  # The instant of the crash is the test's random choice.
        faults += faults_of_the_log(own)
        own.kill()
        drain.join(20)
        own.start()
    reader.drain(own)
    assert oldest_file(own) > first_file + KILLS, "no file was emptied"
    own.kill()
    own.start()
    absent.drain(own)
    faults += faults_of_the_log(own)
    assert not histories["reader"].faults() + histories["absent"].faults()
    assert not faults
    assert reader.sessions_gone == absent.sessions_gone == 0
