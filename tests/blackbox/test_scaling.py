"""Replicas follow what comes to a service: between the fewest and the most there may be, and at other nodes of the site
where there are no more here."""

from __future__ import annotations

import json
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator

import pytest

from applications import apply, deployment, ending
from brokers import Selvedge
from raw import PATIENCE_S, SLOWNESS
from sites import wait_until
from test_images import build
from test_mesh import site as site  # noqa: PLC0414 (a fixture)
from test_networks import pod, runs, service, services, with_bash
from test_on_demand import sleeps

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

OWN = "selvedge.dev"
ANSWERS = """\
echo '#!/bin/sh
{}
echo "Content-Type: text/plain"; echo; hostname' > /www/cgi-bin/slow
chmod 755 /www/cgi-bin/slow; exec httpd -f -p 8080 -h /www"""
# Each takes half a second, and as many at once as come.
AT_ONCE = "mkdir -p /www/cgi-bin; " + ANSWERS.format("sleep 0.5")
# Each takes 50 ms, one after the other.
IN_TURN = "mkdir -p /www/cgi-bin; " + ANSWERS.format(
    "until mkdir /www/turn 2>/dev/null; do sleep 0.003; done; sleep 0.05; busybox rmdir /www/turn"
)


def web(script: str = AT_ONCE, least: int = 1, **annotations: object) -> str:
    """An application and its service; annotations of this program's, with `_` in place of `-`."""
    written = {f"{OWN}/{name.replace('_', '-')}": str(value) for name, value in annotations.items()}
    text = pod("web", script, replicas=least)
    text = text.replace("namespace: default}", f"namespace: default, annotations: {json.dumps(written)}}}", 1)
    return text + "---\n" + service("web", "web")


class Callers:
    """Who call the service of an edge, each again as soon as it is answered, until this is left."""

    body: bytes | None = None

    def __init__(self, edge: Selvedge, count: int):
        self.url = f"http://{services(edge)['web']}/cgi-bin/slow"
        self.answers: Counter = Counter()
        self.failures: list[str] = []
        self.is_over = False
        self.threads = [threading.Thread(target=self._call) for _ in range(count)]

    def _call(self) -> None:
        while not self.is_over:
            try:
                with urllib.request.urlopen(self.url, self.body, timeout=PATIENCE_S) as answer:
                    self.answers[answer.read().decode().strip()] += 1
            except OSError as error:
                self.failures.append(f"{error} {getattr(error, 'read', bytes)()}")

    def __enter__(self) -> Callers:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        for thread in self.threads:
            thread.join()
        assert not self.failures, self.failures


class Posting(Callers):
    """Those whose requests nobody may send twice."""

    body = b"once"


@pytest.fixture
def own(start) -> Iterator[Selvedge]:
    """An edge of the test's own, with an image that has a shell."""
    with ending(start()) as edge:
        edge.runtime = "oci"
        build(edge, "box:1", files=with_bash())
        yield edge


def ready(edge: Selvedge) -> int:
    """Replicas that are ready."""
    return deployment(edge, "web")["ready"]


def test_replicas_are_as_many_as_requests_at_once_ask_for_and_fewer_when_that_is_over_and_no_request_fails(own):
    apply(own, web(max_replicas=3, target_concurrency=2, scale_down_after="2s"))
    runs(own, "web")
    with Callers(own, 1) as calm:
        with Callers(own, 4):
            wait_until(lambda: ready(own) == 3, 20)
            wait_until(lambda: len(calm.answers) == 3, 20)
            assert "3/3" in own.run("get", "deployments").stdout
        wait_until(lambda: ready(own) == 1, 20)
    assert "1/1 (≤ 3)" in own.run("get", "deployments").stdout
    assert "to 3 replicas" in own.run("events", "web").stdout


def test_more_replicas_come_where_answers_take_longer_than_they_are_to(own):
    apply(own, web(IN_TURN, max_replicas=6, target_latency="150ms"))
    runs(own, "web")
    with Callers(own, 1):
        time.sleep(3 * SLOWNESS)
        assert ready(own) == 1
        with Callers(own, 7):
            wait_until(lambda: ready(own) >= 3, 20)


def test_what_has_been_sent_to_a_replica_that_is_not_needed_any_more_is_answered_before_it_ends(own):
    ends = AT_ONCE.replace("exec httpd", "trap 'exit 0' TERM; httpd").replace("-h /www", "-h /www & wait")
    text = web(
        ends.replace("sleep 0.5", "sleep 1"), least=2, max_replicas=3, target_concurrency=8, scale_down_after="0s"
    )
    text = text.replace("terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 5")
    apply(own, text)
    runs(own, "web")
    with Posting(own, 4) as callers:
        wait_until(lambda: len(callers.answers) == 2)
        apply(own, text.replace("replicas: 2", "replicas: 1"))
        wait_until(lambda: len(deployment(own, "web")["containers"]) == 1)
        time.sleep(2 * SLOWNESS)


