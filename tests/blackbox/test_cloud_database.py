"""A cloud whose database is away or full: nothing is lost, nothing doubled, nothing grows without end."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
from pathlib import Path

import pytest

from brokers import BINARY, ENVIRONMENT, Settings
from http_api import Api
from paho_client import Client
from postgres import Postgres
from sites import PASSWORD, Cloud, Site, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "user")]

# A time for all to arrive that no machine needs.
PATIENCE_S = 90


@pytest.fixture
def site(tmp_path, postgres):
    """A cloud with PostgreSQL and an edge; both logs are small."""
    made = Site(tmp_path, cloud=SmallCloud, database=postgres.url)
    yield made
    made.close()


class SmallCloud(Cloud):
    """A cloud of which little may wait for its database."""

    outbox_bytes = 2 << 20

    def command(self) -> list[str]:
        """With a file, and flags over it."""
        file = self.directory / "cloud.toml"
        file.write_text(f"[link]\nbytes = {self.outbox_bytes}\n")
        return [*super().command(), "--config", str(file), "--shards", "1"]


def numbers(postgres: Postgres) -> list[int]:
    """All numbers that are in, with repetitions."""
    rows = postgres.sql("SELECT number::int FROM selvedge.telemetry WHERE number IS NOT NULL ORDER BY 1")
    return [int(row) for row in rows]


def publish(client: Client, device: str, first: int, last: int, size: int = 0) -> None:
    """Numbered readings, each acknowledged."""
    for number in range(first, last):
        client.publish(f"devices/{device}/telemetry", json.dumps({"n": number, "p": "x" * size}), qos=1)


def test_a_database_that_is_away_loses_and_doubles_nothing_though_the_cloud_is_killed_meanwhile(site, postgres):
    """Stopped, killed and hung; the cloud starts without it, and all else that it does goes on."""
    edge = Client(site.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    publish(edge, "pump-7", 0, 50)
    wait_until(lambda: len(numbers(postgres)) == 50, PATIENCE_S)
    sent = 50
    for order, back in (("stop", "start"), ("kill", "start"), ("pause", "resume")):
        postgres.order(order)
        publish(edge, "pump-7", sent, sent + 100)
        site.cloud.kill()
        publish(edge, "pump-7", sent + 100, sent + 150)
        site.cloud.start()
        # It is there for everything else.
        assert "pump-7" in site.cloud.run("device", "list").stdout
        publish(edge, "pump-7", sent + 150, sent + 200)
        site.cloud.kill()
        site.cloud.start()
        sent += 200
        postgres.order(back)
        wait_until(lambda sent=sent: len(numbers(postgres)) >= sent, PATIENCE_S)
        assert numbers(postgres) == list(range(sent)), order
    edge.disconnect()
    wait_until(lambda: site.edge.ledger()["queued"] == 0, PATIENCE_S)
    assert site.edge.ledger()["dropped"] == {}


def test_what_waits_for_a_database_is_bounded_however_long_it_is_away_and_links_hold_back(site, postgres):
    """A cloud's own devices are told that there is no room; the messages of an edge stay with the edge."""
    site.cloud.run("device", "add", "meter", "--password", PASSWORD)
    meter = Api(site.cloud).basic("meter", PASSWORD)
    device = Client(site.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    postgres.order("stop")
    before = site.cloud.rss_bytes()
    # Twelve times what may wait in the cloud.
    publish(device, "pump-7", 0, 600, size=40_000)
    wait_until(lambda: site.edge.ledger()["bytes"] > 15 << 20, PATIENCE_S)
    log_bytes = sum(file.stat().st_size for file in site.cloud.data.glob("log-*/*"))
    assert site.cloud.rss_bytes() - before < 100 << 20
    refused = [meter.ask("POST", "/v1/devices/meter/telemetry", {"m": "x" * 100_000})[0] for _ in range(40)]
    assert refused[-1] == 507, refused
    assert log_bytes < 150 << 20
    postgres.order("start")
    wait_until(lambda: len(numbers(postgres)) >= 600, PATIENCE_S)
    assert numbers(postgres) == list(range(600))
    wait_until(lambda: meter.ask("POST", "/v1/devices/meter/telemetry", {"m": 1})[0] == 204, PATIENCE_S)
    device.disconnect()
    assert site.edge.ledger()["dropped"] == {}


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 MiB in memory."""
    place = tmp_path / "small"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    subprocess.run(words, check=True, timeout=30, env=ENVIRONMENT)
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.machine("mount")
def test_a_database_whose_disk_is_full_heals_when_there_is_room_again(tmp_path, small_disk):
    """What was acknowledged meanwhile goes in, once; questions are answered all the while."""
    url = f"sqlite:{small_disk / 'telemetry.db'}"
    cloud = Cloud(tmp_path, Settings(anonymous=False, arguments=["--database", url])).start()
    try:
        cloud.run("device", "add", "pump-7", "--password", PASSWORD)
        admin = Api(cloud).log_in("admin", (cloud.data / "admin.password").read_text().strip())
        device = Client(cloud.port, "pump-7", user="pump-7", password=PASSWORD).opened()
        publish(device, "pump-7", 0, 10)

        def values() -> list:
            status, said = admin.ask("GET", "/v1/tenants/default/devices/pump-7/telemetry/n?limit=10000")
            assert status == 200, said
            return [point["value"] for point in said["points"]]

        wait_until(lambda: values() == list(range(10)), PATIENCE_S)
        fill(small_disk / "ballast")
        publish(device, "pump-7", 10, 60, size=20_000)
        wait_until(lambda: "disk is full" in cloud.log.read_text(), PATIENCE_S)
        assert len(values()) < 60
        publish(device, "pump-7", 60, 70)
        (small_disk / "ballast").unlink()
        wait_until(lambda: values() == list(range(70)), PATIENCE_S)
        device.disconnect()
    finally:
        cloud.stop()


def fill(path: Path) -> None:
    """Takes all the room that there is."""
    with path.open("wb") as file:
        try:
            while True:
                file.write(b"\0" * 65536)
                file.flush()
        except OSError:
            return


def test_rows_of_a_cloud_go_when_they_have_been_kept_long_enough(tmp_path, postgres):
    """In PostgreSQL by whole days; what comes in meanwhile goes in."""
    arguments = ["--database", postgres.url, "--retention", "48h"]
    cloud = Cloud(tmp_path, Settings(anonymous=False, arguments=arguments)).start()
    try:
        cloud.run("device", "add", "pump-7", "--password", PASSWORD)
        device = Client(cloud.port, "pump-7", user="pump-7", password=PASSWORD).opened()
        publish(device, "pump-7", 0, 10)
        wait_until(lambda: len(numbers(postgres)) == 10, PATIENCE_S)
        cloud.stop()
        postgres.sql(
            "CREATE TABLE selvedge.telemetry_20200101 PARTITION OF selvedge.telemetry"
            " FOR VALUES FROM (1577836800000) TO (1577923200000);"
            "INSERT INTO selvedge.telemetry SELECT series, source_time_ms, received_at_ms, 1577836800000, epoch,"
            " sequence, -1, edge, part, kind, quality, body FROM selvedge.telemetry"
        )
        assert -1 in numbers(postgres)
        cloud.start()
        wait_until(lambda: numbers(postgres) == list(range(10)), PATIENCE_S)
    finally:
        cloud.stop()
    refused = subprocess.run([BINARY, "cloud", "--retention", "soon"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "90d" in refused.stderr


def test_who_looks_into_an_embedded_database_takes_nothing_away(tmp_path):
    """With a tool of theirs, while the cloud runs: readings and devices of after that are there after kill -9."""
    cloud = Cloud(tmp_path, Settings(anonymous=False)).start()
    try:
        cloud.run("device", "add", "pump-7", "--password", PASSWORD)
        admin = Api(cloud).log_in("admin", (cloud.data / "admin.password").read_text().strip())
        device = Client(cloud.port, "pump-7", user="pump-7", password=PASSWORD).opened()

        def values() -> list:
            status, said = admin.ask("GET", "/v1/tenants/default/devices/pump-7/telemetry/n")
            assert status == 200, said
            return [point["value"] for point in said["points"]]

        publish(device, "pump-7", 0, 10)
        wait_until(lambda: values() == list(range(10)), PATIENCE_S)
        for file, table in (("telemetry.db", "telemetry"), ("registry.db", "clients")):
            with contextlib.closing(sqlite3.connect(cloud.data / file)) as looker:
                assert looker.execute(f"SELECT count(*) FROM {table}").fetchone()[0] > 0
            assert (cloud.data / f"{file}-wal").exists(), "the log is taken away from under the cloud"
        publish(device, "pump-7", 10, 20)
        wait_until(lambda: values() == list(range(20)), PATIENCE_S)
        cloud.run("device", "add", "pump-8", "--password", PASSWORD)
        with contextlib.closing(sqlite3.connect(cloud.data / "telemetry.db")) as looker:
            assert looker.execute("SELECT count(*) FROM telemetry WHERE number IS NOT NULL").fetchone()[0] == 20
        cloud.kill()
        cloud.start()
        assert values() == list(range(20))
        assert "pump-8" in cloud.run("device", "list").stdout
    finally:
        cloud.stop()
