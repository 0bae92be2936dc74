"""Edges of a site find each other without a cloud: invitations, strangers, deaths, and clocks that differ."""

from __future__ import annotations

import json
import os
import socket
import ssl
import stat
import subprocess
import time
from pathlib import Path

import pytest

from brokers import PORTS, Selvedge, Settings, selvedge
from clocks import Clock
from credentials import context
from sites import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("site")]


class Node(Selvedge):
    """An edge whose site others may join, or that joins one."""

    def __init__(self, directory: Path, name: str, **settings: object):
        directory.mkdir()
        self.site_port, self.https_port = PORTS.take(), PORTS.take()
        super().__init__(directory, Settings(**settings))
        self.settings.configuration = f'[site]\nname = "{name}"\n'
        self.settings.arguments += ["--site", f"127.0.0.1:{self.site_port}"]
        self.settings.arguments += ["--https", f"127.0.0.1:{self.https_port}"]

    def invite(self, name: str, *words: str) -> dict:
        """What another needs to join."""
        return json.loads(self.run("site", "invite", name, *words, "--output", "json").stdout)

    def joins(self, invitation: dict, check: bool = True) -> subprocess.CompletedProcess:
        """The one command on its machine."""
        words = invitation["command"].split()
        assert words[0] == "selvedge"
        return self.run(*words[1:], check=check)

    def nodes(self) -> dict[str, dict]:
        """What it knows, by their names."""
        listed = json.loads(self.run("get", "nodes", "--output", "json").stdout)
        return {node["node"]: node for node in listed}

    def sees(self, *names: str) -> bool:
        """Whether it is connected with these, and knows of no other that is alive."""
        others = [node for node in self.nodes().values() if not node["is_here"] and node["is_alive"]]
        return sorted(node["node"] for node in others if node["is_connected"]) == sorted(names) and len(others) == len(
            names
        )


@pytest.fixture
def node(tmp_path: Path):
    """Makes edges, which are started."""
    made: list[Node] = []

    def make(name: str, *, begin: bool = True, **settings: object) -> Node:
        made.append(Node(tmp_path / f"{len(made)}-{name}", name, **settings))
        return made[-1].start() if begin else made[-1]

    yield make
    for one in made:
        one.stop()


def test_two_edges_become_a_site_with_one_command_on_each_side(node):
    """Neither is started again; both say who is there."""
    one, two = node("hall-1"), node("somewhere")
    pids = one.process.pid, two.process.pid
    assert one.nodes().keys() == {"hall-1"}
    said = two.joins(one.invite("hall-2")).stdout
    assert "joined the site as hall-2" in said and "finds the other nodes now" in said
    wait_until(lambda: one.sees("hall-2") and two.sees("hall-1"))
    assert (one.process.pid, two.process.pid) == pids
    assert one.nodes()["hall-2"]["addresses"] == [f"127.0.0.1:{two.site_port}"]
    shown = two.run("get", "nodes").stdout
    assert "hall-1   alive" in shown and "hall-2   this one" in shown


def test_a_node_may_have_as_long_a_name_as_any_client(node):
    one, two = node("hall-1"), node("somewhere")
    name = "h" * 128
    two.joins(one.invite(name))
    wait_until(lambda: one.sees(name) and two.sees("hall-1"))
    assert "128" in one.run("site", "invite", "h" * 129, check=False).stderr


def test_an_edge_that_does_not_run_joins_and_is_there_once_it_does(node):
    """And after each further start."""
    one, two = node("hall-1"), node("somewhere", begin=False)
    assert "once it runs" in two.joins(one.invite("hall-2")).stdout
    for _ in range(2):
        two.start()
        wait_until(lambda: one.sees("hall-2") and two.sees("hall-1"))
        two.kill()


def test_nodes_find_each_other_by_the_first_and_without_it_once_they_have(node):
    """The first is gone for good; the others, started anew, still find each other."""
    one, two, three = node("hall-1"), node("two"), node("three")
    for name, other in (("hall-2", two), ("hall-3", three)):
        other.joins(one.invite(name))
    wait_until(lambda: one.sees("hall-2", "hall-3") and two.sees("hall-1", "hall-3") and three.sees("hall-1", "hall-2"))
    one.kill()
    wait_until(lambda: two.sees("hall-3") and three.sees("hall-2"))
    for other in (two, three):
        other.kill()
        other.start()
    wait_until(lambda: two.sees("hall-3") and three.sees("hall-2"))


