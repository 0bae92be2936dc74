"""Containers with users of their own: who is root in one is nobody on the host."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import machine
from applications import Host, apply, deployment, ending, runs, tag_of
from brokers import PORTS, Selvedge
from sites import wait_until
from test_images import SLEEPS, build
from test_networks import ask, pod, within
from test_volumes import said

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

OF_HOST_MAX = 1 << 16


@pytest.fixture
def own(start) -> Iterator[Selvedge]:
    """An edge of the test's own, with an image that has a shell."""
    with ending(start()) as edge:
        build(edge, "box:1")
        yield edge


def with_users(text: str, volume: str = "") -> str:
    """The same with users of its own, and perhaps a volume."""
    volume = f"volumes: [{{name: files, {volume}}}]\n      " if volume else ""
    return text.replace("      containers:", f"      hostUsers: false\n      {volume}containers:")


def owners(edge: Selvedge) -> list[tuple[int, int]]:
    """As whom the containers run, user and group, as the host has it."""
    of_each = []
    for pid in Host(edge).pids():
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        of_each.append(tuple(int(line.split()[1]) for line in lines if line.startswith(("Uid:", "Gid:"))))
    return of_each


FILES = ", volumeMounts: [{name: files, mountPath: /data}]"
CLAIM = "persistentVolumeClaim: {claimName: kept}"


def test_who_is_root_is_nobody_on_the_host_and_files_keep_their_owners(own):
    port = PORTS.take()
    before = pod("before", f"busybox touch /data/old; busybox chown 7:8 /data/old; {SLEEPS}", FILES)
    apply(own, with_users(before, CLAIM).replace("hostUsers: false", "hostUsers: true"))
    wait_until(lambda: [path.stat().st_uid for path in own.data.glob("volumes/**/old")] == [7])
    own.run("delete", "deployment", "before")
    wait_until(lambda: not Host(own).pids())
    script = "mkdir /www; echo here > /www/index.html; busybox touch /data/new; "
    script += "busybox stat -c '%n %u:%g' /bin/busybox /data/new /data/old; exec httpd -f -p 80 -h /www"
    ports = f", ports: [{{containerPort: 80, hostPort: {port}}}]"
    apply(own, with_users(pod("site", script, FILES + ports), CLAIM))
    runs(own, "site")
    wait_until(lambda: ask("127.0.0.1", port) == "here")
    wait_until(lambda: said(own, "site") == ["/bin/busybox 0:0", "/data/new 0:0", "/data/old 7:8"])
    assert within(own, "site", "busybox id -u").stdout == "0\n"
    ((user, group),) = owners(own)
    assert user == group >= OF_HOST_MAX
    (new,) = own.data.glob("volumes/**/new")
    assert (new.stat().st_uid, new.stat().st_gid) == (0, 0)


def test_two_replicas_have_no_user_together_and_one_keeps_its_own_over_restarts(own):
    apply(own, with_users(pod("site", SLEEPS, replicas=2, second=SLEEPS)))
    runs(own, "site")
    of_each = owners(own)
    assert len(of_each) == 4
    assert len(set(of_each)) == 2
    os.kill(Host(own).pids()[0], signal.SIGKILL)
    wait_until(lambda: sum(container["restarts"] for container in deployment(own, "site")["containers"]) == 1)
    runs(own, "site")
    assert set(owners(own)) == set(of_each)


def test_it_sees_its_own_network_and_no_other(own):
    apply(own, with_users(pod("site", "ls /sys/class/net; " + SLEEPS)))
    runs(own, "site")
    wait_until(lambda: said(own, "site") == ["eth0", "lo", "started"])


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (("hostUsers: false", "hostUsers: false\n      runtimeClassName: docker"), "only with runtimeClassName: oci"),
        (("hostUsers: false", "hostUsers: false\n      runtimeClassName: process"), "only with runtimeClassName: oci"),
        (("hostNetwork: false", "hostNetwork: true"), "cannot be false with hostNetwork: true"),
        (
            ("image: 'box:1'", "image: 'box:1', resources: {limits: {selvedge.dev/null: 1}}"),
            "hostUsers: false leaves out",
        ),
    ],
    ids=["docker", "process", "of-the-network-of-the-host", "devices"],
)
def test_where_it_cannot_be_it_is_refused(own, change, refusal):
    refused = apply(own, with_users(pod("site", SLEEPS)).replace(*change), check=False)
    assert refused.returncode != 0
    assert refusal in refused.stderr


def test_a_user_beyond_those_that_it_has_is_said(own):
    text = with_users(pod("site", SLEEPS)).replace(
        "hostUsers:", "securityContext: {runAsUser: 70000}\n      hostUsers:"
    )
    apply(own, text)
    wait_until(lambda: "there are those below 65536" in own.run("get", "deployments").stdout)


@pytest.fixture
def without_owners(own) -> Iterator[Path]:
    """Where the edge has logins: a `/run` as Debian 12 mounts it, in memory, before Linux 6.3."""
    place = Path("/run/selvedge") / tag_of(own)
    own.stop()
    machine.tried("mount", "-t", "ramfs", "-o", "mode=0755,nosuid,nodev,noexec", "none", str(place))
    try:
        own.start()
        yield place
    finally:
        own.stop()
        machine.tried("umount", "--lazy", str(place))


def test_it_reads_what_it_logs_in_by_wherever_that_is_and_is_given_nothing_else_from_there(own, without_owners):
    says = "busybox wc -c < $SELVEDGE_MQTT_TOKEN_FILE; " + SLEEPS
    apply(own, with_users(pod("site", says).replace("image:", "securityContext: {runAsUser: 7}, image:")))
    runs(own, "site")
    (token,) = without_owners.glob("*/hub/token")
    wait_until(lambda: said(own, "site") == [str(token.stat().st_size), "started"])
    apply(own, with_users(pod("other", SLEEPS, FILES), f"hostPath: {{path: {without_owners}}}"))
    wait_until(lambda: "which hostUsers: false needs" in own.run("get", "deployments").stdout)
