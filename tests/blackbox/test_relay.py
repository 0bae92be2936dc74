"""Nodes of a site that are behind different NATs are led to each other by one that both reach."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
from pathlib import Path

import pytest

from applications import Host, application, apply, forget_groups, runs
from brokers import ENVIRONMENT, PORTS
from machine import tried
from namespaces import ADDRESSES, FIRST_ADDRESS, FIRST_PORT
from sites import wait_until
from test_networks import service, services
from test_nodes import Node

pytestmark = [pytest.mark.contract, pytest.mark.needs("site"), pytest.mark.machine("namespaces")]


class Internet:
    """Machines that are each a network namespace, and a router between them."""

    def __init__(self) -> None:
        port = PORTS.take()
        self.addresses = map(str, itertools.count(FIRST_ADDRESS + (port - FIRST_PORT) * ADDRESSES))
        self.name, self.router = f"sel{port}", next(self.addresses)
        self.machines: dict[str, str] = {}
        tried("ip", "netns", "add", self.name)
        self.on(self.name, "sysctl", "-qw", "net.ipv4.ip_forward=1")

    @staticmethod
    def on(machine: str, *command: str) -> str:
        """Runs a command there."""
        return tried("ip", "netns", "exec", machine, *command)

    def machine(self, name: str) -> tuple[str, str]:
        """One more: its namespace, and its address."""
        space, address = f"{self.name}-{name}", next(self.addresses)
        tried("ip", "netns", "add", space)
        self.machines[name] = address
        self.on(self.name, "ip", "link", "add", name, "type", "veth", "peer", "out", "netns", space)
        self.on(self.name, "ip", "address", "add", f"{self.router}/32", "dev", name)
        self.on(self.name, "ip", "link", "set", name, "up")
        self.on(self.name, "ip", "route", "add", address, "dev", name)
        self.on(space, "ip", "link", "set", "lo", "up")
        self.on(space, "ip", "address", "add", f"{address}/32", "dev", "out")
        self.on(space, "ip", "link", "set", "out", "up")
        self.on(space, "ip", "route", "add", "default", "via", self.router, "dev", "out", "onlink")
        return space, address

    def hide(self, *names: str) -> None:
        """Puts each of these, and no other, behind a NAT: it reaches others, and nobody reaches it."""
        hidden = ", ".join(self.machines[name] for name in names)
        self.on(self.name, "nft", "flush", "ruleset")
        if names:
            nat = f"type nat hook postrouting priority 100; ip saddr {{ {hidden} }} masquerade;"
            forward = f"ct state established,related accept; ip daddr {{ {hidden} }} drop;"
            forward = f"type filter hook forward priority 0; {forward}"
            rules = f"table ip router {{ chain nat {{ {nat} }}; chain forward {{ {forward} }}; }}"
            self.on(self.name, "nft", rules)

    def close(self) -> None:
        """Takes it all away."""
        for name in (self.name, *(f"{self.name}-{name}" for name in self.machines)):
            subprocess.run(["ip", "netns", "delete", name], check=False, timeout=30, env=ENVIRONMENT)


class FarNode(Node):
    """A node on a machine of its own."""

    def __init__(self, directory: Path, name: str, space: str, address: str):
        super().__init__(directory, name, http=True)
        self.space, self.called = space, name
        self.settings.arguments = [word.replace("127.0.0.1", address) for word in self.settings.arguments]

    def command(self) -> list[str]:
        """As any, there."""
        return ["ip", "netns", "exec", self.space, *super().command()]

    def _accepts(self) -> bool:
        return "ready" in self.log.read_text()

    def ask(self, address: str) -> str:
        """What a program there is answered by HTTP; nothing where it is not."""
        words = ["ip", "netns", "exec", self.space, "wget", "-qO-", "-T5", f"http://{address}"]
        return subprocess.run(words, capture_output=True, text=True, timeout=30, env=ENVIRONMENT).stdout.strip()

    def through(self, name: str) -> str | None:
        """By which node it is led to that one; its own name where it is by none, nothing where it is not connected."""
        node = self.nodes().get(name)
        return node and node["is_connected"] and (node["through"] or self.called) or None


@pytest.fixture
def internet(tmp_path: Path):
    """Nodes of one site, each on a machine of its own; those that are hidden are behind NATs."""
    with contextlib.ExitStack() as stack:
        net = Internet()
        stack.callback(net.close)

        def make(*names: str, hidden: tuple[str, ...], off: str = "") -> list[FarNode]:
            nodes = [FarNode(tmp_path / name, name, *net.machine(name)) for name in names]
            net.hide(*hidden)
            for node in nodes:
                node.settings.configuration += "relay = false\n" if node.called == off else ""
                stack.callback(forget_groups, node)
                stack.callback(lambda n=node: Host(n).kill_all())
                stack.callback(node.stop)
                node.start()
                if node is not nodes[0]:
                    node.joins(nodes[0].invite(node.called))
            return nodes

        make.net = net
        yield make


def listed(node: FarNode) -> str:
    """What it says of nodes to who reads."""
    return " ".join(node.run("get", "nodes").stdout.split())


def test_nodes_behind_nats_call_each_other_through_one_that_both_reach_and_directly_once_they_can(internet):
    one, left, right = internet("one", "left", "right", hidden=("left", "right"))
    served = right.directory / "served"
    served.mkdir()
    (served / "index.html").write_text("it is right")
    port = PORTS.take()
    ready = f", readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 1}}"
    web = application("web", f"exec busybox httpd -f -p {port} -h {served}", ready)
    apply(right, web + "---\n" + service("web", "web", target=port))
    apply(left, service("web", "web"))
    runs(right, "web")
    wait_until(lambda: left.through("right") == "one" and right.through("left") == "one")
    assert "right alive through one" in listed(left)
    wait_until(lambda: left.ask(services(left)["web"]) == "it is right")
    internet.net.hide("left")
    wait_until(lambda: left.through("right") == "left" and right.through("left") == "right", patience_s=30)
    assert left.ask(services(left)["web"]) == "it is right"
    assert counted(one, "selvedge_site_relay_led_total") > 0


def test_when_a_relay_is_killed_another_one_leads_and_one_that_is_to_be_none_does_not(internet):
    """It counts who asked; the two know that they are there, and that they do not reach each other."""
    none, one, two, left, right = internet("none", "one", "two", "left", "right", hidden=("left", "right"), off="none")
    relays = {"one": one, "two": two}
    wait_until(lambda: all(node.through(relay) == node.called for node in (left, right) for relay in relays))
    wait_until(lambda: left.through("right") in relays)
    first = left.through("right")
    relays.pop(first).kill()
    (second,) = relays
    wait_until(lambda: left.through("right") == second and right.through("left") == second)
    relays[second].kill()
    wait_until(lambda: left.through("right") is None and right.through("left") is None)
    refused = 'selvedge_site_relay_refused_total{reason="off"}'
    before = counted(none, refused)
    wait_until(lambda: counted(none, refused) > before)
    assert "right alive no" in listed(left) and counted(none, "selvedge_site_relay_led_total") == 0


def counted(node: FarNode, line: str) -> int:
    """A figure on its page of metrics."""
    page = node.ask(f"127.0.0.1:{node.http_port}/metrics").splitlines()
    return next(int(one.split()[-1]) for one in page if one.startswith(f"{line} "))
