"""Nodes of one network find each other by multicast DNS where their addresses have changed."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import time
from pathlib import Path

import pytest

from brokers import ENVIRONMENT, PORTS
from machine import tried
from namespaces import ADDRESSES, FIRST_ADDRESS, FIRST_PORT
from sites import wait_until
from test_relay import FarNode

pytestmark = [pytest.mark.contract, pytest.mark.needs("site"), pytest.mark.machine("namespaces")]


class Lan:
    """Two machines with a cable between them, each a network namespace."""

    def __init__(self) -> None:
        port = PORTS.take()
        self.addresses = map(str, itertools.count(FIRST_ADDRESS + (port - FIRST_PORT) * ADDRESSES + 1))
        self.spaces = [f"sel{port}-{number}" for number in range(2)]
        for space in self.spaces:
            tried("ip", "netns", "add", space)
        one, two = self.spaces
        tried("ip", "-n", one, "link", "add", "lan", "type", "veth", "peer", "lan", "netns", two)
        for space in self.spaces:
            for device in ("lo", "lan"):
                tried("ip", "-n", space, "link", "set", device, "up")

    def give(self, space: str) -> str:
        """Another address of a machine, in place of what it had."""
        address = next(self.addresses)
        tried("ip", "-n", space, "address", "flush", "dev", "lan")
        tried("ip", "-n", space, "address", "add", f"{address}/29", "dev", "lan")
        return address

    def close(self) -> None:
        """Takes it away."""
        for space in self.spaces:
            subprocess.run(["ip", "netns", "delete", space], check=False, timeout=30, env=ENVIRONMENT)


@pytest.mark.parametrize("mdns", [True, False])
def test_nodes_whose_addresses_have_all_changed_find_each_other_by_multicast_dns_and_not_without_it(
    tmp_path: Path, mdns: bool
):
    with contextlib.ExitStack() as stack:
        lan = Lan()
        stack.callback(lan.close)
        nodes = []
        for name, space in zip(("one", "two"), lan.spaces, strict=True):
            node = FarNode(tmp_path / name, name, space, lan.give(space))
            node.settings.configuration += f"mdns = {str(mdns).lower()}\n"
            stack.callback(node.stop)
            nodes.append(node.start())
        one, two = nodes
        two.joins(one.invite("two"))
        wait_until(lambda: one.sees("two") and two.sees("one"))
        for node in nodes:
            node.kill()
        for node in nodes:
            before = node.settings.arguments[1].rsplit(":", 1)[0]
            after = lan.give(node.space)
            node.settings.arguments = [word.replace(before, after) for word in node.settings.arguments]
            node.log.unlink()
            node.start()
        if mdns:
            wait_until(lambda: one.sees("two") and two.sees("one"))
        else:
            time.sleep(1.5)
            assert one.sees() and two.sees()
