"""Applications that a real Docker Engine runs, which is stopped and started underneath them."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from applications import SLEEPS, application, apply, deployment, ending, runs, runs_now
from brokers import BINARY, PORTS, Selvedge
from engines import IMAGE, Engine
from machine import tried
from sites import wait_until
from test_images import build
from test_networks import SERVES, Between, addresses, ask, fetch, pod, with_bash
from test_pods import followed
from test_registries import USERS, Registry

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]


@pytest.fixture
def own(start, engine) -> Iterator[Selvedge]:
    """An edge of the test's own, with the engine; what it ran is gone with it."""
    with ending(start(environment={"DOCKER_HOST": f"unix://{engine.socket}"})) as edge:
        yield edge
    engine.clear()


def in_docker(name: str, script: str, more: str = "", spec: str = "", replicas: int = 1) -> str:
    """A shell that runs a script; `more` are lines of its container, `spec` those of its pod."""
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      runtimeClassName: docker
      hostNetwork: true
      terminationGracePeriodSeconds: 1
{spec}      containers:
        - {{name: main, image: '{IMAGE}', command: [/bin/sh, -c], args: [{json.dumps(script)}]{more}}}
"""


def pids(engine: Engine) -> list[int]:
    """First processes of what runs in the engine."""
    found = engine.docker("ps", "--quiet").stdout.decode().split()
    if not found:
        return []
    return [int(pid) for pid in engine.docker("inspect", "--format", "{{.State.Pid}}", *found).stdout.split()]


def test_it_runs_answers_and_is_ended_and_nothing_of_it_is_left(own, engine):
    port = PORTS.take()
    serves = SERVES.replace("-p 8080", f"-p {port}")
    probe = f", readinessProbe: {{httpGet: {{port: {port}, path: /}}, periodSeconds: 1}}"
    apply(own, in_docker("site", serves, probe))
    runs(own, "site")
    assert ask("127.0.0.1", port).startswith("it is ")
    assert "site" in own.run("top").stdout
    own.run("delete", "deployment", "site")
    wait_until(lambda: engine.docker("ps", "--all", "--quiet").stdout == b"")
    wait_until(lambda: not list((own.data / "containers").iterdir()))


def test_it_says_what_it_said_and_runs_commands(own, engine):
    apply(own, in_docker("talker", "echo good morning; echo oh >&2; exec sleep 1000"))
    runs(own, "talker")
    wait_until(lambda: len(own.run("logs", "talker").stdout.splitlines()) == 2)
    kept = sorted(line.split(" ", 1)[1] for line in own.run("logs", "talker").stdout.splitlines())
    assert kept == ["stderr F oh", "stdout F good morning"]
    command = [BINARY, "exec", "talker", "--data", str(own.data), "--", "/bin/sh", "-c", "echo within; exit 7"]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)
    assert (done.returncode, done.stdout) == (7, "within\n"), done


def test_its_log_is_followed_through_its_starts(own):
    apply(own, in_docker("site", "i=0; while [ $i -lt 5 ]; do echo line $i; i=$((i+1)); sleep 0.1; done"))
    wait_until(lambda: "line" in own.run("logs", "site", check=False).stdout)
    running = followed(own, "site")
    lines = [running.stdout.readline().decode() for _ in range(9)]
    running.kill()
    running.wait()
    numbers = [int(line.rsplit(" ", 1)[1]) for line in lines]
    first = numbers[0]
    assert numbers == [number % 5 for number in range(first, first + 9)]


def test_it_runs_on_while_the_edge_is_killed_and_is_not_started_twice(own, engine):
    apply(own, in_docker("site", SLEEPS, replicas=2))
    runs(own, "site")
    before = pids(engine)
    assert len(before) == 2
    own.kill()
    assert all(runs_now(pid) for pid in before)
    own.start()
    runs(own, "site")
    assert sorted(pids(engine)) == sorted(before)


def test_what_ends_is_started_again_and_named(own, engine):
    apply(own, in_docker("site", SLEEPS))
    runs(own, "site")
    (before,) = pids(engine)
    os.kill(before, 9)
    wait_until(lambda: deployment(own, "site")["restarts"] == 1)
    wait_until(lambda: pids(engine) not in ([], [before]))
    assert "killed by signal 9" in own.run("events").stdout
    (container,) = engine.docker("ps", "--quiet").stdout.decode().split()
    engine.docker("rm", "--force", container)
    wait_until(lambda: len(pids(engine)) == 1)


def test_an_engine_that_is_stopped_underneath_is_said_and_its_applications_come_back_with_it(own, engine):
    apply(own, in_docker("site", SLEEPS))
    runs(own, "site")
    engine.stop()
    try:
        wait_until(lambda: "no Docker Engine answers at" in own.run("get", "deployments").stdout, patience_s=60)
        own.kill()
        own.start()
        apply(own, application("other", SLEEPS))
        runs(own, "other")
        own.run("delete", "deployment", "other")
    finally:
        engine.start()
    wait_until(lambda: len(pids(engine)) == 1, patience_s=60)
    runs(own, "site")


def test_its_volumes_users_and_rights_are_what_the_manifest_says(own, engine):
    volumes = """\
      securityContext: {fsGroup: 4711}
      volumes:
        - {name: data, emptyDir: {}}
        - {name: memory, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
        - {name: values, configMap: {name: values}}
"""
    more = (
        ", securityContext: {runAsUser: 1234, runAsGroup: 99, readOnlyRootFilesystem: true}, volumeMounts: ["
        "{name: data, mountPath: /data}, {name: memory, mountPath: /memory}, {name: values, mountPath: /values}]"
    )
    script = "id; cat /values/greeting; touch /data/here /memory/here && echo; touch /note; exec sleep 1000"
    values = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: values}\ndata: {greeting: hello}\n---\n"
    apply(own, values + in_docker("site", script, more, volumes))
    runs(own, "site")
    wanted = ["uid=1234 gid=99 groups=99,4711", "hello", "Read-only file system"]
    wait_until(lambda: all(words in own.run("logs", "site").stdout for words in wanted))
    (container,) = engine.docker("ps", "--quiet").stdout.decode().split()
    found = json.loads(engine.docker("inspect", container).stdout)[0]["HostConfig"]
    assert found["CapDrop"] == ["ALL"] and found["SecurityOpt"] == ["no-new-privileges"]


def test_an_image_that_docker_cannot_have_is_said_and_a_good_one_takes_its_place(own, engine):
    wrong = in_docker("site", SLEEPS).replace(IMAGE, "127.0.0.1:1/none:1")
    apply(own, wrong)
    wait_until(lambda: "Docker cannot have the image" in own.run("get", "deployments").stdout, patience_s=30)
    apply(own, in_docker("site", SLEEPS))
    runs(own, "site")


def test_the_engine_pulls_an_image_as_whom_the_manifest_says_and_later_does_without_the_registry(own, engine, tmp_path):
    users = tmp_path / "users"
    users.write_text(USERS)
    registry = Registry(tmp_path / "registry", users)
    try:
        name = f"{registry.name}/site:1"
        engine.docker("tag", IMAGE, name)
        login = ["login", "--username", "plant", "--password-stdin", registry.name]
        engine.docker(*login, stdin=b"secret")
        engine.docker("push", name)
        engine.docker("logout", registry.name)
        engine.docker("rmi", name)
        always = ", imagePullPolicy: Always"
        apply(own, in_docker("site", SLEEPS, always).replace(IMAGE, name))
        wait_until(lambda: "no basic auth credentials" in own.run("get", "deployments").stdout, patience_s=30)
        logins = json.dumps({"auths": {registry.name: {"username": "plant", "password": "secret"}}})
        secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\ntype: kubernetes.io/dockerconfigjson\n"
        secret += f"stringData: {{.dockerconfigjson: {json.dumps(logins)}}}\n---\n"
        with_login = in_docker("site", SLEEPS, always, "      imagePullSecrets: [{name: pull}]\n")
        apply(own, secret + with_login.replace(IMAGE, name))
        runs(own, "site")
    finally:
        registry.stop()
    os.kill(pids(engine)[0], 9)
    wait_until(lambda: deployment(own, "site")["restarts"] == 1)
    runs(own, "site")


def test_beside_an_engine_that_forwards_nothing_else_containers_of_the_edge_reach_the_world_and_each_other(tmp_path):
    with contextlib.ExitStack() as undo:
        edge = Between(tmp_path, undo)
        # A short name: sockets are in it.
        place = Path(undo.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        engine = Engine(place, ("nsenter", f"--net=/run/netns/{edge.edge}"), network=())
        undo.callback(subprocess.run, f"umount {engine.place}/exec/netns/*", shell=True, capture_output=True)
        undo.callback(engine.stop)
        engine.start()
        rules = tried("ip", "netns", "exec", edge.edge, "iptables", "--list-rules", "FORWARD")
        assert "-P FORWARD DROP" in rules
        serves = ["ip", "netns", "exec", edge.ends["b"], "python3", "-m", "http.server", "8000"]
        server = subprocess.Popen(serves, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
        undo.callback(server.wait)
        undo.callback(server.kill)
        build(edge, "box:1", files=with_bash())
        apply(edge, pod("site", SERVES))
        apply(edge, pod("caller", "exec sleep 1000"))
        runs(edge, "site")
        runs(edge, "caller")
        wait_until(lambda: "data" in fetch(edge, "caller", str(edge.addresses["b"]), port=8000))
        (address,) = addresses(edge, "site")
        wait_until(lambda: fetch(edge, "caller", address) == "it is site-0")
        for way in ("-i", "-o"):
            command = ["iptables", "--delete", "DOCKER-USER", way, "sv+", "--jump", "ACCEPT"]
            tried("ip", "netns", "exec", edge.edge, *command)
        # As where the engine was started after the edge.
        wait_until(lambda: fetch(edge, "caller", address) == "it is site-0", patience_s=20)


def test_where_there_is_no_engine_it_is_said_and_what_waits_for_it_can_be_deleted(start):
    with ending(start(environment={"DOCKER_HOST": "unix:///no/engine.sock"})) as edge:
        apply(edge, in_docker("site", SLEEPS))
        wait_until(lambda: "no Docker Engine answers at /no/engine.sock" in edge.run("get", "deployments").stdout)
        edge.run("delete", "deployment", "site")
        wait_until(lambda: "no applications" in edge.run("get", "deployments").stdout)
