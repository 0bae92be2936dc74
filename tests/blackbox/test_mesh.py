"""Applications on several edges of a site call each other by name: what is near answers, and else who is there."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from applications import apply, ending
from raw import PATIENCE_S
from sites import wait_until
from test_images import build
from test_networks import fetch, pod, runs, service, services, with_bash
from test_nodes import Node
from test_on_demand import sleeper, sleeps

pytestmark = [pytest.mark.contract, pytest.mark.needs("site"), pytest.mark.needs("logs")]

# By which policy the requests to a service are spread.
BALANCE = "selvedge.dev/balance"


def serves(node: str) -> str:
    """A script that answers with the name of its node."""
    return f"mkdir -p /www; echo {node} > /www/index.html; exec httpd -f -p 8080 -h /www"


def annotated(manifest: str, annotation: str) -> str:
    """A manifest with an annotation."""
    return manifest.replace("namespace: default", f"namespace: default, annotations: {{{annotation}}}")


@pytest.fixture
def site(tmp_path: Path):
    """Edges of one site, each connected with all others."""
    with contextlib.ExitStack() as stack:

        def make(*names: str) -> list[Node]:
            nodes = []
            for name in names:
                node = Node(tmp_path / name, name)
                node.called = name
                nodes.append(stack.enter_context(ending(node.start())))
                node.runtime = "oci"
                build(node, "box:1", files=with_bash())
                if len(nodes) > 1:
                    node.joins(nodes[0].invite(name))
            for node in nodes:
                wait_until(lambda n=node: n.sees(*(other.called for other in nodes if other is not n)))
            return nodes

        yield make


def caller(node: Node) -> None:
    """An application that calls others."""
    apply(node, pod("caller", "exec sleep 1000"))
    runs(node, "caller")


def answers(node: Node, count: int = 12) -> Counter:
    """Which nodes answer requests of a container to the service `web`."""
    return Counter(fetch(node, "caller", "web", port=80) for _ in range(count))


def test_a_container_calls_by_name_what_only_another_node_has(site):
    here, there = site("here", "there")
    caller(here)
    assert fetch(here, "caller", "web", port=80) == ""
    apply(there, pod("web", serves("there")) + "---\n" + service("web", "web"))
    for name in ("web", "web.default.svc.selvedge.local", "web.default.svc.cluster.local"):
        wait_until(lambda n=name: fetch(here, "caller", n, port=80) == "there")
    there.run("delete", "service", "web")
    wait_until(lambda: fetch(here, "caller", "web", port=80) == "")


def test_requests_stay_while_somebody_is_here_and_go_to_another_node_when_nobody_is(site):
    here, there = site("here", "there")
    caller(here)
    for node in (here, there):
        apply(node, pod("web", serves(node.called)) + "---\n" + service("web", "web"))
        runs(node, "web")
    wait_until(lambda: answers(here) == {"here": 12})
    here.run("delete", "deployment", "web")
    wait_until(lambda: answers(here, 1) == {"there": 1})
    assert answers(here) == {"there": 12}
    apply(here, pod("web", serves("here")))
    wait_until(lambda: answers(here, 1) == {"here": 1})
    assert answers(here) == {"here": 12}


@pytest.mark.parametrize("policy", ["round-robin", "random", "least-request"])
def test_other_policies_spread_requests_over_the_endpoints_of_all_nodes(site, policy):
    here, there = site("here", "there")
    caller(here)
    web = service("web", "web").replace(
        "namespace: default", f"namespace: default, annotations: {{{BALANCE}: {policy}}}"
    )
    for node, replicas in ((here, 1), (there, 2)):
        apply(node, pod("web", serves(node.called), replicas=replicas) + "---\n" + web)
        runs(node, "web")
    wait_until(lambda: answers(here, 6)["there"] > 0)
    seen = answers(here, 30)
    assert seen.keys() == {"here", "there"}
    if policy == "round-robin":
        assert seen == {"here": 10, "there": 20}


@pytest.mark.parametrize("kept", ["internalTrafficPolicy: Local", f"{BALANCE}: local"])
def test_a_service_that_is_to_stay_on_its_node_does_so_whatever_becomes_of_it(site, kept):
    here, there = site("here", "there")
    caller(here)
    web = service("web", "web")
    web = web.replace("spec:\n", f"spec:\n  {kept}\n") if kept.startswith("internal") else annotated(web, kept)
    for node in (here, there):
        apply(node, pod("web", serves(node.called)) + "---\n" + web)
        runs(node, "web")
    wait_until(lambda: answers(here) == {"here": 12})
    here.run("delete", "deployment", "web")
    wait_until(lambda: refusal(here) != "")
    assert refusal(here) == "nobody is ready to answer"


def refusal(node: Node) -> str:
    """Why the host is not answered by the service `web`."""
    try:
        urllib.request.urlopen(f"http://{services(node)['web']}", timeout=10).read()
        return ""
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return error.read().decode().strip()
    except OSError:
        return ""  # Who answered has just ended.


def test_a_request_wakes_what_sleeps_on_another_node(site):
    here, there = site("here", "there")
    caller(here)
    apply(there, sleeper("web", serves("there"), there.https_port + 1, idle="2s") + "---\n" + service("web", "web"))
    for _ in range(2):
        wait_until(lambda: sleeps(there, "web"))
        wait_until(lambda: answers(here, 1) == {"there": 1})


def test_a_node_that_is_killed_gets_no_more_requests_and_those_that_are_left_answer(site):
    here, near, there = site("here", "near", "there")
    caller(here)
    for node in (near, there):
        apply(node, pod("web", serves(node.called)) + "---\n" + service("web", "web"))
        runs(node, "web")
    wait_until(lambda: answers(here).keys() == {"near", "there"})
    near.kill()
    time.sleep(1)
    assert answers(here) == {"there": 12}
    there.kill()
    time.sleep(1)
    begun = time.monotonic()
    assert fetch(here, "caller", "web", port=80) == "nobody is ready to answer"
    assert time.monotonic() - begun < 3
    near.start()
    wait_until(lambda: answers(here, 1) == {"near": 1})


def test_a_tenant_neither_finds_nor_reaches_services_of_another_tenant_on_another_node(site):
    here, there = site("here", "there")
    for node in (here, there):
        node.run("tenant", "add", "acme")
    caller(here)
    apply(here, pod("caller", "exec sleep 1000", tenant="acme"))
    apply(there, pod("web", serves("there"), tenant="acme") + "---\n" + service("web", "web", tenant="acme"))
    wait_until(lambda: fetch(here, "caller", "web", "--tenant", "acme", port=80) == "there")
    assert fetch(here, "caller", "web", port=80) == ""
    assert fetch(here, "caller", "web.acme", port=80) == ""


def test_bytes_pass_both_ways_and_an_end_of_one_way_leaves_the_other(site):
    here, there = site("here", "there")
    apply(here, service("echo", "echo"))
    apply(there, pod("echo", "exec nc -ll -p 8080 -e cat") + "---\n" + service("echo", "echo"))
    runs(there, "echo")
    sent = os.urandom(3_000_000)
    with socket.create_connection((services(here)["echo"], 80), timeout=PATIENCE_S) as stream:
        stream.settimeout(PATIENCE_S)
        sending = threading.Thread(target=lambda: (stream.sendall(sent), stream.shutdown(socket.SHUT_WR)))
        sending.start()
        with stream.makefile("rb") as answer:
            assert answer.read() == sent
        sending.join()
