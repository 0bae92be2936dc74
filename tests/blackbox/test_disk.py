"""A disk that is full, turns read-only or fails under a running edge: live traffic flows, and no promise is made that
cannot be kept."""

import contextlib
import json
import subprocess
import time
from pathlib import Path

import pytest

import wire
from brokers import ENVIRONMENT
from history import KEPT
from machine import mounted
from raw import PATIENCE_S, Closed
from sites import wait_until
from test_operation import get
from wire import Kind

pytestmark = pytest.mark.contract
AWAY = ["away-1", "away-2", "away-3"]
# Four of them are there from the start, so that the disks of these tests can be small.
SMALL_SEGMENTS = "[store]\nsegment_bytes = 4194304\npending_bytes = 2097152\n"


def on(disk: Path, start):
    """A broker whose data lie on this file system."""
    own = start(begin=False, arguments=["--shards", "1"], configuration=SMALL_SEGMENTS)
    own.data = disk / "data"
    return own.start()


def go_away(dial, own, *names: str) -> None:
    """Sessions with a subscription of their own name that are not connected."""
    for name in names:
        away = dial(to=own).open(name, **KEPT)
        away.subscribe([(name, 1)])
        away.leave()


def fill(dial, own) -> list[tuple[str, int]]:
    """40 MB at QoS 1 for sessions that are away: for each message its session and the reason of its PUBACK."""
    go_away(dial, own, *AWAY)
    writer = dial(to=own).open("filler")
    filled = []
    for number in range(1, 401):
        name = AWAY[number % 3]
        writer.publish(name, bytes(100_000), qos=1, packet_id=number)
        filled.append((name, writer.expect(Kind.PUBACK).reason))
    return filled


def live_traffic_flows(client, own) -> None:
    """Between clean sessions, at QoS 0 and 1."""
    one = client(to=own)
    one.subscribe("live", 1)
    for qos in (0, 1):
        one.publish("live", b"flows", qos=qos)
        assert one.receive().payload == b"flows"


@pytest.mark.machine("mount")
def test_a_full_disk_refuses_promises_and_delivers_live_traffic(start, dial, client, small_disk):
    """Promise 3: 0x97 for what cannot be kept; live traffic flows; what was promised can still be had."""
    own = on(small_disk, start)
    filled = fill(dial, own)
    reasons = [reason for _, reason in filled]
    assert set(reasons) == {0x00, 0x97}
    live_traffic_flows(client, own)
    for name in AWAY:
        back = dial(to=own).open(name, **KEPT)
        for _ in range(filled.count((name, 0x00))):
            back.answer(Kind.PUBACK, back.expect(Kind.PUBLISH).packet_id)
        back.leave()
    writer = dial(to=own).open("writer")

    def is_taken() -> bool:
        writer.publish(AWAY[0], b"room again", qos=1, packet_id=1)
        return writer.expect(Kind.PUBACK).reason == 0

    # What was acknowledged gives its files back one after the other, beside what goes on.
    wait_until(is_taken, PATIENCE_S)
    assert dial(to=own).open(AWAY[0], **KEPT).expect(Kind.PUBLISH).payload == b"room again"
    assert own.alive()


@pytest.mark.machine("mount")
def test_a_full_disk_closes_a_publisher_of_3_1_1_without_an_acknowledgement(start, dial, client, small_disk):
    """Promise 3: 3.1.1 has no reason code, so the acknowledgement is withheld and the connection closed."""
    own = on(small_disk, start)
    fill(dial, own)
    writer = dial(4, to=own).open("writer-3")
    writer.publish(AWAY[0], bytes(100_000), qos=1, packet_id=1)
    assert writer.verdict() is None
    live_traffic_flows(client, own)


@pytest.mark.machine("mount")
def test_an_edge_starts_on_a_disk_that_is_full(start, dial, small_disk):
    """The reserve suffices to open what is there, and to take up a session."""
    own = on(small_disk, start)
    assert (AWAY[0], 0x00) in fill(dial, own)
    own.kill()
    own.start()
    assert len(dial(to=own).open(AWAY[0], **KEPT).expect(Kind.PUBLISH).payload) == 100_000


