"""A new version of an application, while somebody asks for it all the time."""

from __future__ import annotations

import contextlib
import json
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from applications import Host, apply, deployment, ending
from brokers import PORTS, Selvedge
from sites import SLOWNESS, wait_until
from test_images import build
from test_networks import ask, pod, service, services, with_bash

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

# For a version to become ready: one that ends at once is started three times by then.
PROGRESS_S = int(20 * SLOWNESS)


@pytest.fixture
def own(start):
    """An edge of the test's own, with an image that has a shell."""
    with ending(start()) as edge:
        build(edge, "box:1", files=with_bash())
        yield edge


def site(says: str, port: int, replicas: int = 1, first: str = "", more: str = "") -> str:
    """An application that answers with what it `says`, at a port of the edge and at a Service; `first` it does that."""
    serves = f"{first}mkdir -p /www; echo {says} > /www/index.html; exec httpd -f -p 8080 -h /www"
    ports = f", ports: [{{containerPort: 8080, hostPort: {port}}}]"
    ready = ", readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}"
    text = pod("site", serves, ports + ready, replicas)
    return (
        text.replace("spec:\n", f"spec:\n  progressDeadlineSeconds: {PROGRESS_S}\n" + more, 1)
        + "---\n"
        + service("web", "site")
    )


class Asked:
    """What was answered, by whom it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, list[str]] = {"port": [], "service": []}

    def all(self) -> list[str]:
        return sum(self.answers.values(), [])

    def last(self) -> set[str]:
        return {answer for answers in self.answers.values() for answer in answers[-1:]}


@contextlib.contextmanager
def asking(edge: Selvedge, port: int) -> Iterator[Asked]:
    """Asks at the port and at the Service, one request after the other at each, until the block ends."""
    asked, over = Asked(), threading.Event()

    def asks(way: str, address: str, port: int) -> None:
        while not over.is_set():
            asked.answers[way].append(ask(address, port))
            time.sleep(0.001)

    ways = [("port", "127.0.0.1", port), ("service", services(edge)["web"], 80)]
    for _, address, at in ways:
        wait_until(lambda a=address, p=at: ask(a, p) != "")
    threads = [threading.Thread(target=asks, args=way) for way in ways]
    for thread in threads:
        thread.start()
    try:
        yield asked
    finally:
        over.set()
        for thread in threads:
            thread.join()


def is_done(edge: Selvedge, says: str, asked: Asked) -> bool:
    """Whether all of an application is of the version that `says` this."""
    one = deployment(edge, "site")
    return (
        one.get("rollout") is None
        and one["ready"] == one["replicas"] == len(one["containers"]) == len(Host(edge).pids())
        and asked.last() == {says}
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_no_request_is_lost_in_an_update_and_the_answers_go_over_to_the_new_version(own, replicas):
    port = PORTS.take()
    apply(own, site("one", port, replicas))
    with asking(own, port) as asked:
        wait_until(lambda: is_done(own, "one", asked))
        apply(own, site("two", port, replicas))
        wait_until(lambda: is_done(own, "two", asked), patience_s=30)
    assert set(asked.all()) == {"one", "two"}, asked.all().count("")


BAD = {
    "that-ends-at-once": ("exit 3; ", "exited with 3"),
    "that-is-never-ready": ("sleep 1000; ", f"it was not ready in {PROGRESS_S} s"),
}


@pytest.mark.parametrize(("first", "why"), BAD.values(), ids=BAD.keys())
def test_a_version_is_taken_back_while_the_old_one_answers_and_can_be_replaced(own, first, why):
    port = PORTS.take()
    apply(own, site("one", port, 2))
    with asking(own, port) as asked:
        wait_until(lambda: is_done(own, "one", asked))
        apply(own, site("bad", port, 2, first))
        wait_until(lambda: "taken back" in own.run("get", "deployments").stdout, patience_s=60)
        for said in (own.run("get", "deployments").stdout, own.run("describe", "deployment", "site").stdout):
            assert why in said
        assert "taken-back" in own.run("events").stdout
        one = deployment(own, "site")
        wait_until(lambda: len(Host(own).pids()) == 2)
        assert one["ready"] == 2
        assert set(asked.all()) == {"one"}
        apply(own, site("three", port, 2))
        wait_until(lambda: is_done(own, "three", asked), patience_s=30)
    assert set(asked.all()) == {"one", "three"}


def test_a_version_that_was_taken_back_is_not_tried_again_by_an_edge_that_starts_anew(own):
    port = PORTS.take()
    apply(own, site("one", port))
    wait_until(lambda: ask("127.0.0.1", port) == "one")
    wait_until(lambda: deployment(own, "site").get("rollout") is None)
    apply(own, site("bad", port, first="exit 3; "))
    wait_until(lambda: "taken back" in own.run("get", "deployments").stdout, patience_s=60)
    (pid,) = Host(own).pids()
    own.kill()
    own.start()
    wait_until(lambda: "taken back" in own.run("get", "deployments").stdout)
    time.sleep(3)
    assert Host(own).pids() == [pid]
    assert ask("127.0.0.1", port) == "one"


@pytest.mark.parametrize("replicas", [1, 3])
def test_an_edge_that_is_killed_at_any_step_of_an_update_goes_on_with_it(own, replicas):
    port, seed = PORTS.take(), random.randrange(1 << 32)
    print("seed", seed)
    pick, most = random.Random(seed), 0
    apply(own, site("version-0", port, replicas))
    with asking(own, port) as asked:
        wait_until(lambda: is_done(own, "version-0", asked))
        for number in (1, 2):
            apply(own, site(f"version-{number}", port, replicas))
            for _ in range(4):
                time.sleep(pick.uniform(0, 1.5))
                own.kill()
                most = max(most, len(Host(own).pids()))
                own.start()
            wait_until(lambda n=number: is_done(own, f"version-{n}", asked), patience_s=60)
    assert most <= replicas + 1
    assert set(asked.all()) == {f"version-{number}" for number in range(3)}, asked.all().count("")


def held(directory: Path) -> dict[str, bytes]:
    """All files below a directory, but those that go meanwhile."""
    found = {}
    for path in directory.rglob("*"):
        with contextlib.suppress(OSError):
            found[str(path)] = path.read_bytes()
    return found


# What is seen of an update from outside, step by step: of the edge, its port, and what was before.
STEPS = {
    "its-manifest-is-written": lambda own, port, before: held(own.data / "manifests") != before["manifests"],
    "it-is-made": lambda own, port, before: len(list(Host(own).containers.iterdir())) > before["containers"],
    "it-runs": lambda own, port, before: set(Host(own).pids()) - set(before["pids"]),
    "it-answers": lambda own, port, before: ask("127.0.0.1", port) == "version-1",
    "the-old-one-has-ended": lambda own, port, before: not set(before["pids"]) & set(Host(own).pids()),
    "it-is-known-to-be-good": lambda own, port, before: held(own.data / "containers.good") != before["good"],
}


@pytest.mark.parametrize("step", STEPS)
def test_an_edge_that_is_killed_as_soon_as_a_step_of_an_update_is_seen_goes_on_with_it(own, step):
    port = PORTS.take()
    apply(own, site("version-0", port))
    with asking(own, port) as asked:
        wait_until(lambda: is_done(own, "version-0", asked) and held(own.data / "containers.good"))
        before = {
            "manifests": held(own.data / "manifests"),
            "containers": len(list(Host(own).containers.iterdir())),
            "pids": Host(own).pids(),
            "good": held(own.data / "containers.good"),
        }
        new, applied = site("version-1", port), []
        applying = threading.Thread(target=lambda: applied.append(apply(own, new, check=False).returncode))
        applying.start()
        deadline = time.monotonic() + 60
        while not STEPS[step](own, port, before):
            assert time.monotonic() < deadline, "not in time"
        own.kill()
        applying.join()
        assert len(Host(own).pids()) <= 2
        own.start()
        # Who was not told that it is applied applies it again.
        if applied != [0]:
            apply(own, new)
        wait_until(lambda: is_done(own, "version-1", asked), patience_s=60)
    assert set(asked.all()) == {"version-0", "version-1"}, asked.all().count("")


def test_replicas_end_first_where_the_manifest_says_so(own):
    port = PORTS.take()
    recreate = "  strategy: {type: Recreate}\n"
    apply(own, site("one", port, 2, more=recreate))
    wait_until(lambda: ask("127.0.0.1", port) == "one")
    apply(own, site("two", port, 2, more=recreate))
    seen = set()

    def renewed() -> bool:
        seen.add(len(Host(own).pids()))
        return ask("127.0.0.1", port) == "two"

    wait_until(renewed)
    assert max(seen) <= 2


def test_an_update_says_how_far_it_is(own):
    port = PORTS.take()
    apply(own, site("one", port, 2))
    # There is no other to take the place of before it is known to be good.
    wait_until(lambda: any(path.is_file() for path in (own.data / "containers.good").rglob("*")))
    apply(own, site("two", port, 2, first="sleep 3; "))
    wait_until(lambda: "is renewed" in own.run("get", "deployments").stdout)
    rollout = json.loads(own.run("get", "deployments", "--output", "json").stdout)[0]["rollout"]
    assert rollout
