"""What applications said that do not run now: `selvedge logs` of those that sleep, have no replicas or were renewed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from applications import SLEEPS, Host, application, apply, deployment, ending, runs
from brokers import PORTS, Selvedge
from sites import wait_until
from test_networks import SERVES, ask, over_each
from test_on_demand import sleeper, sleeps
from test_volumes import said

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

INIT = "      initContainers:\n        - {name: first, image: /bin/sh, args: [-c, echo prepared]}\n      containers:"


@pytest.fixture
def own(start) -> Iterator[Selvedge]:
    """An edge over programs of the host."""
    with ending(start()) as edge:
        yield edge


@pytest.fixture(params=["oci", "docker"])
def over_images(start, request) -> Iterator[Selvedge]:
    """An edge over each of what runs images."""
    with over_each(start, request) as edge:
        yield edge


def lines(edge: Selvedge, *words: str) -> list[str]:
    """What `selvedge logs` says; nothing where it says why not."""
    kept = edge.run("logs", "site", *words, check=False).stdout.splitlines()
    return [line.split(" F ", 1)[1] for line in kept]


def test_what_has_no_replicas_any_more_is_shown_with_what_it_said_last_until_it_is_deleted(own):
    text = application("site", "echo one; echo two; " + SLEEPS, replicas=2).replace("      containers:", INIT)
    apply(own, text)
    runs(own, "site")
    wait_until(lambda: lines(own) == ["one", "two", "started"] == lines(own, "--replica", "1"))
    apply(own, text.replace("replicas: 2", "replicas: 0"))
    wait_until(lambda: not deployment(own, "site")["containers"] and not list(Host(own).containers.iterdir()))
    for _ in range(2):
        assert lines(own) == ["one", "two", "started"] == lines(own, "--replica", "1")
        assert lines(own, "--tail", "1") == ["started"]
        assert lines(own, "-c", "first") == ["prepared"]
        assert "no earlier start of main" in own.run("logs", "site", "--previous", check=False).stderr
        assert (
            'no container "other"; there are first, main' in own.run("logs", "site", "-c", "other", check=False).stderr
        )
        assert "replica 2 has not been started" in own.run("logs", "site", "--replica", "2", check=False).stderr
        # An edge that begins anew knows it, too.
        own.kill()
        own.start()
    (kept,) = own.data.glob("containers.logs")
    assert kept.stat().st_mode & 0o777 == 0o700
    own.run("delete", "deployment", "site")
    wait_until(lambda: not list(kept.iterdir()))
    apply(own, text.replace("replicas: 2", "replicas: 0"))
    assert "replica 0 has not been started" in own.run("logs", "site", check=False).stderr


def test_what_is_deleted_while_no_edge_runs_is_forgotten_by_the_next(own):
    apply(own, application("site", "echo one; " + SLEEPS))
    wait_until(lambda: lines(own) == ["one", "started"])
    apply(own, application("site", "echo one; " + SLEEPS, replicas=0))
    wait_until(lambda: not list(Host(own).containers.iterdir()))
    kept = own.data / "containers.logs"
    assert list(kept.iterdir())
    own.stop()
    own.run("delete", "deployment", "site")
    own.start()
    wait_until(lambda: not list(kept.iterdir()))


def test_of_a_new_version_the_start_before_is_the_last_of_the_old_one(own):
    apply(own, application("site", "echo old; " + SLEEPS))
    wait_until(lambda: lines(own) == ["old", "started"])
    apply(own, application("site", "echo new; " + SLEEPS))
    wait_until(lambda: lines(own) == ["new", "started"])
    assert lines(own, "--previous") == ["old", "started"]


def test_what_sleeps_is_shown_with_what_it_said_before_and_the_time_before_that(over_images):
    own, port = over_images, PORTS.take()
    apply(own, sleeper("site", "read -r me < /proc/sys/kernel/random/uuid; echo $me; " + SERVES, port))
    wait_until(lambda: sleeps(own, "site"))
    assert "has not been started" in own.run("logs", "site", check=False).stderr
    seen: list[list[str]] = []
    for _ in range(3):
        assert ask("127.0.0.1", port) == "it is site-0"
        wait_until(lambda: sleeps(own, "site"))
        seen.append(said(own, "site"))
        assert len(seen[-1]) == 1
        assert seen[-1] not in seen[:-1]
        assert seen[:-1] == [] or lines(own, "--previous") == seen[-2]
