"""A line that falls silent without a FIN or an RST: both ends find it in their stated times, and the edge comes back by
another way."""

from __future__ import annotations

import threading
import time

import pytest

from namespaces import FarSite
from sites import Pump, numbers, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud"), pytest.mark.machine("namespaces")]

# An edge gives up a line that is silent for 20 s, and looks every 5 s.
EDGE_FINDS_IT_S = 20 + 5
# A cloud gives up an edge that is silent for one and a half times its Keep Alive of 10 s, and looks every second.
CLOUD_FINDS_IT_S = 15 + 1
# What commands take on a busy machine.
SLACK_S = 3


@pytest.fixture
def far_site(tmp_path):
    """A cloud in a namespace, and an edge here."""
    made = FarSite(tmp_path)
    yield made
    made.close()


def test_a_half_open_line_is_found_by_both_ends_and_what_was_on_it_goes_by_another_way_once(far_site):
    one = far_site
    pump, stop = Pump(one), threading.Event()
    device = threading.Thread(target=pump.run, args=(stop,), daemon=True)
    device.start()
    wait_until(lambda: len(one.cloud.rows()) > 50)
    one.ways.silence("a")
    silent_at = time.monotonic()
    # Those of the old line are found by what they carry, not by the route.
    one.ways.take("b")
    wait_until(lambda: not one.cloud.edges()[0]["is_connected"], CLOUD_FINDS_IT_S + SLACK_S)
    print(f"the cloud found it after {time.monotonic() - silent_at:.1f} s")
    wait_until(lambda: one.edge.link()["last_error"] is not None, EDGE_FINDS_IT_S + SLACK_S)
    found_s = time.monotonic() - silent_at
    assert found_s < EDGE_FINDS_IT_S + SLACK_S
    print(f"the edge found it after {found_s:.1f} s: {one.edge.link()['last_error']}")
    one.edge.is_connected()
    assert one.cloud.edges()[0]["is_connected"]
    stop.set()
    device.join(30)
    wait_until(lambda: one.edge.ledger()["queued"] == 0, 60)
    rows = one.cloud.has_rows(len(pump.acknowledged), 60)
    assert sorted(numbers(rows)) == sorted(set(pump.acknowledged)) == list(range(pump.sent))


def test_an_idle_line_that_falls_silent_is_found_as_soon(far_site):
    one = far_site
    one.ways.silence("a")
    silent_at = time.monotonic()
    one.ways.take("b")
    wait_until(lambda: one.edge.link()["last_error"] is not None, EDGE_FINDS_IT_S + SLACK_S)
    print(f"the edge found it after {time.monotonic() - silent_at:.1f} s: {one.edge.link()['last_error']}")
    one.edge.is_connected()


def test_an_edge_that_starts_again_behind_a_dead_line_is_not_refused_for_its_own_name(far_site):
    """Power fails together with the line: nobody tells the cloud that the old connection is none any more."""
    one = far_site
    pump = Pump(one)
    pump.send(20)
    one.ways.silence("a")
    pump.send(20)
    one.edge.kill()
    one.ways.take("b")
    one.edge.start()
    assert one.cloud.edges()[0]["is_connected"], "the cloud knows nothing yet"
    began = time.monotonic()
    while not (link := one.edge.link())["is_connected"]:
        assert link["last_error"] is None, link["last_error"]
        assert time.monotonic() < began + CLOUD_FINDS_IT_S
        time.sleep(0.1)  # A command gives no event when its answer changes.
    print(f"it was let in after {time.monotonic() - began:.1f} s")
    pump.send(20)
    assert sorted(numbers(one.cloud.has_rows(60, 60))) == list(range(60))


def test_a_cloud_gives_up_an_edge_that_takes_nothing_any_more(far_site):
    """Twins without end for an edge behind a dead line: they fill what the kernel holds."""
    one = far_site
    wait_until(lambda: "pump-7" in one.cloud.run("device", "list").stdout)
    one.ways.silence("a")
    silent_at = time.monotonic()
    number = 0
    while one.cloud.edges()[0]["is_connected"]:
        assert time.monotonic() < silent_at + CLOUD_FINDS_IT_S + SLACK_S
        number += 1
        one.cloud.run("twin", "set", "pump-7", f'{{"pad": "{number}{"x" * 30_000}"}}')
    one.ways.take("b")
    one.edge.is_connected(60)
    wait_until(lambda: f'"pad": "{number}x' in one.edge.run("twin", "get", "pump-7").stdout, 60)
