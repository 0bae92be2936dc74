"""What containers keep their files in: their own scratch, what is kept, what they are given, what the host has."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path

import pytest

from applications import Host, apply, deployment, ending, runs
from brokers import Selvedge
from sites import wait_until
from test_images import SLEEPS, build, of_image
from test_networks import over_each, pod

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]


@pytest.fixture
def own(start):
    """An edge of the test's own, with an image that has a shell."""
    with ending(start()) as edge:
        build(edge, "box:1")
        yield edge


@pytest.fixture(params=["oci", "docker"])
def of_each(start, request):
    """An edge of the test's own, over each of what runs images."""
    with over_each(start, request) as edge:
        yield edge


def with_volume(name: str, script: str, source: str, mount: str = "mountPath: /data") -> str:
    """An application of one container that sees one volume."""
    text = of_image(name, script, f", volumeMounts: [{{name: files, {mount}}}]")
    return text.replace("      containers:", f"      volumes: [{{name: files, {source}}}]\n      containers:")


def said(edge: Selvedge, name: str) -> list[str]:
    """What its container wrote; nothing before it was started."""
    lines = edge.run("logs", name, check=False).stdout.splitlines()
    return [line.split(" F ", 1)[1] for line in lines]


def ends(edge: Selvedge, name: str) -> None:
    """Deletes an application, and waits until nothing of it runs."""
    edge.run("delete", "deployment", name)
    wait_until(lambda: not [path for path in Host(edge).containers.iterdir() if f"+{name}+" in path.name])


def test_scratch_is_shared_by_the_containers_of_a_replica_outlives_their_restarts_and_goes_with_them(own):
    text = with_volume("site", "echo one >> /data/log; " + SLEEPS, "emptyDir: {}")
    second = text.splitlines()[-1].replace("name: main", "name: second")
    apply(own, text + second.replace("echo one", "echo two") + "\n")
    runs(own, "site")
    scratch = own.data / "volumes/scratch/default/site/0/files"
    log = scratch / "log"
    wait_until(lambda: sorted(log.read_text().split()) == ["one", "two"])
    (directory,) = [path for path in Host(own).containers.iterdir() if "+main+" in path.name]
    pid = json.loads((directory / "started.json").read_text())["pid"]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: sorted(log.read_text().split()) == ["one", "one", "two"])
    ends(own, "site")
    wait_until(lambda: not scratch.parent.parent.exists())


def test_what_is_kept_outlives_its_application_until_it_is_removed_by_hand(own):
    source = "persistentVolumeClaim: {claimName: history}"
    apply(own, with_volume("one", "echo kept > /data/note; " + SLEEPS, source))
    runs(own, "one")
    listed = own.run("volume", "list").stdout
    assert "history" in listed
    assert listed.rstrip().endswith("yes")
    refused = own.run("volume", "remove", "history", check=False)
    assert refused.returncode == 1
    assert "a container has it" in refused.stderr
    ends(own, "one")
    apply(own, with_volume("two", "cat /data/note; echo more > /data/note; exec sleep 100", source))
    wait_until(lambda: said(own, "two") == ["kept"])
    ends(own, "two")
    own.run("volume", "remove", "history")
    assert "no volumes" in own.run("volume", "list").stdout
    assert 'no volume "history" in tenant default' in own.run("volume", "remove", "history", check=False).stderr


def test_values_are_files_and_a_change_of_them_renews_the_application(own):
    given = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: limits}
