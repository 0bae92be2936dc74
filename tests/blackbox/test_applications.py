"""Applications: applied, run, renewed, ended, and found again by whoever runs the edge next."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from applications import SLEEPS, Host, application, apply, deployment, ending, runs, writes_nothing
from brokers import PORTS
from sites import Site, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

CONFIGURATION = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: limits}
data: {LOW: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {KEY: hidden-from-all}
"""


@pytest.fixture
def own(start):
    """An edge of the test's own, whose applications end with the test."""
    with ending(start()) as edge:
        yield edge


@pytest.fixture
def host(own) -> Host:
    """What runs there."""
    return Host(own)


def test_an_application_runs_with_what_it_is_given_and_ends_with_its_manifest(own, host):
    given = (
        ", envFrom: [{configMapRef: {name: limits}}], env: [{name: KEY, valueFrom: {secretKeyRef: "
        "{name: keys, key: KEY}}}]"
    )
    said = apply(own, CONFIGURATION + "---\n" + application("site", SLEEPS, given)).stdout
    assert "+ Deployment/site" in said
    runs(own, "site")
    (pid,) = host.pids()
    environment = Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert {"LOW=1", "KEY=hidden-from-all"} <= set(environment)
    assert not any(line.startswith(("HOME=", "PWD=/root")) for line in environment)
    of_edge = {line.split("=")[0] for line in environment if line.startswith("SELVEDGE")}
    assert of_edge == {f"SELVEDGE_MQTT_{what}" for what in ("URL", "USERNAME", "TOKEN_FILE")}
    wait_until(lambda: "started" in own.run("logs", "site").stdout)
    row = own.run("get", "deployments").stdout.splitlines()[1].split()
    assert row == ["site", "1/1", "0", "runs"]
    assert own.run("delete", "deployment", "site").stdout == "- Deployment/site\n"
    wait_until(lambda: not host.pids() and not list(host.containers.iterdir()))
    assert own.run("get", "deployments").stdout.startswith("no applications")


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_an_application_runs_on_without_the_edge_and_is_not_started_twice(own, host, end):
    starts = own.directory / "starts"
    apply(own, application("site", f"echo >> {starts}; {SLEEPS}"))
    runs(own, "site")
    wait_until(starts.exists)
    before = host.pids()
    if end == "killed":
        own.kill()
    else:
        assert own.stop() == 0
    assert host.pids() == before
    assert own.run("get", "deployments").stdout.splitlines()[1].split()[:2] == ["site", "?/1"]
    own.start()
    runs(own, "site")
    assert (host.pids(), starts.read_text()) == (before, "\n")
    assert apply(own, application("site", f"echo >> {starts}; {SLEEPS}")).stdout == "= Deployment/site unchanged\n"
    assert (host.pids(), starts.read_text()) == (before, "\n")


def test_who_ends_what_shims_are_forked_of_ends_nothing_else(own, host):
    apply(own, application("site", SLEEPS))
    runs(own, "site")
    (pid,), (zygote,) = host.pids(), host.zygotes()
    os.kill(zygote, signal.SIGKILL)
    wait_until(lambda: host.zygotes() == [])
    apply(own, application("other", SLEEPS))
    runs(own, "other")
    assert pid in host.pids()
    assert deployment(own, "site")["restarts"] == 0
    assert len(host.zygotes()) == 1
    own.stop()
    wait_until(lambda: host.zygotes() == [])
    assert len(host.pids()) == len(host.shims()) == 2


def test_all_is_started_again_after_the_host_was_off(own, host):
    apply(own, application("site", SLEEPS, replicas=2))
    runs(own, "site")
    before = host.pids()
    own.kill()
    host.kill_all()
    own.start()
    runs(own, "site")
    after = host.pids()
    assert len(before) == len(after) == 2
    assert not set(before) & set(after)


def test_what_was_applied_while_no_edge_ran_runs_with_the_next(own, host):
    own.stop()
    apply(own, application("site", SLEEPS))
    assert host.pids() == []
    own.start()
    runs(own, "site")


def test_what_ends_is_started_again_and_what_it_said_can_be_read(own):
    apply(own, application("site", "echo begun; echo the pump is missing >&2; exit 3"))
    wait_until(lambda: deployment(own, "site")["restarts"] >= 1)
    (container,) = deployment(own, "site")["containers"]
    assert container["last_end"]["how"] == "exited with 3"
    assert "exited with 3" in own.run("describe", "deployment", "site").stdout
    said = [line.split(" ", 1)[1] for line in own.run("logs", "site", "--previous").stdout.splitlines()]
    assert sorted(said) == ["stderr F the pump is missing", "stdout F begun"]
    assert len(own.run("logs", "site", "--previous", "--tail", "1").stdout.splitlines()) == 1


def test_a_program_that_is_not_there_is_said_and_can_be_replaced(own):
    apply(own, application("site", SLEEPS).replace("/bin/sh", "/no/such/program"))
    wait_until(lambda: "/no/such/program" in own.run("get", "deployments").stdout)
    apply(own, application("site", SLEEPS))
    runs(own, "site")


