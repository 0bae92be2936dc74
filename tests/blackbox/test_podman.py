"""`runtimeClassName: docker` by Podman, which answers as a Docker Engine does."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from applications import Host, apply, deployment, ending, runs
from brokers import Selvedge
from engines import Podman
from sites import wait_until
from test_images import build
from test_networks import SERVES, addresses, ask, fetch, pod, service, services, with_bash, within
from test_on_demand import starts
from test_pause import idle, is_paused

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs", "tenant")]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """A Podman, which is started once."""
    podman = Podman(tmp_path_factory.mktemp("podman"))
    podman.start()
    try:
        yield podman
    finally:
        podman.forget()


@pytest.fixture
def own(start, engine) -> Iterator[Selvedge]:
    """An edge with it, where it has an image with a shell."""
    with ending(start(environment={"DOCKER_HOST": f"unix://{engine.socket}"})) as edge:
        edge.runtime = "docker"
        build(edge, "box:1", files=with_bash())
        engine.take_in(edge.directory / "image")
        edge.run("tenant", "add", "acme")
        yield edge
    engine.clear()


def end(edge: Selvedge, name: str, *words: str) -> str:
    """How its container ended last."""
    return (deployment(edge, name, *words)["containers"][0]["last_end"] or {"how": ""})["how"]


def test_it_runs_answers_says_what_it_said_and_is_ended_and_nothing_of_it_is_left(own, engine):
    apply(own, pod("site", f"echo good morning; {SERVES}", replicas=2) + "---\n" + service("web", "site"))
    runs(own, "site")
    links = [f"sv{int.from_bytes(bytes(map(int, address.split('.')))):08x}" for address in addresses(own, "site")]
    wait_until(lambda: {ask(services(own)["web"], 80) for _ in range(8)} == {"it is site-0", "it is site-1"})
    assert fetch(own, "site", "web", port=80) in ("it is site-0", "it is site-1")
    assert own.run("logs", "site").stdout.endswith(" stdout F good morning\n")
    assert within(own, "site", "hostname").stdout == "site-0\n"
    assert len(engine.said("ps", "--quiet")) == 2
    own.run("delete", "deployment", "site")
    wait_until(lambda: not engine.said("ps", "--all", "--quiet"))
    shown = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    assert not [link for link in links if link in shown]


def test_neither_containers_nor_services_of_another_tenant_are_reached(own):
    for tenant in ("default", "acme"):
        apply(own, pod("site", SERVES, tenant=tenant))
    runs(own, "site")
    runs(own, "site", "--tenant", "acme")
    (address,) = addresses(own, "site")
    wait_until(lambda: fetch(own, "site", address) == "it is site-0")
    assert "Connection refused" in within(own, "site", f"timeout 5 fetch {address} 8080", "--tenant", "acme").stderr


def test_it_runs_on_without_the_edge_and_without_podman_and_is_not_started_twice(own, engine):
    apply(own, pod("site", SERVES))
    runs(own, "site")
    before = Host(own).pids()
    own.kill()
    engine.stop()
    engine.start()
    own.start()
    runs(own, "site")
    assert Host(own).pids() == before and len(before) == 1
    assert starts(own) == 0, "this edge has started nothing"
    assert fetch(own, "site", "127.0.0.1") == "it is site-0"


def test_what_ends_is_started_again_and_named(own):
    apply(own, pod("site", "sleep 1; exit 7"))
    wait_until(lambda: end(own, "site") == "exited with 7", patience_s=30)
    apply(own, pod("wrong", "exec sleep 1000").replace("/bin/sh, -c", "/bin/nothing, -c"))
    wait_until(lambda: "/bin/nothing" in own.run("get", "deployments").stdout, patience_s=30)
    apply(own, pod("large", "exec busybox tail /dev/zero", ", resources: {limits: {memory: 16Mi}}"))
    wait_until(lambda: end(own, "large").startswith("ran out of memory"), patience_s=30)


def test_a_tenant_without_memory_left_is_named(own):
    own.run("tenant", "set", "acme", "--app-memory-bytes", "64MiB", "--app-cpu-millis", "900")
    apply(own, pod("greedy", "sleep 1; exec busybox tail /dev/zero", tenant="acme"))
    named = "its tenant ran out of memory, quota app_memory_bytes"
    wait_until(lambda: end(own, "greedy", "--tenant", "acme").startswith(named), patience_s=30)


def test_its_time_stands_still_while_nobody_asks(own):
    apply(own, idle(pod("site", SERVES) + "---\n" + service("web", "site"), "site", "pause"))
    for _ in range(2):
        wait_until(lambda: is_paused(own))
        assert ask(services(own)["web"], 80) == "it is site-0"
    assert starts(own) == 1
    wait_until(lambda: is_paused(own))
    own.run("delete", "deployment", "site")
    wait_until(lambda: not list((own.data / "containers").iterdir()))


def test_several_containers_that_would_share_a_network_are_refused_by_name(own):
    refused = apply(own, pod("site", SERVES, second="exec sleep 1000"), check=False)
    assert refused.returncode != 0 and "hostNetwork" in refused.stderr