def test_replicas_that_do_not_listen_yet_cost_nobody_a_request(own):
    apply(own, web("sleep 1; " + AT_ONCE, max_replicas=7, target_concurrency=1))
    runs(own, "web")
    time.sleep(1.5 * SLOWNESS)
    with Posting(own, 7):
        wait_until(lambda: ready(own) == 7, 20)
        time.sleep(2 * SLOWNESS)


def test_one_that_sleeps_is_woken_grows_and_sleeps_again(own):
    on_demand = {"activation": "on-demand", "idle_timeout": "2s"}
    apply(own, web(max_replicas=3, target_concurrency=1, scale_down_after="1s", **on_demand))
    wait_until(lambda: sleeps(own, "web"))
    with Callers(own, 3):
        wait_until(lambda: ready(own) == 3, 20)
    wait_until(lambda: sleeps(own, "web"), 20)


def test_an_edge_that_was_killed_goes_on_with_as_many_as_there_were(own):
    apply(own, web(max_replicas=3, target_concurrency=1))
    runs(own, "web")
    with Callers(own, 3):
        wait_until(lambda: ready(own) == 3, 20)
    before = {container["start"] for container in deployment(own, "web")["containers"]}
    own.process.send_signal(signal.SIGKILL)
    own.process.wait()
    own.start()
    wait_until(lambda: ready(own) == 3)
    time.sleep(2 * SLOWNESS)
    assert {container["start"] for container in deployment(own, "web")["containers"]} == before


def test_a_node_that_can_have_no_more_wakes_another_one_and_one_that_can_does_not(site):
    here, there = site("here", "there")
    on_demand = {"activation": "on-demand", "idle_timeout": "60s"}
    apply(there, web(max_replicas=2, target_concurrency=2, **on_demand))
    apply(here, web(max_replicas=3, target_concurrency=2))
    runs(here, "web")
    wait_until(lambda: "there (sleeps)" in here.run("get", "services").stdout)
    with Callers(here, 5):
        wait_until(lambda: ready(here) == 3, 20)
        time.sleep(2 * SLOWNESS)
        assert sleeps(there, "web")
        with Callers(here, 6):
            wait_until(lambda: ready(there) >= 1, 20)


def test_what_makes_no_sense_is_refused_by_its_name_and_says_what_would(own):
    for written, words in [
        ({"max_replicas": "many", "target_concurrency": 1}, 'max-replicas: "many" is no number of replicas'),
        ({"max_replicas": 1, "least": 2, "target_concurrency": 1}, "max-replicas: is 1, and spec.replicas, the least"),
        ({"max_replicas": 3}, "max-replicas: says how many replicas there may be, and nothing when: write"),
        ({"max_replicas": 3, "target_concurrency": 1, "target_latency": "9ms"}, "target-latency: stands beside"),
        ({"target_concurrency": 1}, f"target-concurrency: needs {OWN}/max-replicas beside it"),
        ({"max_replicas": 3, "target_concurrency": "NaN"}, 'target-concurrency: "NaN" is no number of requests'),
        ({"max_replicas": 3, "target_latency": "0s"}, 'target-latency: "0s" is no time from 1ms to 60s'),
        (
            {"max_replicas": 3, "target_latency": "9ms", "scale_down_after": "soon"},
            'scale-down-after: "soon" is no time',
        ),
        ({"max_replicas": 101, "target_concurrency": 1}, "makes 101 containers; an application has at most 100"),
    ]:
        refused = apply(own, web(**written), check=False)
        assert refused.returncode != 0 and words in refused.stderr, (words, refused.stderr)
    of_host = web(max_replicas=3, target_concurrency=1).replace("hostNetwork: false", "hostNetwork: true")
    refused = apply(own, of_host, check=False)
    assert "max-replicas: is for containers with a network of their own" in refused.stderr, refused.stderr


def test_all_replicas_that_there_may_be_count_for_the_quota_of_containers(own):
    own.run("tenant", "set", "default", "--containers", "2")
    refused = apply(own, web(max_replicas=3, target_concurrency=1), check=False)
    assert "would have 3; its quota containers is 2" in refused.stderr, refused.stderr
    apply(own, web(max_replicas=2, target_concurrency=1))
    assert deployment(own, "web")["max_replicas"] == 2
