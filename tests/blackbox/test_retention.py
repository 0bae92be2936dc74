"""How long telemetry is kept: by the cloud's figure, and by a tenant's own, which is followed while the cloud runs."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from brokers import Settings
from http_api import Api
from paho_client import Client
from postgres import Postgres
from sites import PASSWORD, Cloud, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "user")]

# What is to be kept is looked at every 5 s.
PATIENCE_S = 60
DAY_S = 86_400
OLD_DAYS = 10


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """A database's URL, what makes all its rows ten days old, and who says how many it has."""
    if request.param == "sqlite":
        file = tmp_path / "rows.db"

        def sql(text: str) -> list:
            with contextlib.closing(sqlite3.connect(file, timeout=30)) as connection:
                rows = connection.execute(text.replace("selvedge.", "")).fetchall()
                connection.commit()
                return [str(row[0]) for row in rows]

        yield f"sqlite:{file}", lambda: age(sql), sql
        return
    server = Postgres()

    def make_older() -> None:
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        # Today's rows, and yesterday's where midnight has just passed.
        for days in (OLD_DAYS, OLD_DAYS + 1):
            day = midnight - timedelta(days=days)
            start_ms = int(day.timestamp()) * 1000
            server.sql(
                f"CREATE TABLE selvedge.telemetry_{day:%Y%m%d} PARTITION OF selvedge.telemetry"
                f" FOR VALUES FROM ({start_ms}) TO ({start_ms + DAY_S * 1000})"
            )
        age(server.sql)

    yield server.url, make_older, server.sql
    server.close()


def age(sql: Callable[[str], list]) -> None:
    """Makes all rows older by what they were stored."""
    sql(f"UPDATE selvedge.telemetry SET stored_at_ms = stored_at_ms - {OLD_DAYS * DAY_S * 1000}")


class Tenant:
    """One with a pump, and what is kept of its readings."""

    def __init__(self, cloud: Cloud, admin: Api, name: str) -> None:
        self.admin, self.name = admin, name
        if name != "default":
            cloud.run("tenant", "add", name)
        cloud.run("device", "add", "pump-7", "--tenant", name, "--password", PASSWORD)
        user = "pump-7" if name == "default" else f"{name}/pump-7"
        self.device = Client(cloud.port, "pump-7", user=user, password=PASSWORD).opened()

    def publish(self, first: int, last: int) -> None:
        """Numbered readings, each acknowledged."""
        for number in range(first, last):
            self.device.publish("devices/pump-7/telemetry", json.dumps({"n": number}), qos=1)

    def kept(self) -> list[int]:
        """What the API says."""
        status, said = self.admin.ask("GET", f"/v1/tenants/{self.name}/devices/pump-7/telemetry/n?limit=1000")
        assert status == 200, said
        return [point["value"] for point in said["points"]]

    def keep(self, seconds: int | None) -> tuple[int, dict]:
        """Sets its retention."""
        return self.admin.ask("PATCH", f"/v1/tenants/{self.name}", {"retention_s": seconds})


def test_a_tenant_keeps_its_telemetry_for_a_time_of_its_own_which_is_followed_at_once(tmp_path, database):
    """Shorter or longer than the cloud's; the rows of others and the latest value stay, and what comes in goes in."""
    url, make_older, sql = database
    settings = Settings(anonymous=False, arguments=["--database", url, "--retention", "30d"])
    cloud = Cloud(tmp_path, settings).start()
    try:
        admin = Api(cloud).log_in("admin", (cloud.data / "admin.password").read_text().strip())
        one, other = Tenant(cloud, admin, "default"), Tenant(cloud, admin, "plant-b")
        for tenant in (one, other):
            tenant.publish(0, 10)
            wait_until(lambda tenant=tenant: tenant.kept() == list(range(10)), PATIENCE_S)
        make_older()
        for tenant in (one, other):
            tenant.publish(10, 20)

        shown = cloud.run("tenant", "set", "plant-b", "--retention", "5d").stdout
        assert "retention           5d" in shown
        wait_until(lambda: other.kept() == list(range(10, 20)), PATIENCE_S)
        assert one.kept() == list(range(20))

        # A second tenant with one of its own; it keeps what is old for longer, until it is told otherwise.
        assert one.keep(20 * DAY_S)[0] == 200
        time.sleep(7)
        assert one.kept() == list(range(20))
        status, said = one.keep(2 * DAY_S)
        assert (status, said["quotas"]["retention_s"]) == (200, 2 * DAY_S)
        wait_until(lambda: one.kept() == list(range(10, 20)), PATIENCE_S)
        status, said = one.keep(None)
        assert (status, said["quotas"]["retention_s"]) == (200, None)

        for tenant in (one, other):
            tenant.publish(20, 25)
            wait_until(lambda tenant=tenant: tenant.kept() == list(range(10, 25)), PATIENCE_S)
            tenant.device.disconnect()
        assert sql("SELECT count(*) FROM selvedge.telemetry") == ["30"]
    finally:
        cloud.stop()


def test_a_time_that_cannot_be_kept_is_refused_with_what_would_be_right(tmp_path):
    """By the API and by the command."""
    cloud = Cloud(tmp_path, Settings(anonymous=False)).start()
    try:
        admin = Api(cloud).log_in("admin", (cloud.data / "admin.password").read_text().strip())
        for seconds in (0, 3_599, 36_500 * DAY_S + 1, "5d"):
            status, said = admin.ask("PATCH", "/v1/tenants/default", {"retention_s": seconds})
            assert status in (400, 422), said
        assert "3600" in admin.ask("PATCH", "/v1/tenants/default", {"retention_s": 60})[1]["error"]
        for text in ("none", "5", "0d"):
            refused = cloud.run("tenant", "set", "default", "--retention", text, check=False)
            assert refused.returncode == 2 and "default" in refused.stderr and "90d" in refused.stderr
        assert admin.ask("GET", "/v1/tenants/default")[1]["quotas"]["retention_s"] is None
    finally:
        cloud.stop()
