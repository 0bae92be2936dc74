"""Twins and calls across the link: what the cloud desires arrives at the device, what that reports in the cloud."""

from __future__ import annotations

import json
import os
import random
import time

import pytest

from clocks import Clock
from paho_client import Client
from sites import PASSWORD, Site, backed_up, restored, wait_until
from test_operation import get

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]

DAY_S = 86_400
# After the host's clock: what somebody sets a wall clock to.
JUMPS_S = [-30 * DAY_S, -DAY_S, -3_600, -60, 0, 60, 3_600, DAY_S, 30 * DAY_S]


@pytest.fixture
def site(tmp_path):
    """A cloud and an edge."""
    made = Site(tmp_path)
    yield made
    made.close()


def pump(site: Site) -> Client:
    """The device at the edge."""
    return Client(site.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()


def twin(side) -> dict:
    """Both states, without their versions."""
    said = json.loads(side.run("twin", "get", "pump-7", "--output", "json").stdout)
    return {name: {key: value for key, value in said[name].items() if key != "$version"} for name in said}


def version(side) -> int:
    return json.loads(side.run("twin", "get", "pump-7", "--output", "json").stdout)["desired"].get("$version", 0)


def desire(side, **values: object) -> None:
    side.run("twin", "set", "pump-7", json.dumps(values))


def are_equal(site: Site) -> bool:
    return twin(site.cloud) == twin(site.edge) and version(site.cloud) == version(site.edge)


def test_a_device_of_an_edge_is_known_in_the_cloud_without_being_added(site):
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)


def test_what_a_device_reports_at_its_edge_is_read_in_the_cloud(site):
    device = pump(site)
    device.publish("devices/pump-7/twin/reported", json.dumps({"level": 0.83, "valve": {"open": True}}))
    wait_until(lambda: twin(site.cloud)["reported"] == {"level": 0.83, "valve": {"open": True}})
    device.publish("devices/pump-7/twin/reported", json.dumps({"valve": None}))
    wait_until(lambda: twin(site.cloud)["reported"] == {"level": 0.83})
    device.disconnect()


def test_what_the_cloud_desires_arrives_at_the_device(site):
    device = pump(site)
    device.subscribe("devices/pump-7/twin/desired")
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    desire(site.cloud, interval_s=10)
    assert json.loads(device.receive().payload)["interval_s"] == 10
    wait_until(lambda: are_equal(site))
    device.disconnect()


def test_what_was_desired_while_the_edge_was_away_arrives_once_it_is_back(site):
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    site.edge.stop()
    desire(site.cloud, interval_s=10)
    site.edge.start()
    device = pump(site)
    device.subscribe("devices/pump-7/twin/desired")
    wait_until(lambda: twin(site.edge)["desired"] == {"interval_s": 10})
    assert json.loads(device.receive().payload)["interval_s"] == 10
    device.disconnect()


@pytest.mark.parametrize("is_found_out", [False, True])
def test_what_was_desired_while_the_line_was_cut_reaches_a_device_that_stayed_connected_and_asks_for_nothing(
    tmp_path, is_found_out
):
    """Whether the cloud knew or not that it did not reach the edge."""
    site = Site(tmp_path)
    try:
        wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
        device = pump(site)
        device.subscribe("devices/pump-7/twin/desired")
        site.line.cut()
        if is_found_out:
            wait_until(lambda: not site.cloud.edges()[0]["is_connected"], 30)
        desire(site.cloud, interval_s=10)
        said = requests_of_clients(site)
        assert device.messages.empty()
        site.line.mend()
        # The edge's pause before it dials again, and what commands take on a busy machine.
        site.edge.is_connected(60)
        connected_at = time.monotonic()
        assert json.loads(device.receive().payload) == {"$version": 1, "interval_s": 10}
        print(f"the device had it {time.monotonic() - connected_at:.3f} s after the link was seen to be back")
        assert time.monotonic() - connected_at < 5
        assert requests_of_clients(site) == said, "the device has asked for it"
        device.disconnect()
    finally:
        site.close()


def requests_of_clients(site: Site) -> list[str]:
    """How many messages the edge had from its clients, connections and subscriptions of theirs."""
    counted = ("messages_received_total ", "connects_total ", 'subscriptions{tenant="default"} ')
    page = get(site.edge, "/metrics")[1].splitlines()
    return [line for line in page if line.startswith(tuple(f"selvedge_{name}" for name in counted))]


def test_of_two_edits_of_one_value_the_edges_stays_and_the_other_is_reported(site):
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    site.cloud.run("app", "add", "dash", "--password", PASSWORD)
    dash = Client(site.cloud.port, "dash", user="dash", password=PASSWORD).opened()
    dash.subscribe("devices/+/twin/desired/conflict")
    site.line.cut()
    desire(site.edge, speed=1, only_edge=True)
    desire(site.cloud, speed=2, only_cloud=True)
    site.line.mend()
    wait_until(lambda: are_equal(site), 60)
    assert twin(site.cloud)["desired"] == {"speed": 1, "only_edge": True, "only_cloud": True}
    said = dash.receive()
    assert said.topic == "devices/pump-7/twin/desired/conflict"
    told = json.loads(said.payload)
    assert {name: told[name] for name in ("pointer", "kept", "lost")} == {"pointer": "/speed", "kept": 1, "lost": 2}
    dash.disconnect()


