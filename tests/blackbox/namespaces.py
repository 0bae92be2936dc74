"""A cloud in a network namespace of its own, to which two ways lead that can each fall silent."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from ipaddress import IPv4Address
from pathlib import Path

from brokers import ENVIRONMENT, PORTS, Settings
from machine import tried
from sites import PASSWORD, Cloud, Edge

# Of the addresses for tests of networks (RFC 2544) each takes eight, by a port that no other test has.
FIRST_ADDRESS, FIRST_PORT, ADDRESSES = IPv4Address("198.18.0.0"), 14_000, 8

ROUTER = "02:00:00:00:00:01"


class Ways:
    """Two lines between this machine and a namespace, each through a router of its own; one of them is used."""

    def __init__(self) -> None:
        port = PORTS.take()
        addresses = itertools.count(FIRST_ADDRESS + (port - FIRST_PORT) * ADDRESSES)
        self.name, self.cloud, self.address = f"sel{port}", f"sel{port}-cloud", str(next(addresses))
        self.routers = {way: str(next(addresses)) for way in "ab"}
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            tried("ip", "netns", "add", self.cloud)
            self.inside(self.cloud, "ip", "link", "set", "lo", "up")
            self.inside(self.cloud, "ip", "address", "add", f"{self.address}/32", "dev", "lo")
            for way in "ab":
                self._lay(way, str(next(addresses)))
            self.take("a")
            undo.pop_all()

    def _lay(self, way: str, mine: str) -> None:
        """A line, at whose end here this machine has that address."""
        router, here, there = f"{self.name}-{way}", f"{self.name}{way}", f"line-{way}"
        tried("ip", "netns", "add", router)
        tried("ip", "link", "add", here, "type", "veth", "peer", "near", "address", ROUTER, "netns", router)
        self.inside(router, "ip", "link", "add", "far", "type", "veth", "peer", there, "netns", self.cloud)
        # As a provider's does: what comes from an address of the other line is dropped (RFC 2827).
        self.inside(router, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1")
        for device in ("near", "far"):
            self.inside(router, "ip", "link", "set", device, "up")
            self.inside(router, "ip", "address", "add", f"{self.routers[way]}/32", "dev", device)
        self.inside(self.cloud, "ip", "link", "set", there, "up")
        tried("ip", "link", "set", here, "up")
        tried("ip", "address", "add", f"{mine}/32", "dev", here)
        # Nobody is told that a line is dead by an ARP that fails.
        tried("ip", "neighbour", "add", self.routers[way], "lladdr", ROUTER, "dev", here)
        self.inside(router, "ip", "route", "add", mine, "dev", "near")
        self.inside(router, "ip", "route", "add", self.address, "dev", "far")
        self.inside(self.cloud, "ip", "route", "add", mine, "via", self.routers[way], "dev", there, "onlink")
        self.silence(way, is_silent=False)

    @staticmethod
    def inside(name: str, *command: str) -> str:
        """Runs a command in a namespace."""
        return tried("ip", "netns", "exec", name, *command)

    def take(self, way: str) -> None:
        """What goes to the cloud goes this way from now on, with the address that this machine has there."""
        tried("ip", "route", "replace", self.address, "via", self.routers[way], "dev", f"{self.name}{way}", "onlink")

    def silence(self, way: str, *, is_silent: bool = True) -> None:
        """The router drops everything, and tells nobody."""
        self.inside(f"{self.name}-{way}", "sysctl", "-qw", f"net.ipv4.ip_forward={int(not is_silent)}")

    def close(self) -> None:
        """Takes it all away; the devices go with the namespaces."""
        for name in (f"{self.name}-a", f"{self.name}-b", self.cloud):
            subprocess.run(["ip", "netns", "delete", name], check=False, timeout=30, env=ENVIRONMENT)


class FarCloud(Cloud):
    """A cloud in the namespace, behind both ways."""

    ways: Ways

    def command(self) -> list[str]:
        """In the clear: what is looked at is below TLS."""
        words = super().command()
        words[words.index("--mqtt") + 1] = f"{self.ways.address}:{self.port}"
        return ["ip", "netns", "exec", self.ways.cloud, *words]

    def _accepts(self) -> bool:
        return "ready" in self.log.read_text()


class FarSite:
    """A cloud in a namespace, and an edge here."""

    def __init__(self, directory: Path):
        with contextlib.ExitStack() as undo:
            self.ways = Ways()
            undo.callback(self.ways.close)
            self.cloud = FarCloud(directory / "cloud", Settings(anonymous=False))
            self.cloud.ways = self.ways
            self.edge = Edge(directory / "edge", Settings(anonymous=False))
            for one in (self.cloud, self.edge):
                one.directory.mkdir(parents=True)
                undo.callback(one.stop)
            self._bring_up()
            self._undo = undo.pop_all()

    def _bring_up(self) -> None:
        self.cloud.start()
        self.edge.joins(self.cloud, self.cloud.port)
        configuration = self.edge.settings.configuration
        self.edge.settings.configuration = configuration.replace(
            f"mqtts://127.0.0.1:{self.cloud.port}", f"mqtt://{self.ways.address}:{self.cloud.port}"
        )
        self.edge.start()
        self.edge.run("device", "add", "pump-7", "--password", PASSWORD)
        self.edge.is_connected()

    def close(self) -> None:
        """Ends all of it."""
        self._undo.close()
