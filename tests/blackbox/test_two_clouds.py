"""Two clouds that write into one PostgreSQL: whatever both are sent of an edge goes in once."""

from __future__ import annotations

import socket
import threading

import pytest

from brokers import Settings
from sites import PASSWORD, Cloud, Line, Pump, Site, wait_until
from test_cloud_database import PATIENCE_S, numbers

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]


@pytest.fixture
def site(tmp_path, postgres):
    """A cloud with an edge behind it."""
    made = Site(tmp_path, database=postgres.url)
    yield made
    made.close()


class OneWay(Line):
    """A line on which the edge speaks and, while it is deaf, hears nothing."""

    is_deaf = False

    def _pass_on(self, end: socket.socket) -> None:
        if self.is_deaf and not self.selector.get_key(end).data:
            end.recv(1 << 16)
        else:
            super()._pass_on(end)


@pytest.fixture
def second(tmp_path, site, postgres):
    """Another cloud with the same database, which the edge may be led to."""
    made = Cloud(tmp_path / "second", Settings(anonymous=False, arguments=["--database", postgres.url]))
    made.directory.mkdir()
    made.start()
    made.run("edge", "add", "hall-1", "--password", PASSWORD)
    site.cloud.run("edge", "rotate", "hall-1", "--password", PASSWORD)
    (site.edge.directory / "password").write_text(PASSWORD)
    both = tmp_path / "both.pem"
    both.write_text("".join((cloud.data / "ca.pem").read_text() for cloud in (site.cloud, made)))
    site.edge.stop()
    site.line.close()
    configuration = site.edge.settings.configuration.replace(str(site.cloud.data / "ca.pem"), str(both))
    old_port, site.line = site.line.port, OneWay(site.cloud.tls_port)
    site.edge.settings.configuration = configuration.replace(f":{old_port}", f":{site.line.port}")
    site.edge.start()
    site.edge.is_connected()
    yield made
    made.stop()


def lead(site: Site, here: Cloud, there: Cloud) -> None:
    """The edge is cut off from a cloud whose word it did not hear any more, and finds another where that was."""
    before, site.line.is_deaf = arrived(here), True
    wait_until(lambda: arrived(here) >= before + 5)
    site.line.cut()
    site.line.target, site.line.is_deaf = there.tls_port, False
    site.line.mend()


def arrived(cloud: Cloud) -> int:
    """Messages that a cloud took from the edge since it started."""
    (edge,) = cloud.edges()
    return sum(arrival["taken"] for arrival in edge["arrivals"])


@pytest.mark.parametrize("is_killed", [False, True], ids=["cut", "killed"])
def test_what_two_clouds_have_of_one_edge_is_in_their_database_once(site, second, postgres, is_killed):
    """While the database hangs both get the same, because the first could not say that it had it; then both ingest."""
    pump, stop = Pump(site), threading.Event()
    sending = threading.Thread(target=pump.run, args=(stop,))
    sending.start()
    clouds = [site.cloud, second]
    try:
        for _ in range(2):
            for here, there in (clouds, clouds[::-1]):
                postgres.order("pause")
                before = arrived(there)
                lead(site, here, there)
                if is_killed:
                    here.kill()
                wait_until(lambda there=there, before=before: arrived(there) >= before + 50, PATIENCE_S)
                if is_killed:
                    here.start()
                in_before = len(pump.acknowledged)
                postgres.order("resume")
                wait_until(lambda count=in_before: len(numbers(postgres)) >= count, PATIENCE_S)
    finally:
        stop.set()
        sending.join(60)
    wait_until(lambda: site.edge.ledger()["queued"] == 0, PATIENCE_S)
    acknowledged = set(pump.acknowledged)
    wait_until(lambda: acknowledged <= set(numbers(postgres)), PATIENCE_S)
    rows = numbers(postgres)
    assert len(rows) == len(set(rows)), "rows came twice"
    assert set(rows) <= set(range(pump.sent)) and len(acknowledged) > 500
    assert site.edge.ledger()["dropped"] == {}
    came = [arrived(cloud) for cloud in clouds]
    assert sum(came) >= len(rows) + 20, f"{came} came, {len(rows)} are rows: hardly any came to both"