def lost_edits(side) -> list[tuple]:
    """What `selvedge twin history` says."""
    said = json.loads(side.run("twin", "history", "pump-7", "--output", "json").stdout)
    return [(edit["side"], edit["pointer"], edit["kept"], edit["lost"]) for edit in said]


def test_an_edit_that_was_lost_is_found_in_the_history_of_both_sides_though_both_are_killed(site):
    """Once, however often it was told."""
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    assert lost_edits(site.cloud) == lost_edits(site.edge) == []
    expected = []
    for speed in (1, 3):
        site.line.cut()
        desire(site.edge, speed=speed)
        desire(site.cloud, speed=speed + 1)
        site.line.mend()
        expected.append(("cloud", "/speed", speed, speed + 1))
        wait_until(lambda: lost_edits(site.cloud) == expected and lost_edits(site.edge) == expected, 60)
        for side in (site.cloud, site.edge):
            side.kill()
            side.start()
            assert lost_edits(side) == expected
    wait_until(lambda: are_equal(site), 60)
    assert "/speed" in site.edge.run("twin", "history", "pump-7").stdout
    desire(site.edge, speed=9)
    wait_until(lambda: are_equal(site), 60)
    assert lost_edits(site.cloud) == lost_edits(site.edge) == expected


def test_through_random_edits_cuts_and_kills_both_sides_end_equal_and_versions_never_go_back(site):
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    dice, versions = random.Random(11), {"cloud": 0, "edge": 0}
    for step in range(40):
        side = dice.choice(["cloud", "edge"])
        match dice.randrange(6):
            case 0:
                site.line.hang_up()
            case 1:
                getattr(site, side).kill()
                getattr(site, side).start()
            case _:
                leaf = dice.choice("abc")
                desire(getattr(site, side), **{leaf: dice.choice([step, {"x": step}, None])})
        for name, before in versions.items():
            versions[name] = version(getattr(site, name))
            assert versions[name] >= before, f"the version went back from {before} to {versions[name]} at the {name}"
    wait_until(lambda: are_equal(site), 60)
    wait_until(lambda: lost_edits(site.cloud) == lost_edits(site.edge), 60)


@pytest.mark.machine("faketime")
@pytest.mark.parametrize("clock_s", [0, -30 * DAY_S])
def test_what_a_cloud_from_a_backup_desires_before_it_meets_its_edge_stays_and_what_it_had_forgotten_comes_back(
    site, tmp_path, clock_s
):
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    desire(site.cloud, interval_s=10, mode="eco")
    backup = backed_up(site.cloud, tmp_path)
    desire(site.cloud, speed=2, mode="off")
    desire(site.edge, valve="open")
    wait_until(lambda: are_equal(site), 60)
    site.line.cut()
    restored(site.cloud, backup, clock_s)
    assert twin(site.cloud)["desired"] == {"interval_s": 10, "mode": "eco"}
    desire(site.cloud, mode="boost", lamp=True, interval_s=20)
    site.line.mend()
    wait_until(lambda: are_equal(site), 60)
    expected = {"interval_s": 20, "mode": "boost", "lamp": True, "speed": 2, "valve": "open"}
    assert twin(site.edge)["desired"] == expected
    wait_until(lambda: lost_edits(site.cloud) == lost_edits(site.edge) == [("cloud", "/mode", "boost", "off")], 60)


@pytest.mark.machine("faketime")
@pytest.mark.parametrize("clock_s", [0, -30 * DAY_S])
def test_what_an_edge_from_a_backup_desires_and_its_device_reports_stays_and_what_it_had_forgotten_comes_back(
    site, tmp_path, clock_s
):
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    desire(site.edge, interval_s=10, mode="eco")
    backup = backed_up(site.edge, tmp_path)
    device = pump(site)
    device.publish("devices/pump-7/twin/reported", json.dumps({"level": 0.83, "firmware": 1}))
    device.disconnect()
    desire(site.edge, speed=2, mode="off")
    desire(site.cloud, valve="open")
    wait_until(lambda: are_equal(site), 60)
    site.line.cut()
    restored(site.edge, backup, clock_s)
    device = pump(site)
    device.publish("devices/pump-7/twin/reported", json.dumps({"firmware": 2, "lamp": True}))
    device.disconnect()
    desire(site.edge, mode="boost", lamp=True)
    site.line.mend()
    wait_until(lambda: are_equal(site), 60)
    assert twin(site.cloud) == {
        "desired": {"interval_s": 10, "mode": "boost", "lamp": True, "speed": 2, "valve": "open"},
        "reported": {"level": 0.83, "firmware": 2, "lamp": True},
    }
    wait_until(lambda: lost_edits(site.cloud) == lost_edits(site.edge) == [("edge", "/mode", "boost", "off")], 60)


