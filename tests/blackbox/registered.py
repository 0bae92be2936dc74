"""Devices as the two sides of a link have them in their registries."""

from __future__ import annotations

import json
import re
import urllib.request

from paho_client import Client, Refused
from sites import Site, wait_until


def device(side, name: str = "valve-1") -> dict | None:
    """What a side says of a device; `None`: it knows none."""
    said = side.run("device", "show", name, "--output", "json", check=False)
    return json.loads(said.stdout) if said.returncode == 0 else None


def add(side, name: str = "valve-1", *words: str) -> str:
    """Adds a device to a side; its password."""
    said = side.run("device", "add", name, *words, "--output", "json").stdout
    return json.loads(said)[0]["issued"]["password"]


def opened(side, password: str, name: str = "valve-1") -> Client:
    """A connection of a device."""
    return Client(side.port, name, user=name, password=password).opened()


def is_let_in(side, password: str, name: str = "valve-1") -> bool:
    try:
        opened(side, password, name).disconnect()
    except Refused:
        return False
    return True


def shared(site: Site, name: str = "valve-1") -> str:
    """A device that was added in the cloud for the edge, once that knows it; its password."""
    password = add(site.cloud, name, "--edge", "hall-1")
    wait_until(lambda: device(site.edge, name) is not None)
    return password


def figures(side) -> dict[str, int]:
    """What `/metrics` says of devices that were told."""
    with urllib.request.urlopen(f"http://127.0.0.1:{side.http_port}/metrics", timeout=10) as page:
        lines = page.read().decode()
    told = re.findall(r'link_devices_told_total\{what="(\w+)"\} (\d+)', lines)
    counters = re.findall(r"link_(records_taken|records_refused|record_edits_lost)_total (\d+)", lines)
    return {name: int(value) for name, value in told + counters}


def twin(side, name: str = "valve-1") -> dict:
    return json.loads(side.run("twin", "get", name, "--output", "json").stdout)