def promise(dial, own, count: int) -> list[int | None]:
    """Messages for a session that is away, one after the other: what each was answered."""
    answers = []
    for number in range(1, count + 1):
        writer = dial(to=own).open("writer")
        writer.publish(AWAY[0], b"message %d" % number, qos=1, packet_id=1)
        try:
            answers.append(writer.expect(Kind.PUBACK).reason)
        except Closed:
            answers.append(None)
        writer.cut()
    return answers


def takes_up_what_was_promised(dial, own, count: int) -> None:
    """The session that was away gets every message that was acknowledged, and in their order."""
    back = dial(to=own).open(AWAY[0], **KEPT)
    assert back.connack.session_present
    got = [back.expect(Kind.PUBLISH).payload for _ in range(count)]
    assert got == [b"message %d" % number for number in range(1, count + 1)]


@pytest.mark.machine("ext4")
def test_a_file_system_that_turns_read_only_takes_no_promise_with_it(start, dial, client, own_disk):
    """What ext4 does after an error: new promises are refused, live traffic flows, the log says which file failed."""
    own = on(own_disk, start)
    go_away(dial, own, AWAY[0])
    assert promise(dial, own, 5) == [0] * 5
    device = Path(subprocess.run(["findmnt", "-no", "SOURCE", str(own_disk)], capture_output=True, text=True).stdout)
    Path("/sys/fs/ext4", device.name.strip(), "trigger_fs_error").write_text("selvedge test\n")
    assert 0 not in promise(dial, own, 3)
    live_traffic_flows(client, own)
    assert "panicked" not in own.said("Read-only file system")
    own.kill()
    mended(own_disk)
    own.start()
    takes_up_what_was_promised(dial, own, 5)


def mended(disk: Path) -> None:
    """Unmounts the file system, has it checked as at a boot, and mounts it again."""
    image = disk.with_suffix(".img")
    subprocess.run(["umount", str(disk)], check=True, timeout=30)
    # A mount namespace that was made meanwhile keeps it, and what is mounted again would be what was there before.
    wait_until(lambda: not subprocess.run(["losetup", "-j", str(image)], capture_output=True).stdout)
    subprocess.run(["e2fsck", "-fy", str(image)], capture_output=True, timeout=60, check=False, env=ENVIRONMENT)
    mounted("-o", "loop,errors=remount-ro", str(image), str(disk))


@pytest.mark.machine("attach")
def test_after_a_sync_that_failed_nothing_more_is_promised(start, dial, client):
    """The kernel may have dropped the pages: a sync that is tried again and succeeds would prove nothing."""
    own = start(arguments=["--shards", "1"], http=True)
    go_away(dial, own, AWAY[0])
    assert promise(dial, own, 5) == [0] * 5
    with injected(own, "fdatasync", "error=EIO"):
        assert promise(dial, own, 1) != [0]
    assert 0 not in promise(dial, own, 3), "acknowledged after a sync had failed"
    live_traffic_flows(client, own)
    assert "panicked" not in own.said("sync failed")
    assert get(own, "/readyz")[0] == 503 and "selvedge_log_stopped" in get(own, "/metrics")[1]
    own.kill()
    own.start()
    takes_up_what_was_promised(dial, own, 5)


@pytest.mark.machine("attach")
def test_a_publisher_that_waits_when_the_sync_fails_is_told(start, dial):
    """Only then can it keep its message and try elsewhere or later."""
    own = start(arguments=["--shards", "1"])
    go_away(dial, own, AWAY[0])
    writer = dial(to=own).open("writer")
    with injected(own, "fdatasync", "error=EIO"):
        writer.publish(AWAY[0], b"x", qos=1, packet_id=1)
        with pytest.raises(Closed):
            writer.receive()


@contextlib.contextmanager
def injected(own, call: str, what: str):
    """Lets a system call of the running broker fail or hang."""
    inject = [f"--inject={call}:{what}", f"--trace={call}", "-f", "-o", str(own.directory / "strace.out")]
    strace = subprocess.Popen(["strace", "-p", str(own.process.pid), *inject], stderr=subprocess.PIPE, text=True)
    said = strace.stderr.readline()
    assert "attached" in said, said
    time.sleep(0.1)  # It names the process first and its threads after; nothing says which is the last.
    yield
    strace.terminate()
    strace.wait(PATIENCE_S)