def test_changed_values_renew_the_applications_that_need_them_and_no_others(own, host):
    needs = ", envFrom: [{configMapRef: {name: limits}}]"
    apply(own, CONFIGURATION + "---\n" + application("needs", SLEEPS, needs) + "---\n" + application("other", SLEEPS))
    runs(own, "needs")
    runs(own, "other")
    before = set(host.pids())
    apply(own, CONFIGURATION.replace('"1"', '"2"'))
    wait_until(lambda: len(host.pids()) == 2 and len(set(host.pids()) & before) == 1)
    (new,) = set(host.pids()) - before
    assert "LOW=2" in Path(f"/proc/{new}/environ").read_text().split("\0")


def test_a_dry_run_says_what_each_field_is_and_would_be_and_changes_nothing(own, host):
    text = application("site", SLEEPS, ", env: [{name: GREETING, value: hello}]")
    changed = application("site", SLEEPS, ", env: [{name: GREETING, value: bye}]", replicas=2)
    changed = changed.replace("image: /bin/sh", "image: /bin/bash")
    apply(own, text)
    runs(own, "site")
    before = host.pids()
    would = apply(own, changed, "--dry-run").stdout
    container = "~ Deployment/site spec.template.spec.containers[0]"
    assert would.splitlines() == [
        "~ Deployment/site spec.replicas: 1 → 2",
        f'{container}.env[0].value: "hello" → "bye"',
        f'{container}.image: "/bin/sh" → "/bin/bash"',
    ]
    assert apply(own, text).stdout == "= Deployment/site unchanged\n"
    assert host.pids() == before
    assert apply(own, changed).stdout == would


def test_an_application_waits_for_values_that_are_not_there_and_runs_on_when_they_go(own, host):
    apply(own, application("site", SLEEPS, ", envFrom: [{configMapRef: {name: limits}}]"))
    waits = "waits: spec.template.spec.containers[0].envFrom[0]: there is no ConfigMap limits; apply one"
    assert waits in own.run("get", "deployments").stdout
    apply(own, CONFIGURATION)
    runs(own, "site")
    before = host.pids()
    own.run("delete", "configmap", "limits")
    assert waits in own.run("describe", "deployment", "site").stdout
    own.kill()
    own.start()
    assert host.pids() == before


def test_an_application_whose_manifest_cannot_be_read_runs_on_and_can_be_replaced_or_deleted(own, host):
    apply(own, application("one", SLEEPS) + "---\n" + application("two", SLEEPS))
    runs(own, "one")
    runs(own, "two")
    before = host.pids()
    own.stop()
    for name in ("one", "two"):
        (own.data / "manifests/default/Deployment" / f"{name}.yaml").write_text("of a version to come")
    own.start()
    own.said("a manifest was left out")
    time.sleep(0.5)  # Nothing happens.
    assert host.pids() == before
    assert apply(own, application("one", SLEEPS)).stdout.startswith("+ Deployment/one")
    assert host.pids() == before
    own.run("delete", "deployment", "one")
    own.run("delete", "deployment", "two")
    wait_until(lambda: not host.pids())


def test_what_is_not_done_is_refused_by_its_place_and_nothing_is_applied(own):
    wrong = application("site", SLEEPS, ", volumeMounts: [{name: data, mountPath: /data}]").replace(
        "      containers:", "      volumes: [{name: data, emptyDir: {}}]\n      containers:"
    )
    said = apply(own, wrong, check=False)
    assert said.returncode == 1
    assert "app.yaml:12: spec.template.spec.volumes: is what a program of the host" in said.stderr
    assert own.run("get", "deployments").stdout.startswith("no applications")


def test_an_application_is_ready_once_it_answers_and_not_while_it_does_not(own, host):
    port, file = PORTS.take(), own.directory / "up"
    probe = f", readinessProbe: {{periodSeconds: 1, failureThreshold: 1, httpGet: {{port: {port}, path: /up}}}}"
    server = f"cd {own.directory}; exec {sys.executable} -m http.server {port}"
    apply(own, application("site", server, probe))
    wait_until(lambda: "/up answers with 404" in own.run("get", "deployments").stdout)
    assert deployment(own, "site")["ready"] == 0
    file.touch()
    runs(own, "site")
    before = host.pids()
    file.unlink()
    wait_until(lambda: deployment(own, "site")["ready"] == 0)
    assert host.pids() == before


def test_an_application_that_does_not_live_is_started_again(own, host):
    file = own.directory / "dead"
    probe = f", livenessProbe: {{periodSeconds: 1, failureThreshold: 2, exec: {{command: [test, '!', -e, {file}]}}}}"
    apply(own, application("site", f"rm -f {file}; {SLEEPS}", probe))
    runs(own, "site")
    before = host.pids()
    file.touch()
    wait_until(lambda: deployment(own, "site")["restarts"] == 1)
    runs(own, "site")
    assert not set(host.pids()) & set(before)


