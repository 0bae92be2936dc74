"""Containers that belong together: what runs before the others, what is done before the end, and looking into them."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from applications import Host, application, apply, deployment, ending, runs
from brokers import BINARY, Selvedge
from sites import wait_until
from test_images import SLEEPS, build, of_image

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]


@pytest.fixture
def own(start):
    """An edge of the test's own, with an image that has a shell."""
    with ending(start()) as edge:
        build(edge, "box:1")
        yield edge


def with_inits(text: str, *scripts: str) -> str:
    """Has containers run before the others, which see the volume `files` at `/data`."""
    lines = ["      volumes: [{name: files, emptyDir: {}}]", "      initContainers:"]
    for number, script in enumerate(scripts):
        lines += [
            f"        - {{name: init-{number}, image: 'box:1', command: [/bin/sh, -c], args: ['{script}'],"
            " volumeMounts: [{name: files, mountPath: /data}]}"
        ]
    return text.replace("      containers:", "\n".join([*lines, "      containers:"]))


def lines_of(edge: Selvedge, name: str, *words: str) -> list[str]:
    """What a container wrote; nothing before it was started."""
    lines = edge.run("logs", name, *words, check=False).stdout.splitlines()
    return [line.split(" F ", 1)[1] for line in lines]


def test_what_comes_first_comes_to_its_end_one_after_the_other_before_the_others_start(own):
    shows = ", volumeMounts: [{name: files, mountPath: /data}]"
    text = with_inits(
        of_image("site", "cat /data/log; " + SLEEPS, shows),
        "sleep 0.5; echo first >> /data/log",
        "[ -e /data/again ] || { touch /data/again; exit 3; }; echo second >> /data/log",
    )
    apply(own, text)
    runs(own, "site")
    wait_until(lambda: lines_of(own, "site") == ["first", "second", "started"])
    states = {one["name"]: one for one in deployment(own, "site")["containers"]}
    assert states["init-0"]["is_done"]
    assert (states["init-1"]["is_done"], states["init-1"]["restarts"]) == (True, 1)
    before = lines_of(own, "site", "-c", "init-0")
    own.process.send_signal(signal.SIGKILL)
    own.process.wait()
    own.start()
    runs(own, "site")
    time.sleep(0.5)
    assert (lines_of(own, "site", "-c", "init-0"), lines_of(own, "site")[:3]) == (
        before,
        ["first", "second", "started"],
    )
    apply(own, text.replace("sleep 0.5; echo first", "echo third"))
    wait_until(lambda: lines_of(own, "site")[:2] == ["third", "second"])
    own.run("delete", "deployment", "site")
    wait_until(lambda: not list(Host(own).containers.iterdir()))


def test_what_comes_first_and_fails_holds_up_the_others_and_is_said(own):
    apply(own, with_inits(of_image("site", SLEEPS), "echo no; exit 7"))
    wait_until(lambda: "init-0: exited with 7" in own.run("get", "deployments").stdout)
    assert deployment(own, "site")["ready"] == 0
    wait_until(lambda: lines_of(own, "site", "-c", "init-0")[:1] == ["no"])
    apply(own, with_inits(of_image("site", SLEEPS), "echo yes"))
    runs(own, "site")


@pytest.mark.parametrize("runtime", ["process", "oci"])
def test_what_is_to_be_done_before_the_end_is_done_before_it(own, runtime):
    hook = ", lifecycle: {preStop: {exec: {command: [/bin/sh, -c, 'echo saved > /proc/1/fd/1; sleep 0.2']}}}"
    script = "trap 'echo asked; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    note = own.directory / "note"
    if runtime == "process":
        hook = hook.replace("/proc/1/fd/1", str(note))
        text = application("site", script, hook)
    else:
        text = of_image("site", script, hook)
    apply(own, text)
    wait_until(lambda: lines_of(own, "site") == ["started"])
    apply(own, text.replace("replicas: 1", "replicas: 0"))
    wait_until(lambda: not list(Host(own).containers.iterdir()))
    if runtime == "process":
        assert note.read_text() == "saved\n"
        assert lines_of(own, "site") == ["started", "asked"]
    else:
        assert lines_of(own, "site") == ["started", "saved", "asked"]


