"""Applications on demand whose time stands still while nobody asks them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from applications import Host, application, apply, deployment, ending
from brokers import PORTS, Selvedge
from raw import SLOWNESS
from sites import wait_until
from test_docker import in_docker
from test_images import build
from test_networks import SERVES, ask, pod, service, services, with_bash
from test_on_demand import starts

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

# Counts twenty times a second, and says how far it is.
COUNTS = (
    "mkdir -p $WWW; i=0; while :; do i=$((i+1)); echo $i > $WWW/new; mv $WWW/new $WWW/index.html; sleep 0.05; done & "
)
COUNTS += "exec busybox httpd -f -p $PORT -h $WWW"


@pytest.fixture
def own(start, request) -> Iterator[Selvedge]:
    """An edge of the test's own, with an image that has a shell, and a Docker Engine where the test wants one."""
    environment = {}
    if "docker" in request.node.name:
        environment = {"DOCKER_HOST": f"unix://{request.getfixturevalue('engine').socket}"}
    with ending(start(environment=environment)) as edge:
        build(edge, "box:1", files=with_bash())
        yield edge
        edge.run("delete", "deployment", "site", check=False)
        wait_until(lambda: not containers(edge))


def containers(edge: Selvedge) -> list[str]:
    """Starts of containers whose files are there."""
    return sorted(path.name for path in (edge.data / "containers").iterdir())


def idle(text: str, name: str, when_idle: str, timeout: str = "1s") -> str:
    """As `text`, on demand."""
    annotations = f"selvedge.dev/activation: on-demand, selvedge.dev/idle-timeout: {timeout}"
    annotations += f", selvedge.dev/when-idle: {when_idle}"
    return text.replace(f"{{name: {name}", f"{{name: {name}, annotations: {{{annotations}}}", 1)


def counter(runtime: str, directory: Path, port: int) -> str:
    """What counts, in a runtime, at a port of the edge; in Docker as the Service `web`."""
    inner = 8080 if runtime == "oci" else PORTS.take()
    script = COUNTS.replace("$WWW", str(directory / "www") if runtime == "process" else "/www")
    script = script.replace("$PORT", f"127.0.0.1:{inner}" if runtime == "process" else str(inner))
    ports = "" if runtime == "docker" else f", ports: [{{containerPort: {inner}, hostPort: {port}}}]"
    made = {
        "process": lambda: application("site", script, ports),
        "oci": lambda: pod("site", script.replace("busybox ", ""), ports),
        "docker": lambda: in_docker("site", script.replace("busybox ", ""), ports),
    }
    text = idle(made[runtime](), "site", "pause")
    return text + "---\n" + service("web", "site", target=inner) if runtime == "docker" else text


def is_paused(edge: Selvedge) -> bool:
    """Whether it is there, and its time stands still."""
    one = deployment(edge, "site")
    return one["sleeps"] and one["containers"] != [] and all(each["is_paused"] for each in one["containers"])


def count(edge: Selvedge, port: int) -> int:
    """How far it is."""
    at = services(edge).get("web")
    return int((ask(at, 80) if at else ask("127.0.0.1", port)) or 0)


@pytest.mark.parametrize("runtime", ["process", "oci", "docker"])
def test_it_is_ready_before_the_first_request_and_its_time_stands_still_between_requests(own, tmp_path, runtime):
    port = PORTS.take()
    apply(own, counter(runtime, tmp_path, port))
    wait_until(lambda: is_paused(own))
    assert "is paused until somebody asks" in own.run("get", "deployments").stdout
    begun = containers(own)
    wait_until(lambda: count(own, port) > 0)
    for _ in range(2):
        wait_until(lambda: is_paused(own))
        began, before = time.monotonic(), count(own, port)
        wait_until(lambda: is_paused(own))
        time.sleep(3)
        grown, awake_s = count(own, port) - before, time.monotonic() - began - 3
        # It counts no faster than that, and once more as its time goes on.
        assert grown <= 20 * awake_s + 3, awake_s
    assert containers(own) == begun
    assert starts(own) == 1
    said = json.loads(own.run("events", "--output", "json").stdout)
    assert "paused" in [one["what"] for one in said]