class Edits:
    """Edits of single leaves of a desired state, each with a value of its own, and what became of them."""

    LEAVES = "abc"

    def __init__(self, site: Site):
        self.sides = {"cloud": site.cloud, "edge": site.edge}
        self.versions = dict.fromkeys(self.sides, 0)
        # Values that an edit on one side gave up knowingly, for it was based on them.
        self.replaced: set[int] = set()
        self.acknowledged: dict[int, str] = {}
        self.lost: dict[str, set[int]] = {side: set() for side in self.sides}

    def read(self, side: str) -> dict:
        """The desired state, whose version never goes back."""
        desired = json.loads(self.sides[side].run("twin", "get", "pump-7", "--output", "json").stdout)["desired"]
        found, before = desired.get("$version", 0), self.versions[side]
        assert found >= before, f"the version went back from {before} to {found} at the {side}"
        self.versions[side] = found
        return desired

    def edit(self, side: str, leaf: str, value: int | None) -> None:
        """Based on what is there: if that changes meanwhile, nothing is edited."""
        before = self.read(side)
        patch = json.dumps({"$version": self.versions[side], leaf: value})
        said = self.sides[side].run("twin", "set", "pump-7", patch, check=False)
        if said.returncode:
            assert "version" in said.stderr, said.stderr
            return
        self.replaced.add(before.get(leaf))
        if value is not None:
            self.acknowledged[value] = leaf

    def look(self) -> None:
        """The history keeps the newest edits alone."""
        for side, lost in self.lost.items():
            self.read(side)
            lost.update(edit[3] for edit in lost_edits(self.sides[side]) if edit[3] is not None)

    def check(self) -> None:
        """No acknowledged edit is gone without a word, on either side."""
        self.look()
        final = self.read("cloud")
        for value, leaf in self.acknowledged.items():
            if value in self.replaced or final.get(leaf) == value:
                continue
            for side, lost in self.lost.items():
                assert value in lost, f"{leaf} = {value} is gone, and the {side} does not know"


@pytest.mark.machine("faketime")
def test_through_random_edits_cuts_kills_and_clock_jumps_no_acknowledged_edit_is_gone_without_a_word(site, tmp_path):
    """For SELVEDGE_TWINS_S seconds, with the seed SELVEDGE_TWINS_SEED."""
    seed = int(os.environ.get("SELVEDGE_TWINS_SEED") or random.randrange(1 << 32))
    print(f"SELVEDGE_TWINS_SEED={seed}")
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    dice, edits, clocks = random.Random(seed), Edits(site), {}
    for name, side in edits.sides.items():
        side.stop()
        clocks[name] = Clock(side.directory)
        side.settings.environment = clocks[name].environment
        side.start()
    until, step = time.monotonic() + float(os.environ.get("SELVEDGE_TWINS_S", "15")), 0
    while time.monotonic() < until:
        step += 1
        side = dice.choice(list(edits.sides))
        match dice.randrange(12):
            case 0:
                site.line.hang_up()
            case 1:
                site.line.cut()
            case 2 | 3:
                site.line.mend()
            case 4:
                edits.sides[side].kill()
                edits.sides[side].start()
            case 5:
                clocks[side].set(dice.choice(JUMPS_S))
            case 6:
                edits.look()
            case _:
                edits.edit(side, dice.choice(Edits.LEAVES), dice.choice([step, step, step, None]))
    site.line.mend()
    wait_until(lambda: are_equal(site), 60)
    wait_until(lambda: lost_edits(site.cloud) == lost_edits(site.edge), 60)
    edits.check()
    print(f"{step} steps, {len(edits.acknowledged)} edits, {len(edits.lost['edge'])} lost to others and reported")


def test_a_device_behind_an_edge_is_called_from_the_cloud_by_an_application(site):
    wait_until(lambda: "pump-7" in site.cloud.run("device", "list").stdout)
    site.cloud.run("app", "add", "dash", "--password", PASSWORD)
    dash = Client(site.cloud.port, "dash", user="dash", password=PASSWORD).opened()
    dash.subscribe("devices/pump-7/methods/+/+/result")
    device = pump(site)
    device.subscribe("devices/pump-7/methods/+/+")
    for number in range(20):
        dash.publish(f"devices/pump-7/methods/stop/{number}", b"now", qos=0)
        call = device.receive()
        assert (call.topic, call.payload) == (call.topic, b"now")
        device.publish(f"{call.topic}/result", json.dumps({"status": 200, "payload": number}))
        result = dash.receive()
        assert result.topic == f"devices/pump-7/methods/stop/{number}/result"
        assert json.loads(result.payload) == {"status": 200, "payload": number}
    for client in (dash, device):
        client.disconnect()
