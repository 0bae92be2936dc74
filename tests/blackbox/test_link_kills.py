"""Kills of both sides and cuts between them, at random, while two tenants and routes of every policy send more than
their bounds take: nothing that was to be kept is lost, nothing comes twice, and ledgers balance and only grow."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from sites import PASSWORD, Pump, Site, wait_until
from test_link_bounds import apply, route

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]

# By tenant and route; what a pump sends, and what becomes of it where there is no room.
KEPT, SMALL, NEW, REFUSED, OTHER = (
    ("default", "telemetry"),
    ("default", "small"),
    ("default", "new"),
    ("default", "refused"),
    ("plant-b", "telemetry"),
)


class Ledgers:
    """What both sides say of each queue; it balances, and no figure of one goes back."""

    def __init__(self, site: Site):
        self.site = site
        self.last: dict[str, dict[tuple, Counter]] = {"edge": {}, "cloud": {}}

    def look(self, side: str) -> dict[tuple, Counter]:
        """Looks at a side."""
        if side == "edge":
            ledgers = self.site.edge.link()["ledgers"]
        else:
            ledgers = [ledger for edge in self.site.cloud.edges() for ledger in edge["ledgers"]]
        now = {}
        for ledger in ledgers:
            key = (ledger["tenant"], ledger["route"])
            now[key] = Counter(received=ledger["received"], delivered=ledger["delivered"]) + Counter(ledger["dropped"])
            gone_back = self.last[side].get(key, Counter()) - now[key]
            assert not gone_back, f"{side} {key}: {self.last[side][key]} has become {now[key]}"
            assert not now[key]["damaged"] + now[key]["log_full"], (side, key, now[key])
            now[key]["queued"] = ledger["queued"]
        self.last[side] = {key: +Counter(counts) for key, counts in now.items()}
        for counts in self.last[side].values():
            del counts["queued"]
        return now

    def is_settled(self) -> bool:
        """Whether nothing waits on either side."""
        looks = [self.look(side) for side in ("edge", "cloud")]
        return all(counts["queued"] == 0 for look in looks for counts in look.values())


@contextlib.contextmanager
def running(pumps: list[Pump]) -> Iterator[None]:
    """They send all the while."""
    stop = threading.Event()
    devices = [threading.Thread(target=pump.run, args=(stop,), daemon=True) for pump in pumps]
    for device in devices:
        device.start()
    try:
        yield
    finally:
        stop.set()
        for device in devices:
            device.join(30)


def prepared(one: Site) -> dict[tuple, Pump]:
    """Two tenants, of which one has little room, and routes of each policy; a pump for each."""
    one.cloud.run("tenant", "add", "plant-b")
    one.cloud.run("edge", "label", "hall-1", "tenants=default,plant-b")
    one.edge.run("tenant", "add", "plant-b", "--upstream-bytes", "64KiB")
    one.edge.run("device", "add", "pump-8", "--tenant", "plant-b", "--password", PASSWORD)
    policies = {SMALL: "oldest", NEW: "newest", REFUSED: "refuse"}
    routes = [
        route(name, f"devices/+/telemetry/{name}", limit="64Ki", full=full, priority="high")
        for (_, name), full in policies.items()
    ]
    apply(one.edge, *routes)
    one.line.hang_up()
    one.edge.is_connected(60)
    pumps = {key: Pump(one, channel=f"/{key[1]}", pad=3_000) for key in policies}
    return pumps | {KEPT: Pump(one), OTHER: Pump(one, "plant-b/pump-8", pad=3_000)}


def outlasts_a_kill(ledgers: Ledgers, pumps: dict[tuple, Pump], side: str) -> None:
    """Looks, and waits until a message that came later is acknowledged for each tenant: its shard's log has by then
    what was seen, and more."""
    ledgers.look(side)
    if side == "edge":
        # The one that is acknowledged first may have been on its way at the look.
        later = {pump: len(pump.acknowledged) + 2 for pump in (pumps[KEPT], pumps[OTHER])}
        wait_until(lambda: all(len(pump.acknowledged) >= count for pump, count in later.items()), 60)
        return
    edge = ledgers.look("edge")
    later = {key: edge[key]["delivered"] + edge[key]["queued"] for key in (KEPT, OTHER)}
    wait_until(lambda: all(ledgers.look("edge")[key]["delivered"] > count for key, count in later.items()), 60)


def test_killed_again_and_again_on_both_sides_each_message_is_in_the_database_once_or_counted(site):
    one = site()
    pumps, ledgers = prepared(one), Ledgers(one)
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    crashes, dice = 0, random.Random(seed)
    with running(list(pumps.values())):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            time.sleep(dice.uniform(0.1, 1))
            broken = dice.choice(["edge", "cloud", "line"])
            if broken == "line":
                one.line.hang_up()
                continue
            outlasts_a_kill(ledgers, pumps, broken)
            victim = getattr(one, broken)
            victim.kill()
            time.sleep(dice.uniform(0, 0.5))
            if broken == "cloud":
                ledgers.look("edge")
            victim.start()
            crashes += broken == "edge"
            ledgers.look(broken)
        # However the dice fell, each bound is reached.
        outlasts_a_kill(ledgers, pumps, "cloud")
        one.cloud.kill()
        wait_until(lambda: all(ledgers.look("edge")[key]["full"] > 0 for key in (SMALL, NEW, OTHER)), 60)
        one.cloud.start()
    wait_until(ledgers.is_settled, 90)
    edge = ledgers.look("edge")
    print(f"{crashes} crashes of the edge, {edge}, {ledgers.look('cloud')}")
    counted: dict[tuple, list[int]] = {key: [] for key in pumps}
    series = "(SELECT tenant || '/' || stream FROM series WHERE series.id = telemetry.series)"
    for number, path in one.cloud.rows(f"number, {series}"):
        tenant, *names, _ = path.split("/")
        counted[tenant, *names or ["telemetry"]].append(int(number))
    for key, pump in pumps.items():
        rows, came = counted[key], edge[key]
        assert len(rows) == len(set(rows)), f"{key}: a message is in the database twice"
        # What left before the log had it, and was in no log after the crash, came without being owed. What was on the
        # way when the line broke waits again, and may give way though it came.
        gave_way = came["full"] if key in (SMALL, OTHER) else 0
        assert 0 <= len(rows) - came["delivered"] <= crashes + gave_way, (key, len(rows), came, crashes)
        # Each crash of the edge leaves one message of a device in doubt.
        further = came["received"] - len(pump.acknowledged)
        assert further <= crashes + 1, (key, len(pump.acknowledged), came)
        # What is dropped as it comes is acknowledged at once: its count is as old as the log's, after a kill.
        assert further >= 0 or key == NEW, (key, len(pump.acknowledged), came)
        assert came["received"] == came["delivered"] + came["full"], (key, came)
    missing = set(pumps[KEPT].acknowledged) - set(counted[KEPT])
    assert not missing, f"{len(missing)} acknowledged messages are lost: {sorted(missing)[:9]}"
    assert not set(pumps[REFUSED].acknowledged) - set(counted[REFUSED]), "what a route refused its sender had not"
    assert edge[KEPT]["full"] == edge[REFUSED]["full"] == 0