@pytest.mark.parametrize("runtime", ["process", "oci", "docker"])
def test_a_killed_edge_finds_it_paused_and_has_it_answer(own, tmp_path, runtime):
    port = PORTS.take()
    apply(own, counter(runtime, tmp_path, port))
    wait_until(lambda: is_paused(own))
    begun = containers(own)
    own.kill()
    own.start()
    wait_until(lambda: count(own, port) > 0)
    wait_until(lambda: is_paused(own))
    assert containers(own) == begun


def freezer_of(pid: int) -> Path:
    """The file by which the time of a process is stopped (cgroups(7)), in either version."""
    groups = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    for _, controllers, group in groups:
        if controllers == "freezer":
            return Path(f"/sys/fs/cgroup/freezer{group}/freezer.state")
    return Path(f"/sys/fs/cgroup{groups[0][2]}/cgroup.freeze")


@pytest.mark.parametrize("runtime", ["process", "oci", "docker"])
def test_one_whose_time_cannot_be_stopped_runs_on_and_is_paused_once_it_can(own, tmp_path, runtime):
    port = PORTS.take()
    apply(own, counter(runtime, tmp_path, port).replace("idle-timeout: 1s", "idle-timeout: 3s"))
    wait_until(lambda: count(own, port) > 0)
    freezer = str(freezer_of(Host(own).pids()[0]))
    subprocess.run(["mount", "--bind", freezer, freezer], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", freezer], check=True)
        troubles = lambda: [one["trouble"] for one in deployment(own, "site")["containers"]]  # noqa: E731
        wait_until(lambda: any("Read-only" in (trouble or "") for trouble in troubles()))
        assert not is_paused(own)
    finally:
        subprocess.run(["umount", freezer], check=True)
    wait_until(lambda: is_paused(own))
    wait_until(lambda: count(own, port) > 0)
    assert starts(own) == 1


@pytest.mark.parametrize("runtime", ["process", "oci", "docker"])
def test_one_that_is_paused_is_ended_when_it_is_deleted(own, tmp_path, runtime):
    apply(own, counter(runtime, tmp_path, PORTS.take()))
    wait_until(lambda: is_paused(own))
    own.run("delete", "deployment", "site")
    wait_until(lambda: not containers(own))


def test_one_that_somebody_has_docker_pause_answers_the_next_request(own, engine, tmp_path):
    # Long enough for Docker to be told before the edge pauses it.
    idle = f"idle-timeout: {3 * SLOWNESS:.0f}s"
    apply(own, counter("docker", tmp_path, PORTS.take()).replace("idle-timeout: 1s", idle))
    wait_until(lambda: is_paused(own))
    wait_until(lambda: count(own, 80) > 0)
    engine.docker("pause", *engine.said("ps", "--quiet"))
    wait_until(lambda: is_paused(own))
    wait_until(lambda: count(own, 80) > 0)
    assert starts(own) == 1


@pytest.mark.parametrize("end", ["stop", "kill", "rm --force"])
def test_one_that_is_paused_and_that_docker_is_told_to_end_ends_and_is_there_again(own, engine, tmp_path, end):
    apply(own, counter("docker", tmp_path, PORTS.take()))
    wait_until(lambda: is_paused(own))
    before = engine.said("ps", "--quiet")
    engine.docker(*end.split(), *before)
    wait_until(lambda: is_paused(own) and not set(engine.said("ps", "--quiet")) & set(before))
    wait_until(lambda: count(own, 80) > 0)


def test_an_engine_of_docker_that_begins_anew_with_one_that_is_paused_has_it_answer(own, engine, tmp_path):
    apply(own, counter("docker", tmp_path, PORTS.take()))
    wait_until(lambda: is_paused(own))
    engine.stop()
    engine.start()
    wait_until(lambda: count(own, 80) > 0, patience_s=60)
    wait_until(lambda: is_paused(own))
    wait_until(lambda: count(own, 80) > 0)


def test_a_new_version_takes_the_place_of_one_that_is_paused(own):
    port = PORTS.take()
    ports = f", ports: [{{containerPort: 8080, hostPort: {port}}}]"
    apply(own, idle(pod("site", SERVES, ports), "site", "pause"))
    wait_until(lambda: is_paused(own))
    before = Host(own).pids()
    apply(own, idle(pod("site", SERVES.replace("it is", "it was"), ports), "site", "pause"))
    wait_until(lambda: is_paused(own) and not set(Host(own).pids()) & set(before))
    assert ask("127.0.0.1", port).startswith("it was site-")
    assert len(Host(own).pids()) == 1


def test_each_use_finds_a_new_one_that_was_ready_before(own):
    port = PORTS.take()
    slow = "read -r me < /proc/sys/kernel/random/uuid; echo $me; sleep 2; mkdir -p /www; echo $me > /www/index.html; "
    slow += "exec httpd -f -p 8080 -h /www"
    probe = ", readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}"
    ports = f", ports: [{{containerPort: 8080, hostPort: {port}}}]" + probe
    apply(own, idle(pod("site", slow, ports), "site", "renew"))
    who = lambda: own.run("logs", "site", check=False).stdout.strip().rsplit(" ", 1)[-1]  # noqa: E731
    seen: list[str] = []
    for _ in range(3):
        wait_until(lambda: is_paused(own) and who() not in ["", *seen])
        seen.append(who())
        # It answers who was there before it was asked: nobody waits for the two seconds of a start.
        assert ask("127.0.0.1", port) == seen[-1]


def test_requests_while_it_falls_asleep_and_wakes_are_all_answered(own):
    port = PORTS.take()
    ports = f", ports: [{{containerPort: 8080, hostPort: {port}}}]"
    apply(own, idle(pod("site", SERVES, ports), "site", "pause", "50ms"))
    wait_until(lambda: is_paused(own))
    for number in range(60):
        assert ask("127.0.0.1", port) == "it is site-0"
        time.sleep(0.04 + number % 7 * 0.01)
    assert starts(own) == 1


def test_containers_of_a_replica_that_need_each_other_are_paused_together(own):
    port = PORTS.take()
    second = "until fetch 127.0.0.1 8080; do sleep 0.1; done; touch /ready; exec sleep 1000"
    times = f"periodSeconds: 1, timeoutSeconds: {SLOWNESS:.0f}"
    probe = f"readinessProbe: {{exec: {{command: [test, -e, /ready]}}, {times}}}"
    beside = (
        f"        - {{name: beside, image: 'box:1', command: [/bin/sh, -c], args: [{json.dumps(second)}], {probe}}}\n"
    )
    ports = f", ports: [{{containerPort: 8080, hostPort: {port}}}]"
    apply(own, idle(pod("site", SERVES, ports) + beside, "site", "pause"))
    wait_until(lambda: is_paused(own) and len(Host(own).pids()) == 2)
    assert ask("127.0.0.1", port) == "it is site-0"


def test_what_becomes_of_it_has_to_be_one_of_three(own):
    text = idle(pod("site", SERVES), "site", "hibernate")
    assert '"hibernate" is neither stop, pause nor renew' in apply(own, text, check=False).stderr


@pytest.mark.parametrize("runtime", ["oci", "docker"])
def test_what_cannot_be_started_is_not_shown_as_paused_or_asleep(own, runtime):
    made = {"oci": pod, "docker": in_docker}[runtime]("site", "exit")
    apply(own, idle(made.replace("/bin/sh, -c", "/bin/nothing, -c"), "site", "pause"))
    wait_until(lambda: deployment(own, "site")["restarts"] > 0)
    wait_until(lambda: "is started again" in own.run("get", "deployments").stdout)
    assert "nothing" in own.run("get", "deployments").stdout
    assert "paused" not in [one["what"] for one in json.loads(own.run("events", "--output", "json").stdout)]
