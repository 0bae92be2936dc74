"""All of an edge or a cloud in one sealed file: made while it runs, and back on another machine."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest

from applications import SLEEPS, application, apply, ending, runs
from brokers import Selvedge
from sites import PASSWORD, Pump, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("backup")]


@pytest.fixture
def passphrase(tmp_path) -> Path:
    """A file with one."""
    path = tmp_path / "passphrase"
    path.write_text("correct horse battery staple\n")
    return path


def backed_up(node: Selvedge, tmp_path: Path, passphrase: Path) -> Path:
    """A backup of it, as it is now."""
    file = tmp_path / "backup"
    node.run("backup", "create", str(file), "--passphrase-file", str(passphrase))
    return file


def back(node: Selvedge, file: Path, passphrase: Path, check: bool = True):
    """In the data directory of another, which has not begun."""
    return node.run("backup", "restore", str(file), "--passphrase-file", str(passphrase), check=check)


def twin(node: Selvedge, device: str) -> dict:
    """What is desired of it."""
    desired = json.loads(node.run("twin", "get", device, "--output", "json").stdout)["desired"]
    return {name: value for name, value in desired.items() if not name.startswith("$")}


def test_a_running_edge_comes_back_with_devices_twins_queues_and_applications(start, client, tmp_path, passphrase):
    here, there = start(anonymous=False), start(anonymous=False, begin=False)
    with ending(here), ending(there):
        here.run("device", "add", "pump-7", "--password", PASSWORD)
        here.run("app", "add", "dashboard", "--password", PASSWORD)
        here.run("twin", "set", "pump-7", '{"interval_s": 10}')
        apply(here, application("site", SLEEPS))
        runs(here, "site")
        stays = {"user": "dashboard", "password": PASSWORD, "clean": False, "SessionExpiryInterval": 3_600}
        waiting = client("dashboard", to=here, **stays)
        waiting.subscribe("devices/+/telemetry", qos=1)
        waiting.disconnect()
        pump = client("pump-7", to=here, user="pump-7", password=PASSWORD)
        for number in range(50):
            pump.publish("devices/pump-7/telemetry", b"%d" % number, qos=1)
        file = backed_up(here, tmp_path, passphrase)
        assert file.stat().st_mode & 0o777 == 0o600
        back(there, file, passphrase)
        assert {path.name for path in tmp_path.iterdir()} == {"backup", "passphrase"}
        there.start()
        assert twin(there, "pump-7") == {"interval_s": 10}
        runs(there, "site")
        again = client("pump-7", to=there, user="pump-7", password=PASSWORD)
        again.publish("devices/pump-7/telemetry", b"after", qos=1)
        reader = client("dashboard", to=there, **stays)
        assert reader.session_present
        assert reader.payloads(51) == [*(b"%d" % number for number in range(50)), b"after"]


def test_under_load_each_backup_starts_and_has_all_that_was_acknowledged_before_it(start, client, tmp_path, passphrase):
    here = start(configuration="[store]\nsegment_bytes = 1048576\npending_bytes = 262144\n")
    stays = {"clean": False, "SessionExpiryInterval": 3_600}
    waiting = client("waits", to=here, **stays)
    waiting.subscribe("load/#", qos=1)
    waiting.disconnect()
    acknowledged, stop = [0], threading.Event()
    loads = client("loads", to=here)

    def load() -> None:
        while not stop.is_set():
            loads.publish("load/x", b"%d " % acknowledged[0] + b"x" * 2_000, qos=1)
            acknowledged[0] += 1

    loading = threading.Thread(target=load)
    loading.start()
    try:
        for turn in range(1, 6):
            wait_until(lambda: acknowledged[0] > turn * 150)  # noqa: B023
            before = acknowledged[0]
            file = backed_up(here, tmp_path, passphrase)
            there = start(begin=False)
            back(there, file, passphrase)
            there.start()
            reader = client("waits", to=there, **stays)
            numbers = [int(payload.split()[0]) for payload in reader.payloads(before)]
            assert numbers == list(range(before))
            reader.close()
            there.stop()
            assert "amage" not in there.tail(200)
    finally:
        stop.set()
        loading.join()


def test_without_its_passphrase_or_damaged_it_changes_nothing(start, tmp_path, passphrase):
    here, there = start(), start(begin=False)
    here.run("device", "add", "pump-7", "--password", PASSWORD)
    file = backed_up(here, tmp_path, passphrase)
    assert b"pump-7" not in file.read_bytes()
    other = tmp_path / "other"
    other.write_text("some other passphrase")
    refused = back(there, file, other, check=False)
    assert refused.returncode == 1 and "the passphrase is another one" in refused.stderr
    whole = file.read_bytes()
    for bad, words in (
        (whole[:-1], "damaged"),
        (whole[:-20] + b"x" + whole[-19:], "damaged"),
        (b"x" + whole[1:], "no backup"),
    ):
        file.write_bytes(bad)
        refused = back(there, file, passphrase, check=False)
        assert refused.returncode == 1 and words in refused.stderr, refused.stderr
        assert not there.data.exists() and not there.data.with_suffix(".part").exists()
    file.write_bytes(whole)
    other.write_text("short\n")
    weak = here.run("backup", "create", str(tmp_path / "weak"), "--passphrase-file", str(other), check=False)
    assert weak.returncode == 1 and "less than 12 bytes" in weak.stderr
    occupied = back(here, file, passphrase, check=False)
    assert occupied.returncode == 1 and "something is there" in occupied.stderr
    assert here.alive()


def test_by_schedule_one_is_made_where_the_last_is_old_and_the_oldest_go(start, tmp_path, passphrase):
    place = tmp_path / "backups"
    place.mkdir()
    own = f"edge-{os.uname().nodename}"
    old = [place / f"{own}-2026010{day}-000000.backup" for day in (1, 2, 3)]
    others = [
        f"edge-elsewhere-{time.strftime('%Y%m%d-%H%M%S')}.backup",
        f"{own}-29990101-000000.backup",
        f"{own}.backup",
    ]
    others = [place / name for name in others]
    for path in old + others:
        path.write_bytes(b"")
    scheduled = f"[backup]\ndirectory = '{place}'\nkeep = 2\npassphrase_file = '{passphrase}'\n"
    here, there = start(configuration=scheduled, begin=False), start(begin=False)
    here.run("device", "add", "pump-7", "--password", PASSWORD)
    here.start()
    new = lambda: set(place.glob("*.backup")) - set(old) - set(others)  # noqa: E731
    wait_until(lambda: new() and not old[1].exists())
    assert set(place.iterdir()) == {old[2], *others, *new()}
    back(there, new().pop(), passphrase)
    assert [one["id"] for one in json.loads(there.run("device", "list", "--output", "json").stdout)] == ["pump-7"]


def test_an_edge_that_comes_back_links_to_its_cloud_and_no_reading_is_lost(site, tmp_path, passphrase):
    one = site()
    pump = Pump(one)
    pump.send(20)
    one.cloud.has_rows(20)
    file = backed_up(one.edge, tmp_path, passphrase)
    pump.send(20)
    one.cloud.has_rows(40)
    one.edge.stop()
    one.edge.data.rename(tmp_path / "gone")
    back(one.edge, file, passphrase)
    one.edge.start()
    one.edge.is_connected()
    pump.send(20)
    one.cloud.has_rows(60)


def test_a_running_cloud_comes_back_with_its_edges_and_readings(site, tmp_path, passphrase):
    one = site()
    pump = Pump(one)
    pump.send(20)
    one.cloud.has_rows(20)
    one.cloud.run("twin", "set", "pump-7", '{"interval_s": 10}')
    file = backed_up(one.cloud, tmp_path, passphrase)
    one.cloud.stop()
    one.cloud.data.rename(tmp_path / "gone")
    back(one.cloud, file, passphrase)
    one.cloud.start()
    one.edge.is_connected()
    one.cloud.has_rows(20)
    assert twin(one.cloud, "pump-7") == {"interval_s": 10}
    pump.send(20)
    one.cloud.has_rows(40)