def test_an_application_that_does_not_start_in_time_is_started_again_and_one_that_does_is_left_alone(own):
    file = own.directory / "begun"
    probe = f", startupProbe: {{periodSeconds: 1, failureThreshold: 3, exec: {{command: [test, -e, {file}]}}}}"
    probe += ", livenessProbe: {periodSeconds: 1, failureThreshold: 1, exec: {command: [test, -e, /proc/self]}}"
    apply(own, application("site", SLEEPS, probe))
    wait_until(lambda: "it does not start" in own.run("describe", "deployment", "site").stdout)
    file.touch()
    runs(own, "site")
    restarts = deployment(own, "site")["restarts"]
    time.sleep(3)  # Three questions.
    assert deployment(own, "site")["restarts"] == restarts


def test_values_of_a_secret_are_shown_to_nobody(own):
    shown = [apply(own, CONFIGURATION, "--dry-run").stdout, apply(own, CONFIGURATION).stdout]
    shown += [apply(own, CONFIGURATION.replace("hidden-from-all", "hidden-as-well")).stdout]
    shown += [own.run("get", "secrets").stdout, own.run("get", "secrets", "--output", "json").stdout]
    assert "keys" in shown[3]
    assert not any("hidden-" in text for text in shown)
    assert (own.data / "containers").stat().st_mode & 0o777 == 0o700


def test_what_takes_more_memory_than_it_may_is_said_to_have_run_out(own):
    if os.geteuid() != 0:
        pytest.skip("limits need control groups, and those root")
    apply(own, application("site", "exec tail /dev/zero", ", resources: {limits: {memory: 16Mi}}"))
    wait_until(lambda: "ran out of memory" in own.run("get", "deployments").stdout)


def test_a_name_that_is_not_there_is_said(own):
    apply(own, application("site", SLEEPS))
    for words in [("describe", "deployment", "sitr"), ("logs", "sitr"), ("delete", "deployment", "sitr")]:
        said = own.run(*words, check=False)
        assert said.returncode == 1
        assert 'did you mean "site"?' in said.stderr
    said = own.run("logs", "site", "-c", "other", check=False)
    assert "no container" in said.stderr


def test_an_application_of_the_cloud_runs_at_the_edge_without_it_and_ends_by_it(site):
    site: Site = site()
    host = Host(site.edge)
    try:
        text = CONFIGURATION + "---\n" + application("site", SLEEPS, ", envFrom: [{secretRef: {name: keys}}]")
        said = apply(site.cloud, text, check=False)
        assert "a cloud runs no applications" in said.stderr
        apply(site.cloud, text, "--edge", "hall-1")
        wait_until(lambda: "site" in site.edge.run("get", "deployments").stdout)
        runs(site.edge, "site")
        said = site.edge.run("delete", "deployment", "site", check=False)
        assert "--take-over" in said.stderr
        site.cloud.kill()
        site.edge.kill()
        host.kill_all()
        site.edge.start()
        runs(site.edge, "site")
        site.cloud.start()
        site.cloud.run("delete", "deployment", "site", "--edge", "hall-1")
        wait_until(lambda: not host.pids())
    finally:
        site.edge.stop()
        host.kill_all()


def test_an_application_for_another_edge_does_not_run_and_why_is_said_until_the_edge_has_its_labels(start):
    text = application("chosen", SLEEPS).replace("    spec:\n", "    spec:\n      nodeSelector: {hall: '3'}\n", 1)
    with ending(start(configuration='[labels]\nhall = "4"\n')) as edge:
        apply(edge, text + "---\n" + application("other", SLEEPS))
        runs(edge, "other")
        assert 'it is for another edge: hall is "4" here, not "3"' in edge.run("get", "deployments").stdout
        assert deployment(edge, "chosen")["containers"] == []
        edge.stop()
        edge.settings.configuration = '[labels]\nhall = "3"\n'
        edge.start()
        runs(edge, "chosen")
        edge.stop()
        edge.settings.configuration = ""
        edge.start()
        wait_until(lambda: len(Host(edge).pids()) == 1)
        assert 'this edge has no label "hall"' in edge.run("get", "deployments").stdout


def test_an_edge_whose_applications_do_as_they_should_writes_nothing_to_its_disk(own):
    probe = ", livenessProbe: {exec: {command: [/bin/true]}, periodSeconds: 1}"
    apply(own, application("first", SLEEPS, probe, replicas=3))
    annotation = "annotations: {selvedge.dev/activation: on-demand}"
    sleeper = application("sleeper", SLEEPS).replace("{name: sleeper}\nspec", f"{{name: sleeper, {annotation}}}\nspec")
    apply(own, sleeper)
    wait_until(lambda: deployment(own, "first")["ready"] == 3)
    # What the start left to be written may still come.
    wait_until(lambda: writes_nothing(own), patience_s=40)
