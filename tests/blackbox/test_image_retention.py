"""Images that nobody needs go, by age and size; those that somebody needs stay, whole, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest

from applications import apply, deployment, ending, runs
from brokers import BINARY
from sites import wait_until
from test_images import SLEEPS, build, images, of_image

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

HOUR_S = 3_600


@pytest.fixture
def own(start):
    """An edge of the test's own, with an image that has a shell."""
    with ending(start()) as edge:
        build(edge, "box:1")
        yield edge


def full(name: str) -> str:
    """As it is listed."""
    return f"docker.io/library/{name}"


def listed(edge) -> dict[str, dict]:
    """What `selvedge image list` says, by names."""
    return {one["name"]: one for one in json.loads(edge.run("image", "list", "--output", "json").stdout)}


def unused_for(edge, ages_s: dict[str, int]) -> None:
    """As if an edge had seen so long ago that nobody needs them any more."""
    since = {full(name): int(time.time()) - age for name, age in ages_s.items()}
    (edge.data / "images/unused.json").write_text(json.dumps(since))


def sleeping(name: str, image: str) -> str:
    """An application that nobody has asked yet."""
    text = of_image(name, SLEEPS, image=image)
    on_demand = f"metadata: {{name: {name}, annotations: {{selvedge.dev/activation: on-demand}}}}"
    return text.replace(f"metadata: {{name: {name}}}", on_demand, 1)


def test_what_an_application_needs_stays_whether_it_runs_sleeps_or_is_gone_back_to(own):
    for name in ("idle:1", "nap:1", "old:1"):
        build(own, name, files={"name": name})
    apply(own, of_image("site", SLEEPS) + "---\n" + sleeping("nap", "nap:1"))
    apply(own, of_image("site", SLEEPS) + "---\n" + of_image("renewed", SLEEPS, image="old:1"))
    runs(own, "site")
    good = own.data / "containers.good/default+renewed.json"
    wait_until(lambda: good.exists() and "old:1" in good.read_text())
    apply(own, of_image("renewed", SLEEPS, image="new:1"))
    wait_until(lambda: 'no image "new:1" is here' in own.run("describe", "deployment", "renewed").stdout)
    users = {name: one["used_by"] for name, one in listed(own).items()}
    assert users == {
        full("box:1"): ["Deployment/site"],
        full("idle:1"): [],
        full("nap:1"): ["Deployment/nap"],
        full("old:1"): ["Deployment/renewed"],
    }
    shown = {line.split()[0]: line for line in own.run("image", "list").stdout.splitlines()}
    assert shown[full("idle:1")].split()[-3:] == ["just", "now", "nothing"]
    assert shown[full("box:1")].split()[-2:] == ["now", "Deployment/site"]
    would = own.run("image", "prune", "--dry-run").stderr
    assert "idle:1 would go" in would
    assert len(would.splitlines()) == 2
    assert len(images(own)) == 4
    did = own.run("image", "prune").stderr
    assert did == would.replace("would go", "is gone").replace("would be given", "were given")
    assert images(own) == [full("box:1"), full("nap:1"), full("old:1")]
    assert "\n" not in own.run("image", "prune").stderr.strip()
    assert deployment(own, "site")["ready"] == 1
    for name in ("site", "nap", "renewed"):
        own.run("delete", "deployment", name)
    wait_until(lambda: not list((own.data / "containers").iterdir()))
    own.run("image", "prune")
    assert images(own) == []
    assert list((own.data / "images/layers").iterdir()) == []


@pytest.mark.parametrize(
    ("policy", "left"),
    [
        ('unused = "5h"', ["box:1", "new:1", "young:1"]),
        ('unused = ""', ["box:1", "new:1", "old:1", "young:1"]),
        # For room, the longest unused first, but for what is of the last hour.
        ('unused = ""\nbytes = 1', ["box:1", "new:1"]),
    ],
)
def test_an_edge_removes_by_itself_what_nobody_has_needed_for_long_or_what_is_too_much(start, policy, left):
    with ending(start(configuration=f"[images]\n{policy}\n")) as own:
        for name in ("box:1", "old:1", "young:1", "new:1"):
            build(own, name, files={"name": name})
        apply(own, of_image("site", SLEEPS))
        runs(own, "site")
        unused_for(own, {"old:1": 6 * HOUR_S, "young:1": 4 * HOUR_S, "new:1": 60, "box:1": 9 * HOUR_S})
        own.stop()
        own.start()
        goes = {full(name) for name in ("old:1", "young:1")} - {full(name) for name in left}
        wait_until(lambda: not goes & set(images(own)))
        if goes:
            own.said("images that nobody needs were removed")
        assert images(own) == [full(name) for name in left]
        assert deployment(own, "site")["ready"] == 1


def test_a_clock_that_was_not_set_makes_no_image_old(start):
    with ending(start(configuration='[images]\nunused = "1h"\n')) as own:
        build(own, "box:1")
        own.stop()
        (own.data / "images/unused.json").write_text(json.dumps({full("box:1"): 60}))
        own.start()
        wait_until(lambda: json.loads((own.data / "images/unused.json").read_text())[full("box:1")] > 10**9)
        assert images(own) == [full("box:1")]


def test_nothing_goes_while_it_is_not_known_what_is_needed(own):
    (own.data / "manifests/default/Deployment").mkdir(parents=True)
    (own.data / "manifests/default/Deployment/later.yaml").write_text("of a version to come")
    said = own.run("image", "prune", check=False)
    assert said.returncode == 1
    assert "later.yaml" in said.stderr
    shown = own.run("image", "list")
    assert "it is not known what needs them" in shown.stderr
    assert shown.stdout.splitlines()[1].split()[-2:] == ["?", "?"]
    assert images(own) == [full("box:1")]


def test_a_removal_that_is_killed_leaves_every_image_whole(own):
    many = {f"files/{number}": f"{number}\n" for number in range(1_000)}
    more = {f"more/{number}": f"{number}\n" for number in range(1_000)}
    layers = own.data / "images/layers"
    script = "for f in /files/*; do cat $f; done | cat > /all; test -e /files/999 && echo whole; " + SLEEPS
    apply(own, of_image("stays", SLEEPS))
    runs(own, "stays")
    for attempt in range(4):
        build(own, "many:1", files=many)
        build(own, "more:1", files=more)
        apply(own, of_image("site", script, image="many:1") + "---\n" + of_image("other", SLEEPS, image="more:1"))
        runs(own, "site")
        runs(own, "other")
        wait_until(lambda: "whole" in own.run("logs", "site").stdout)
        own.run("delete", "deployment", "site")
        own.run("delete", "deployment", "other")
        wait_until(lambda: len(list((own.data / "containers").iterdir())) == 1)
        before = len(list(layers.iterdir()))
        pruning = subprocess.Popen([BINARY, "image", "prune", "--data", str(own.data)], stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while len(list(layers.glob("[0-9a-f]*"))) == before and time.monotonic() < deadline:
            pass
        time.sleep(attempt * 0.004)
        os.kill(pruning.pid, signal.SIGKILL)
        pruning.wait()
        assert full("box:1") in images(own)
        assert deployment(own, "stays")["ready"] == 1
    own.run("image", "prune")
    assert [path.name for path in layers.iterdir() if path.name.startswith(".")] == []
    assert len(list(layers.iterdir())) == 1
