"""Containers of a Docker Engine in networks of their own: engine, kernel and edge have to agree on them."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from applications import apply, ending, runs
from brokers import PORTS, Selvedge
from engines import Engine
from http_api import Api
from machine import tried
from sites import wait_until
from test_images import build
from test_networks import (
    SERVES,
    Between,
    addresses,
    ask,
    fetch,
    over_each,
    pod,
    service,
    with_bash,
    within,
)
from test_on_demand import sleeper, sleeps

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]


@pytest.fixture(params=["docker"])
def own(start, request) -> Iterator[Selvedge]:
    """An edge of the test's own, with an engine."""
    with over_each(start, request) as edge:
        yield edge


def in_docker(text: str) -> str:
    """As `text`, run by the engine."""
    return text.replace("hostNetwork: false", "runtimeClassName: docker")


def bridges(edge: Selvedge) -> list:
    """What the edge keeps of bridges."""
    return json.loads((edge.data / "containers.network").read_text())["bridges"]


def is_answered(edge: Selvedge, name: str) -> bool:
    """Whether the host is answered by the first container of an application."""
    found = addresses(edge, name)
    return bool(found and found[0]) and ask(found[0], 8080) == f"it is {name}-0"


def test_a_network_goes_with_its_application_and_stays_while_that_sleeps(own, engine):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port))
    wait_until(lambda: sleeps(own, "site"))
    # It is made before somebody asks.
    wait_until(lambda: len(engine.networks()) == 1)
    (before,) = engine.networks()
    assert ask("127.0.0.1", port) == "it is site-0"
    wait_until(lambda: sleeps(own, "site"))
    assert engine.networks() == [before]
    own.run("delete", "deployment", "site")
    wait_until(lambda: engine.networks() == [], patience_s=30)
    wait_until(lambda: bridges(own) == [], patience_s=30)


class TakesItsTime(socketserver.BaseRequestHandler):
    """Leads to an engine, which comes to making a network only after a while, whoever waits for that then."""

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self.server.engine)
            answers = threading.Thread(target=self.pass_on, args=(engine, self.request))
            answers.start()
            self.pass_on(self.request, engine)
            answers.join()

    def pass_on(self, source: socket.socket, to: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):
            while said := source.recv(65_536):
                if said.startswith(b"POST /") and b"/networks/create" in said.split(b"\r\n")[0]:
                    time.sleep(0.2)
                to.sendall(said)
        with contextlib.suppress(OSError):
            to.shutdown(socket.SHUT_WR)


@pytest.fixture
def slow(start, engine, tmp_path) -> Iterator[Selvedge]:
    """An edge of the test's own, with an engine that takes its time."""
    at = str(tmp_path / "slow.sock")
    with socketserver.ThreadingUnixStreamServer(at, TakesItsTime) as server:
        server.engine, server.daemon_threads = str(engine.socket), True
        threading.Thread(target=server.serve_forever).start()
        with ending(start(environment={"DOCKER_HOST": f"unix://{at}"})) as edge:
            yield edge
        server.shutdown()


def test_one_that_is_called_or_deleted_while_its_network_is_made_starts_at_once_or_leaves_none(slow, engine):
    port, api = PORTS.take(), Api(slow)
    manifest = in_docker(sleeper("site", SERVES, port, idle="60s"))
    for pause_s in (0, 0.05, 0.1, 0.15, 0.2, 0.25):
        for is_called in (True, False):
            assert api.ask("POST", "/v1/apply", {"file": "site.yaml", "text": manifest})[0] == 200
            time.sleep(pause_s)
            assert not is_called or ask("127.0.0.1", port) == "it is site-0"
            assert "failed" not in slow.run("events").stdout
            assert api.ask("DELETE", "/v1/tenants/default/manifests/Deployment/site")[0] < 300
    wait_until(lambda: engine.networks() == [], patience_s=30)
    wait_until(lambda: bridges(slow) == [], patience_s=30)