def test_a_node_that_is_killed_is_silent_within_seconds(node):
    """For whom it was connected with, and alive again once it runs."""
    one, two = node("hall-1"), node("two")
    two.joins(one.invite("hall-2"))
    wait_until(lambda: one.sees("hall-2"))
    two.kill()
    wait_until(one.sees)
    silent = one.nodes()["hall-2"]
    assert not silent["is_alive"] and not silent["is_connected"] and silent["silent_s"] < 60
    assert "silent for" in one.run("get", "nodes").stdout
    two.start()
    wait_until(lambda: one.sees("hall-2"))


def test_a_token_is_good_once_and_a_withdrawn_one_never(node):
    """Another machine is told why, and what to do."""
    one, two, other = node("hall-1"), node("two"), node("other")
    used, withdrawn = one.invite("hall-2"), one.invite("hall-3")
    two.joins(used)
    one.run("site", "invite", "hall-3", "--withdraw")
    for invitation, words in ((used, "was used before"), (withdrawn, "is not known here")):
        refused = other.joins(invitation, check=False)
        assert refused.returncode == 1 and words in refused.stderr, refused.stderr
        assert "selvedge site invite NAME where the site began" in refused.stderr
    assert other.nodes().keys() == {"other"}
    wait_until(lambda: one.sees("hall-2"))


def test_a_node_that_has_joined_invites_nobody_and_says_where(node):
    """Its authority is not the site's."""
    one, two = node("hall-1"), node("two")
    two.joins(one.invite("hall-2"))
    refused = two.run("site", "invite", "hall-3", check=False)
    assert refused.returncode == 1 and f"at https://127.0.0.1:{one.https_port}" in refused.stderr, refused.stderr


def test_what_is_missing_for_an_invitation_is_said(node, start):
    """No site, no door of HTTPS, the node's own name."""
    edge = start()
    refused = edge.run("site", "invite", "hall-2", check=False)
    assert refused.returncode == 1 and "--site" in refused.stderr, refused.stderr
    assert "--site" in edge.run("get", "nodes").stdout
    without = start(arguments=["--site", f"127.0.0.1:{PORTS.take()}"])
    refused = without.run("site", "invite", "hall-2", check=False)
    assert refused.returncode == 1 and "--https" in refused.stderr, refused.stderr
    refused = node("hall-1").run("site", "invite", "hall-1", check=False)
    assert refused.returncode == 1 and "this node itself" in refused.stderr, refused.stderr


def test_what_a_node_has_of_its_site_is_its_owners_alone(node):
    """And no secret is logged."""
    one, two = node("hall-1"), node("two")
    invitation = one.invite("hall-2")
    two.joins(invitation)
    path = two.data / "site/membership.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert not (path.parent / "join.key").exists()
    for text in (one.log.read_text(), two.log.read_text(), (one.data / "audit.log").read_text()):
        assert "PRIVATE" not in text and invitation["token"] not in text


def is_closed(port: int, authority: Path, certificate: tuple[Path, Path] | None = None) -> bool:
    """Whether a node closes a connection of TLS with this certificate, or none, before it says anything."""
    tls = context(authority)
    tls.check_hostname = False
    if certificate:
        tls.load_cert_chain(*certificate)
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        try:
            with tls.wrap_socket(plain) as secure:
                secure.sendall(b"\0" * 1000)
                return secure.recv(1) == b""
        except (ssl.SSLError, ConnectionError):
            return True


def test_strangers_devices_and_members_of_other_sites_are_not_let_in(node):
    """Whatever they show; the nodes go on."""
    one, two, stranger = node("hall-1"), node("two"), node("stranger", begin=False)
    two.joins(one.invite("hall-2"))
    one.run("device", "add", "pump-1", "--certificate")
    pair = one.directory / "pump-1.pem", one.directory / "pump-1.key"
    authority = one.data / "ca.pem"
    assert is_closed(one.site_port, authority)
    assert is_closed(one.site_port, authority, pair)
    stranger.settings.configuration += f'seeds = ["127.0.0.1:{one.site_port}"]\n'
    stranger.start()
    wait_until(lambda: one.sees("hall-2") and two.sees("hall-1"))
    time.sleep(3)
    assert one.nodes().keys() == {"hall-1", "hall-2"} and stranger.nodes().keys() == {"stranger"}


def test_bytes_at_random_at_the_door_of_a_site_end_nothing(node):
    """Neither plain ones nor a connection that says nothing."""
    one, two = node("hall-1"), node("two")
    two.joins(one.invite("hall-2"))
    wait_until(lambda: one.sees("hall-2"))
    held = [socket.create_connection(("127.0.0.1", one.site_port)) for _ in range(100)]
    for connection in held[:50]:
        connection.sendall(os.urandom(2000))
    wait_until(lambda: one.sees("hall-2"))
    for connection in held:
        connection.close()
    assert one.alive()