def followed(edge: Selvedge, name: str) -> subprocess.Popen:
    """`selvedge logs -f`."""
    command = [BINARY, "logs", "-f", name, "--data", str(edge.data)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    first = running.stdout.readline()
    assert first
    return running


def test_a_log_is_followed_through_starts_of_its_container(own):
    apply(own, of_image("site", "i=0; while [ $i -lt 5 ]; do echo line $i; i=$((i+1)); sleep 0.1; done"))
    wait_until(lambda: lines_of(own, "site"))
    running = followed(own, "site")
    lines = [running.stdout.readline().decode() for _ in range(9)]
    running.kill()
    running.wait()
    numbers = [int(line.rsplit(" ", 1)[1]) for line in lines]
    first = numbers[0]
    assert numbers == [number % 5 for number in range(first, first + 9)]


def test_a_command_runs_in_a_container_with_its_end_its_streams_and_a_terminal(own):
    for name, text in (("image", of_image("image", SLEEPS)), ("program", application("program", SLEEPS))):
        apply(own, text)
        runs(own, name)
        command = [BINARY, "exec", name, "--data", str(own.data), "--", "/bin/sh", "-c"]
        done = subprocess.run(
            [*command, "cat; echo wrong >&2; exit 5"], input=b"through", capture_output=True, timeout=20
        )
        assert (done.returncode, done.stdout, done.stderr) == (5, b"through", b"wrong\n")
    master, slave = pty.openpty()
    command = [BINARY, "exec", "image", "--data", str(own.data), "--", "/bin/sh", "-c", "test -t 0 && echo a $TERM"]
    environment = {**os.environ, "TERM": "vt220"}
    shown = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    assert shown.wait(timeout=20) == 0
    os.close(slave)
    text = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(master, 1024):
            text += chunk
    os.close(master)
    # runc makes the outer terminal raw only once it passes on: what comes before that has a CR more.
    assert text.replace(b"\r\r\n", b"\r\n") == b"a vt220\r\n"
    refused = subprocess.run([BINARY, "exec", "nobody", "--data", str(own.data), "--", "true"], check=False)
    assert refused.returncode == 1


@pytest.mark.parametrize("runtime", ["process", "oci"])
def test_what_containers_take_is_shown_beside_what_they_may(own, runtime):
    limits = "cpu: 300m, memory: 64Mi, selvedge.dev/pids: 9, selvedge.dev/write-bytes-per-s: 1M"
    limits = f", resources: {{limits: {{{limits}}}}}"
    make = application if runtime == "process" else of_image
    apply(own, make("busy", "while :; do :; done", limits))
    runs(own, "busy")
    taken: dict = {}

    def is_at_its_limit() -> bool:
        (found,) = json.loads(own.run("top", "--output", "json").stdout)
        taken.update(found)
        return 200 <= taken["cpu_millis"] <= 450

    wait_until(is_at_its_limit, patience_s=30)
    assert 0 < taken["memory_bytes"] < 64 << 20
    assert taken["pids"] == 1
    shown = own.run("top").stdout.splitlines()[1]
    assert "m of 300m" in shown
    assert "MB of 67.1 MB" in shown
    assert "1 of 9" in shown
    assert shown.endswith(" MB, at most 1.0 MB/s")


def test_what_containers_write_to_disks_is_shown(own):
    program = f"import time; open('{own.directory}/file', 'wb').write(bytes(5_000_000)); time.sleep(1000)"
    apply(own, application("writes", f'exec {sys.executable} -c "{program}"'))
    runs(own, "writes")
    written = lambda: json.loads(own.run("top", "--output", "json").stdout)[0]["written_bytes"]  # noqa: E731
    wait_until(lambda: written() >= 5_000_000)
    assert written() < 6_000_000
    assert "5.0 MB" in own.run("top").stdout


def test_what_has_happened_to_containers_is_shown_once_with_how_often(own):
    apply(own, of_image("site", "exit 3"))
    wait_until(lambda: deployment(own, "site")["restarts"] >= 2, patience_s=20)
    events = json.loads(own.run("events", "site", "--output", "json").stdout)
    ended = next(event for event in events if event["what"] == "ended")
    assert (ended["message"], ended["container"]) == ("exited with 3", "main")
    assert ended["times"] >= 2
    assert len(events) == 2
    apply(own, of_image("other", SLEEPS))
    runs(own, "other")
    own.run("delete", "deployment", "other")
    wait_until(lambda: "it is not wanted so any more" in own.run("events", "other").stdout)
    whats = [event["what"] for event in json.loads(own.run("events", "other", "--output", "json").stdout)]
    assert whats == ["started", "stopped"]