def test_a_network_that_was_removed_by_hand_is_made_again(own, engine):
    apply(own, pod("site", SERVES))
    runs(own, "site")
    wait_until(lambda: is_answered(own, "site"))
    (network,) = engine.networks()
    own.stop()
    engine.clear()
    assert network not in engine.networks()
    own.start()
    wait_until(lambda: is_answered(own, "site"), patience_s=30)
    (network,) = engine.networks()
    (link,) = ("sv" + "".join(f"{int(part):02x}" for part in found.split(".")) for found in addresses(own, "site"))
    own.stop()
    engine.docker("rm", "--force", *engine.said("ps", "--quiet"))
    tried("ip", "link", "delete", link)
    own.start()
    wait_until(lambda: is_answered(own, "site"), patience_s=30)
    assert engine.networks() != [network]


def test_an_engine_that_begins_anew_leaves_networks_and_tenants_as_they_were(own, engine):
    own.run("tenant", "add", "acme")
    apply(own, pod("site", SERVES) + "---\n" + service("web", "site"))
    apply(own, pod("caller", "exec sleep 1000", tenant="acme"))
    runs(own, "site")
    (address,) = addresses(own, "site")
    wait_until(lambda: is_answered(own, "site"))
    engine.stop()
    engine.start()
    wait_until(lambda: is_answered(own, "site"), patience_s=60)
    assert addresses(own, "site") == [address]
    wait_until(lambda: within(own, "caller", "true", "--tenant", "acme").returncode == 0, patience_s=60)
    refused = within(own, "caller", f"timeout 5 fetch {address} 8080", "--tenant", "acme")
    assert "Connection refused" in refused.stderr, refused
    wait_until(lambda: fetch(own, "site", "web", port=80) == "it is site-0")


def test_several_containers_that_would_share_a_network_are_refused_by_name(own):
    refused = apply(own, pod("site", SERVES, second="exec sleep 1000"), check=False)
    assert "cannot share a network of their own in Docker" in refused.stderr, refused


def test_beside_rules_of_docker_containers_of_both_runtimes_reach_their_tenant_and_no_other(tmp_path):
    with contextlib.ExitStack() as undo:
        # A short name: sockets are in it.
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        edge = Between(tmp_path, undo, {"DOCKER_HOST": f"unix://{place}/engine.sock"})
        engine = Engine(place, ("nsenter", f"--net=/run/netns/{edge.edge}"), network=())
        undo.callback(engine.forget)
        engine.start()
        undo.callback(engine.clear)
        assert "-P FORWARD DROP" in tried("ip", "netns", "exec", edge.edge, "iptables", "--list-rules", "FORWARD")
        serves = ["ip", "netns", "exec", edge.ends["b"], "python3", "-m", "http.server", "8000"]
        server = subprocess.Popen(serves, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
        undo.callback(server.wait)
        undo.callback(server.kill)
        build(edge, "box:1", files=with_bash())
        engine.take_in(edge.directory / "image")
        edge.run("tenant", "add", "acme")
        names = ["first", "second", "third"]
        texts = {name: pod(name, SERVES) for name in names}
        texts |= {name: pod(name, SERVES, tenant="acme") for name in ("one", "two")}
        for name, text in texts.items():
            apply(edge, text if name in ("third", "two") else in_docker(text))
            tenant = "default" if name in names else "acme"
            undo.callback(edge.run, "delete", "deployment", name, "--tenant", tenant, check=False)
        for name in names:
            runs(edge, name)
        at = {name: addresses(edge, name)[0] for name in names}
        for caller in names:
            wait_until(lambda c=caller: "data" in fetch(edge, c, str(edge.addresses["b"]), port=8000))
            for name in names:
                wait_until(lambda c=caller, n=name: fetch(edge, c, at[n]) == f"it is {n}-0")
        for caller in ("one", "two"):
            wait_until(lambda c=caller: fetch(edge, c, "127.0.0.1", "--tenant", "acme") == f"it is {c}-0")
            for name in names:
                refused = within(edge, caller, f"timeout 5 fetch {at[name]} 8080", "--tenant", "acme")
                assert "Connection refused" in refused.stderr, (caller, name, refused)