@pytest.mark.machine("faketime")
@pytest.mark.parametrize("offset_s", [-3600, 3600, -200_000])
def test_clocks_that_are_an_hour_apart_or_days_behind_keep_nobody_from_a_site(node, tmp_path, offset_s):
    """Nor one that is set back by a day between two starts of a node."""
    clock = Clock(tmp_path)
    one, two = node("hall-1"), node("two", environment=clock.environment)
    clock.set(offset_s)
    two.kill()
    two.start()
    two.joins(one.invite("hall-2"))
    wait_until(lambda: one.sees("hall-2") and two.sees("hall-1"))
    two.kill()
    clock.set(offset_s - 43_200)
    two.start()
    wait_until(lambda: one.sees("hall-2") and two.sees("hall-1"))


def test_a_site_is_joined_from_nothing(node, tmp_path):
    """The data directory is made, as for an edge that joins a cloud."""
    one = node("hall-1")
    words = one.invite("hall-2")["command"].split()[1:]
    done = selvedge(*words, "--data", str(tmp_path / "new"), check=False)
    assert done.returncode == 0 and "joined the site as hall-2" in done.stdout, done.stderr


def test_a_ban_is_heard_by_all_and_holds_after_restarts_without_the_node_that_said_it(node):
    """Until the banned one is invited again."""
    one, two, three = node("hall-1"), node("two"), node("three")
    for name, other in (("hall-2", two), ("hall-3", three)):
        other.joins(one.invite(name))
    wait_until(lambda: two.sees("hall-1", "hall-3") and three.sees("hall-1", "hall-2"))
    assert "node hall-3 is banned" in one.run("site", "ban", "hall-3").stdout
    wait_until(lambda: one.sees("hall-2") and two.sees("hall-1") and three.sees())
    for other in (one, two):
        assert other.nodes()["hall-3"]["is_banned"] and "hall-3   banned" in other.run("get", "nodes").stdout
    written = [json.loads(line) for line in (one.data / "audit.log").read_text().splitlines()]
    assert ("hall-3", "ban") in [(line.get("id"), line.get("what")) for line in written]
    one.kill()
    for other in (two, three):
        other.kill()
        other.start()
    time.sleep(1.5)  # They dial each other meanwhile.
    assert two.sees() and three.sees() and two.nodes()["hall-3"]["is_banned"]
    one.start()
    three.joins(one.invite("hall-3"))
    wait_until(lambda: two.sees("hall-1", "hall-3") and three.sees("hall-1", "hall-2"))
    assert not two.nodes()["hall-3"]["is_banned"]


def test_nobody_but_the_node_where_the_site_began_bans_whatever_it_says_or_has(node):
    """Neither by its command nor by a ban that another authority has signed."""
    one, two, stranger = node("hall-1"), node("two"), node("stranger")
    two.joins(one.invite("hall-2"))
    refused = two.run("site", "ban", "hall-1", check=False)
    assert refused.returncode == 1 and f"at https://127.0.0.1:{one.https_port}" in refused.stderr, refused.stderr
    stranger.invite("hall-1")
    stranger.run("site", "ban", "hall-1")
    two.kill()
    forged = (stranger.data / "site/bans.json").read_bytes()
    (two.data / "site/bans.json").write_bytes(forged)
    two.start()
    wait_until(lambda: one.sees("hall-2") and two.sees("hall-1"))
    assert not (one.data / "site/bans.json").exists()


def test_what_is_wrong_with_a_ban_is_said_and_one_can_be_lifted(node):
    """A name that is none of the site's, the node's own, and no ban at all."""
    one, two = node("hall-1"), node("two")
    two.joins(one.invite("hall-2"))
    wrong = (
        (("hall-9",), "no node hall-9 was invited here"),
        (("hall-1",), "this node itself"),
        (("hall-2", "--lift"), "hall-2 is not banned"),
    )
    for words, why in wrong:
        refused = one.run("site", "ban", *words, check=False)
        assert refused.returncode == 1 and why in refused.stderr, refused.stderr
    wait_until(lambda: one.sees("hall-2"))
    one.kill()
    one.run("site", "ban", "hall-2")  # Of an edge that does not run, too.
    one.start()
    time.sleep(1)
    assert one.sees() and one.nodes()["hall-2"]["is_banned"]
    assert "lifted" in one.run("site", "ban", "hall-2", "--lift").stdout
    wait_until(lambda: one.sees("hall-2") and two.sees("hall-1"))