data: {low: "1", high: "9"}
binaryData: {raw: /wA=}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {key: hidden}
---
"""
    script = "cd /data; for f in *; do echo $f $(cat $f); done; busybox stat -c %a low; echo x > low; exec sleep 100"
    text = with_volume("site", script, "configMap: {name: limits, items: [{key: low, path: low}], defaultMode: 0400}")
    apply(own, text)
    wait_until(lambda: "there is no ConfigMap limits; apply one" in own.run("get", "deployments").stdout)
    apply(own, given)
    runs(own, "site")
    wait_until(lambda: len(said(own, "site")) == 3)
    assert sorted(said(own, "site")) == ["/bin/sh: can't create low: Read-only file system", "400", "low 1"]
    apply(own, given.replace('low: "1"', 'low: "2"'))
    wait_until(lambda: "low 2" in said(own, "site"))
    script = "cat /data/key; busybox wc -c < /other/raw; exec sleep 100"
    text = with_volume("keys", script, "secret: {secretName: keys}").replace(
        "volumeMounts: [", "volumeMounts: [{name: other, mountPath: /other}, "
    )
    apply(own, text.replace("volumes: [", "volumes: [{name: other, configMap: {name: limits}}, "))
    wait_until(lambda: said(own, "keys") == ["hidden2"] or said(own, "keys") == ["hidden", "2"])


def test_files_of_the_host_are_seen_and_what_is_not_there_is_said(own):
    shared = own.directory / "shared"
    shared.mkdir()
    (shared / "note").write_text("of the host\n")
    script = "cat /data/note; echo back > /data/answer; exec sleep 100"
    apply(own, with_volume("site", script, f"hostPath: {{path: {shared}, type: Directory}}"))
    wait_until((shared / "answer").exists)
    assert said(own, "site") == ["of the host"]
    apply(own, with_volume("none", script, f"hostPath: {{path: {shared}/none, type: Directory}}"))
    wait_until(lambda: f"{shared}/none: the host has no directory" in own.run("get", "deployments").stdout)
    (shared / "none").mkdir()
    wait_until(lambda: deployment(own, "none")["ready"] == 1)


def test_a_part_of_a_volume_is_seen_and_no_link_in_it_leads_out(own):
    secret = own.directory / "secret"
    secret.write_text("of the host alone\n")
    source = "persistentVolumeClaim: {claimName: parts}"
    script = f"busybox ln -s {own.directory} /data/evil; busybox ln -s / /data/root; echo made; exec sleep 100"
    apply(own, with_volume("maker", script, source))
    wait_until(lambda: said(own, "maker") == ["made"])
    mount = "mountPath: /data, subPath: a/b"
    apply(own, with_volume("part", "echo here > /data/note; echo done; exec sleep 100", source, mount))
    wait_until(lambda: said(own, "part") == ["done"])
    kept = own.data / "volumes/kept/default/parts"
    assert (kept / "a/b/note").read_text() == "here\n"
    for name, part in (("evil", "evil"), ("root", "root")):
        mount = f"mountPath: /data, subPath: {part}"
        apply(own, with_volume(name, "ls /data; cat /data/secret; exec sleep 100", source, mount))
        wait_until(lambda name=name: deployment(own, name)["restarts"] or deployment(own, name)["ready"])
        text = own.run("logs", name, check=False).stdout
        assert "of the host alone" not in text
        assert "etc" not in text.split()


def test_what_is_read_only_or_full_is_not_written_to(own):
    script = "echo x > /data/x; busybox dd if=/dev/zero of=/data/y bs=1M count=8; echo end; exec sleep 100"
    apply(own, with_volume("reader", script, "emptyDir: {}", "mountPath: /data, readOnly: true"))
    wait_until(lambda: "end" in said(own, "reader"))
    assert any("Read-only file system" in line for line in said(own, "reader"))
    apply(own, with_volume("writer", script, "emptyDir: {medium: Memory, sizeLimit: 4Mi}"))
    wait_until(lambda: "end" in said(own, "writer"))
    assert any("No space left on device" in line for line in said(own, "writer"))


def test_a_device_of_the_host_is_given_by_its_name_and_no_other_can_be_used(of_each):
    device = Path("/dev/selvedge-test")
    device.unlink(missing_ok=True)
    script = (
        "busybox head -c 3 /dev/selvedge-test | busybox od -An -tx1; ls /dev; id -u; "
        "cat /dev/selvedge-other; exec sleep 100"
    )
    more = ", resources: {limits: {selvedge.dev/selvedge-test: 1}}, securityContext: {runAsUser: 1234}"
    apply(of_each, pod("site", script.replace("id -u", "busybox id -u"), more))
    wait_until(lambda: "/dev/selvedge-test: No such file" in of_each.run("get", "deployments").stdout)
    try:
        os.mknod(device, 0o600 | stat.S_IFCHR, os.makedev(1, 5))  # Of zeros.
        runs(of_each, "site")
        wait_until(lambda: "1234" in said(of_each, "site"))
    finally:
        device.unlink()
    lines = said(of_each, "site")
    assert " 00 00 00" in lines
    assert "selvedge-test" in lines
    assert "mem" not in lines


def test_a_container_has_the_name_and_its_volumes_the_group_that_the_manifest_says(own):
    text = with_volume("site", "busybox hostname; busybox id -G; echo x > /data/x; exec sleep 100", "emptyDir: {}")
    text = text.replace(
        "      containers:",
        "      hostname: plc-7\n      securityContext: {fsGroup: 4711, runAsUser: 1234}\n      containers:",
    )
    apply(own, text)
    wait_until(lambda: len(said(own, "site")) == 2)
    assert said(own, "site") == ["plc-7", "0 4711"]
    about = (own.data / "volumes/scratch/default/site/0/files/x").stat()
    assert (about.st_uid, about.st_gid) == (1234, 4711)
    keys = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {key: for the group}\n---\n"
    script = "cat /data/key; echo; exec sleep 100"
    text = with_volume("reader", script, "secret: {secretName: keys, defaultMode: 0400}").replace(
        "      containers:", "      securityContext: {fsGroup: 4711, runAsUser: 1234}\n      containers:"
    )
    apply(own, keys + text)
    wait_until(lambda: said(own, "reader") == ["for the group"])
