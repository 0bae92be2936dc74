"""Applications that start after others: once those are ready, and not before."""

from __future__ import annotations

import json
import time

import pytest

from applications import SLEEPS, Host, application, apply, deployment, ending, runs
from sites import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]


@pytest.fixture
def own(start):
    """An edge of the test's own, whose applications end with the test."""
    with ending(start()) as edge:
        yield edge


def after(name: str, others: str, more: str = "") -> str:
    """An application that comes after others."""
    text = application(name, SLEEPS, more)
    return text.replace(
        f"metadata: {{name: {name}}}",
        f"metadata: {{name: {name}, annotations: {{selvedge.dev/depends-on: '{others}'}}}}",
        1,
    )


def ready_with(file) -> str:
    """A readiness probe: whether a file is there."""
    return f", readinessProbe: {{periodSeconds: 1, failureThreshold: 1, exec: {{command: [test, -e, {file}]}}}}"


def state(own, name: str) -> str:
    """What is said of an application."""
    lines = own.run("get", "deployments").stdout.splitlines()
    return next(line for line in lines if line.split()[0] == name)


def starts(own, name: str) -> list[dict]:
    """What is known of starts of its containers."""
    return [one for one in deployment(own, name)["containers"] if one["start"]]


def test_an_application_starts_once_those_before_it_are_ready_and_runs_on_when_they_are_not(own):
    file = own.directory / "up"
    apply(own, after("web", "db") + "---\n" + application("db", SLEEPS, ready_with(file)))
    wait_until(lambda: "it waits for db, which is not ready" in state(own, "web"))
    wait_until(lambda: deployment(own, "db")["containers"][0]["is_running"])
    time.sleep(1)  # Nothing happens.
    assert starts(own, "web") == []
    file.touch()
    runs(own, "web")
    before = Host(own).pids()
    file.unlink()
    wait_until(lambda: deployment(own, "db")["ready"] == 0)
    assert Host(own).pids() == before
    assert deployment(own, "web")["ready"] == 1
    events = json.loads(own.run("events", "web", "--output", "json").stdout)
    assert [event["what"] for event in events] == ["waiting", "started"]


def test_the_order_is_kept_after_the_host_was_off(own):
    file = own.directory / "up"
    file.touch()
    apply(own, after("web", "db, cache") + "---\n" + application("cache", SLEEPS))
    wait_until(lambda: "it waits for db, which is not applied" in state(own, "web"))
    apply(own, application("db", SLEEPS, ready_with(file)))
    runs(own, "web")
    own.kill()
    Host(own).kill_all()
    file.unlink()
    own.start()
    runs(own, "cache")
    wait_until(lambda: "it waits for db, which is not ready" in state(own, "web"))
    file.touch()
    runs(own, "web")


def test_applications_that_wait_for_each_other_are_refused_and_nothing_is_applied(own):
    apply(own, after("a", "b") + "---\n" + application("other", SLEEPS))
    runs(own, "other")
    said = apply(own, application("new", SLEEPS) + "---\n" + after("c", "a") + "---\n" + after("b", "c"), check=False)
    assert said.returncode == 1
    assert "app.yaml:31: metadata.annotations.selvedge.dev/depends-on: goes round in a circle" in said.stderr
    assert "(b → c → a → b)" in said.stderr
    assert "nothing was applied" in said.stderr
    said = apply(own, after("self", "self"), check=False)
    assert (
        "app.yaml:3: metadata.annotations.selvedge.dev/depends-on: goes round in a circle (self → self)" in said.stderr
    )
    said = apply(own, after("wrong", "No Name"), check=False)
    assert '"No Name" names no application; write such as: db, cache' in said.stderr
    names = {line.split()[0] for line in own.run("get", "deployments").stdout.splitlines()[1:]}
    assert names == {"a", "other"}
    assert deployment(own, "other")["ready"] == 1


def test_a_circle_that_files_have_is_said_and_holds_up_nobody_else(own):
    apply(own, after("a", "b"))
    own.stop()
    kept = own.data / "manifests/default/Deployment"
    text = (kept / "a.yaml").read_text()
    (kept / "b.yaml").write_text(text.replace("name: a", "name: b").replace("depends-on: b", "depends-on: a"))
    own.start()
    apply(own, application("other", SLEEPS))
    runs(own, "other")
    assert "goes round in a circle (a → b → a)" in state(own, "a")
    assert "goes round in a circle" in own.run("describe", "deployment", "b").stdout
    apply(own, application("b", SLEEPS))
    runs(own, "a")


def test_who_comes_after_one_that_sleeps_starts_at_once(own):
    sleeper = application("db", SLEEPS).replace(
        "metadata: {name: db}", "metadata: {name: db, annotations: {selvedge.dev/activation: on-demand}}", 1
    )
    apply(own, sleeper + "---\n" + after("web", "db"))
    runs(own, "web")
    assert deployment(own, "db")["ready"] == 0
