"""Applications of images: taken in, run by `runc`, kept apart from the host, and gone with all that they had."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
import urllib.request
from pathlib import Path

import pytest

from applications import Host, application, apply, deployment, ending, of_runners, runs, writes_nothing
from brokers import PORTS, Selvedge, selvedge
from sites import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

SLEEPS = "trap 'exit 0' TERM; echo started; while :; do sleep 0.1; done"


@pytest.fixture
def own(start):
    """An edge of the test's own, with an image that has a shell."""
    with ending(start()) as edge:
        build(edge, "box:1")
        yield edge


@pytest.fixture
def host(own) -> Host:
    """What runs there."""
    return Host(own)


def build(edge: Selvedge, name: str, *words: str, files: dict[str, str | bytes] | None = None) -> None:
    """An image of one program, which is a shell and all that scripts call, and some files; `words` are what it runs."""
    folder = edge.directory / "image"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    shutil.copy("/bin/busybox", folder / "bin/busybox")
    for program in ("sh", "sleep", "cat", "httpd", "test", "ls", "mkdir", "hostname", "timeout"):
        (folder / "bin" / program).symlink_to("busybox")
    for path, content in (files or {}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content if isinstance(content, bytes) else content.encode())
        (folder / path).chmod(0o755)
    selvedge("image", "build", name, str(folder), "--data", str(edge.data), "--", *words)


def of_image(name: str, script: str, more: str = "", image: str = "box:1", replicas: int = 1) -> str:
    """As `application`, of an image."""
    text = application(name, script, more, replicas).replace("runtimeClassName: process", "hostNetwork: true")
    return text.replace("image: /bin/sh, args: [-c,", f"image: '{image}', command: [/bin/sh, -c], args: [")


def images(edge: Selvedge) -> list[str]:
    """Names that `selvedge image list` has."""
    return [image["name"] for image in json.loads(edge.run("image", "list", "--output", "json").stdout)]


def test_an_image_runs_with_what_its_manifest_gives_it_and_nothing_of_the_host(own, host):
    script = "echo $GREETING $WHO $(ls /); echo more > /note; exec sleep 1000"
    apply(own, of_image("site", script, ", env: [{name: GREETING, value: hello}]"))
    runs(own, "site")
    wait_until(lambda: "hello" in own.run("logs", "site").stdout)
    assert own.run("logs", "site").stdout.endswith(" stdout F hello bin dev etc proc run sys\n")
    (pid,) = host.pids()
    assert Path(f"/proc/{pid}/ns/pid").readlink() != Path("/proc/self/ns/pid").readlink()
    assert str(own.data) not in Path("/proc/self/mountinfo").read_text()
    (group,) = {line.rsplit("/", 1)[1] for line in Path(f"/proc/{pid}/cgroup").read_text().split() if "+site+" in line}
    groups = lambda: [path for of in ("", "*/") for path in Path("/sys/fs/cgroup").glob(f"{of}selvedge/*/{group}")]  # noqa: E731
    assert groups()
    own.run("delete", "deployment", "site")
    wait_until(lambda: not host.pids() and not host.shims())
    wait_until(lambda: not list(host.containers.iterdir()))
    assert not groups()


def test_a_web_server_in_a_container_answers_and_is_asked_how_it_is(own):
    port = PORTS.take()
    build(own, "web:1", "/bin/httpd", "-f", "-p", str(port), "-h", "/www", files={"www/a": "served\n"})
    probe = ", readinessProbe: {periodSeconds: 1, exec: {command: [test, -e, /www/a]}}"
    text = of_image("site", "", probe, image="web:1")
    apply(own, text.replace('command: [/bin/sh, -c], args: [ ""]', "args: []"))
    runs(own, "site")

    def page() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/a", timeout=5) as answer:
            return answer.read().decode()

    wait_until(lambda: answers(port))
    assert page() == "served\n"


def answers(port: int) -> bool:
    """Whether somebody takes connections there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_to_ask_a_container_by_commands_writes_nothing_to_the_disk(own):
    probe = ", livenessProbe: {exec: {command: [/bin/test, -e, /bin/sh]}, periodSeconds: 1}"
    apply(own, of_image("site", SLEEPS, probe))
    runs(own, "site")
    # What the start left to be written may still come.
    wait_until(lambda: writes_nothing(own), patience_s=40)
    assert len(of_runners(own)) == 1
    own.run("delete", "deployment", "site")
    wait_until(lambda: not of_runners(own))


def test_a_container_runs_on_while_the_edge_is_killed_and_is_not_started_twice(own, host):
    apply(own, of_image("site", SLEEPS))
    runs(own, "site")
    before = host.pids()
    own.process.send_signal(signal.SIGKILL)
    own.process.wait()
    assert host.pids() == before
    own.start()
    runs(own, "site")
    time.sleep(1)
    assert host.pids() == before
    assert deployment(own, "site")["restarts"] == 0
    os.kill(before[0], signal.SIGKILL)
    wait_until(lambda: deployment(own, "site")["restarts"] == 1)
    runs(own, "site")


def test_an_application_waits_for_its_image_and_starts_once_it_is_here(own):
    apply(own, of_image("site", SLEEPS, image="later:1"))
    wait_until(lambda: 'no image "later:1" is here' in own.run("get", "deployments").stdout)
    build(own, "later:1")
    runs(own, "site")


def test_an_image_that_is_removed_under_a_container_goes_once_nothing_needs_it(own, host):
    apply(own, of_image("site", "while :; do cat /bin/busybox > /dev/null; sleep 0.1; done"))
    runs(own, "site")
    layers = own.data / "images/layers"
    own.run("image", "remove", "box:1")
    assert images(own) == []
    (pid,) = host.pids()
    time.sleep(0.5)
    assert host.pids() == [pid]
    assert len(list(layers.iterdir())) == 1
    own.run("delete", "deployment", "site")
    wait_until(lambda: not host.pids() and not list(host.containers.iterdir()))
    build(own, "other:1", files={"other": "1"})
    said = own.run("image", "remove", "other:1").stderr
    assert "MB were given back" in said
    assert list(layers.iterdir()) == []
    assert list((own.data / "images/blobs/sha256").iterdir()) == []


def test_a_file_that_is_no_image_is_refused_and_leaves_nothing(own):
    before = sorted((own.data / "images").rglob("*"))
    path = own.directory / "wrong.tar"
    path.write_bytes(b"not an archive" * 1_000)
    said = own.run("image", "import", str(path), check=False)
    assert said.returncode == 1
    assert "wrong.tar" in said.stderr
    assert sorted((own.data / "images").rglob("*")) == before
    said = own.run("image", "remove", "none:1", check=False)
    assert said.returncode == 1
    assert 'no image "none:1" is here' in said.stderr


def test_capabilities_and_names_that_do_not_exist_are_refused_when_it_is_applied(own):
    more = ", securityContext: {capabilities: {add: [FLY]}}"
    said = apply(own, of_image("site", SLEEPS, image="Not A Name"), check=False)
    assert '"Not A Name" is no image' in said.stderr
    said = apply(own, of_image("site", SLEEPS, more), check=False)
    assert 'there is no capability "FLY" of Linux' in said.stderr