@pytest.mark.machine("attach")
def test_a_disk_that_hangs_delays_only_those_who_wait_for_it(start, dial, client):
    """Nothing on the loop waits for the disk: clean sessions are served while a sync takes seconds."""
    own = start(arguments=["--shards", "1"])
    go_away(dial, own, AWAY[0])
    with injected(own, "fdatasync", "delay_enter=4000000"):
        waiting = dial(to=own).open("waiting")
        waiting.publish(AWAY[0], b"message 1", qos=1, packet_id=1)
        live_traffic_flows(client, own)
        with pytest.raises(TimeoutError):
            waiting.receive(0.1)
        waiting.ping()  # Or it would take the edge for gone.
        assert waiting.expect(Kind.PUBACK, 30).reason == 0
    takes_up_what_was_promised(dial, own, 1)


@pytest.mark.parametrize("version", [4, 5])
def test_a_publisher_that_is_faster_than_the_disk_waits_and_is_not_turned_away(start, dial, version):
    """It sends at once twenty times what may wait for the disk in memory."""
    memory = "[store]\nsegment_bytes = 65536\npending_bytes = 32768\n"
    own = start(arguments=["--shards", "1"], configuration=memory)
    go_away(dial, own, AWAY[0])
    publisher = dial(to=own, version=version).open("fast")
    numbers = range(1, 1_301)
    messages = [wire.publish(AWAY[0], bytes(500), version, qos=1, packet_id=number) for number in numbers]
    publisher.send(b"".join(messages))
    acknowledged = [publisher.expect(Kind.PUBACK) for _ in numbers]
    assert [(ack.packet_id, ack.reason or 0) for ack in acknowledged] == [(number, 0) for number in numbers]


@pytest.mark.machine("attach")
def test_nothing_is_said_of_a_twin_before_the_disk_has_it(start, dial):
    """Neither a result, nor the desired state, nor an answer with it: a crash could take the version back."""
    own = start(arguments=["--shards", "1"])
    twin = "devices/p7/twin"
    device, app = dial(to=own).open("p7"), dial(to=own).open("app")
    device.subscribe([(f"{twin}/desired", 1)])
    app.subscribe([(f"{twin}/desired/set/result", 0), (f"{twin}/get/result", 0)])
    with injected(own, "fdatasync", "delay_enter=3000000"):
        app.publish(f"{twin}/desired/set", b'{"interval_s": 10}')
        app.publish(f"{twin}/get")
        for waiting in (app, device):
            with pytest.raises(TimeoutError):
                waiting.receive(0.5)
            waiting.ping()
        results = [app.expect(Kind.PUBLISH, 30) for _ in range(2)]
        assert [got.topic for got in results] == [f"{twin}/desired/set/result", f"{twin}/get/result"]
        assert json.loads(results[0].payload)["version"] == 1
        assert json.loads(device.expect(Kind.PUBLISH, 30).payload) == {"interval_s": 10, "$version": 1}


@pytest.mark.machine("attach")
def test_what_is_to_be_said_of_twins_waits_for_the_disk_within_a_bound(start, dial):
    """An app that asks on while a sync hangs is refused before its answers fill the memory, and asks again later."""
    own = start(arguments=["--shards", "1"], http=True)
    device, app, topic = dial(to=own).open("p7"), dial(to=own).open("app"), "devices/p7/twin/desired/set"
    device.subscribe([("devices/p7/twin/desired", 1)])
    app.publish(topic, b'{"large": "%s"}' % (b"x" * 30_000), qos=1, packet_id=1)
    device.answer(Kind.PUBACK, device.expect(Kind.PUBLISH).packet_id)
    app.expect(Kind.PUBACK)
    before = own.rss_bytes()
    with injected(own, "fdatasync", "delay_enter=4000000"):
        app.publish(topic, b'{"n": 1}')
        for _ in range(3000):
            app.publish(topic, b'{"$version": 7}')  # Each answer has the whole state with it.
        app.ping()
        assert own.rss_bytes() - before < 48 << 20
    assert int(get(own, "/metrics")[1].split("\nselvedge_twin_changes_refused_total ")[1].split()[0]) > 2000
    assert json.loads(device.expect(Kind.PUBLISH, 30).payload)["n"] == 1
    app.publish(topic, b'{"n": 2}', qos=1, packet_id=2)
    assert app.expect(Kind.PUBACK, 30).reason == 0
