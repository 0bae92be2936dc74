"""What comes back by itself after a restart of the machine and after a power cut: an edge and its applications."""

from __future__ import annotations

import json

import pytest

from gateway import Gateway, wait_until

PORTS = (8101, 8102, 8103)
COUNT = 200


def deployment(name: str, run: str, annotations: str = "") -> str:
    """An application of one container, which `run` describes."""
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, annotations: {{{annotations}}}}}
spec:
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec: {{{run}}}
"""


def in_image(port: int) -> str:
    """A web server of an image, at a port of the edge."""
    return f"containers: [{{name: main, image: 'site:1', ports: [{{containerPort: 8080, hostPort: {port}}}]}}]"


PROGRAM = "containers: [{name: main, image: /bin/busybox, args: [httpd, -f, -p, '127.0.0.1:8101', -h, /etc]}]"
# One of each runtime that needs no other program, and one that sleeps.
APPLICATIONS = "---\n".join(
    [
        deployment("program", f"runtimeClassName: process, {PROGRAM}"),
        deployment("site", in_image(8102)),
        deployment("sleeper", in_image(8103), "selvedge.dev/activation: on-demand, selvedge.dev/idle-timeout: 2s"),
    ]
)


@pytest.fixture(scope="module")
def edge(gateway) -> Gateway:
    """An edge that was installed as its documentation says, and was given applications."""
    gateway.run("""
        install /selvedge/selvedge /usr/local/bin/selvedge
        cp /selvedge/selvedge-edge.service /etc/systemd/system/
        systemctl enable --now selvedge-edge
        mkdir -p /root/image/bin /root/image/etc
        cp /bin/busybox /root/image/bin/
        cp /etc/hostname /root/image/etc/
    """)
    wait_until(lambda: is_ready(gateway))
    serves = "-- /bin/busybox httpd -f -p 8080 -h /etc"
    gateway.run(f"{command('image build site:1 /root/image')} {serves}")
    gateway.run(command("device add pump-7 --password secret-of-pump-7"))
    gateway.run(command("app add keeper --password secret-of-keeper"))
    gateway.write("/root/applications.yaml", APPLICATIONS)
    gateway.run(command("apply -f /root/applications.yaml"))
    wait_until(lambda: all_answer(gateway))
    return gateway


def command(words: str) -> str:
    """To the edge of the machine."""
    return f"selvedge {words} --data /var/lib/selvedge/edge"


def is_ready(gateway: Gateway) -> bool:
    """Whether the edge answers commands."""
    return gateway.run(f"{command('get deployments')} >/dev/null 2>&1 && echo yes", check=False) == "yes\n"


def all_answer(gateway: Gateway) -> bool:
    """Whether each application does; who sleeps is started by it."""
    asked = " && ".join(f"curl -sf -m 60 http://127.0.0.1:{port}/hostname" for port in PORTS)
    return gateway.run(asked, check=False) == "gateway\n" * len(PORTS)


def processes(gateway: Gateway) -> list[dict]:
    """First processes, by the edge's files, of the two that do not sleep: of this boot, and alive."""
    files = " ".join(f"/var/lib/selvedge/edge/containers/*+{name}+*/started.json" for name in ("program", "site"))
    texts = gateway.run(f"for file in {files}; do cat $file; echo; done").split("\n")
    # What ran before the restart is kept with its log.
    found = [one for one in map(json.loads, filter(None, texts)) if one["boot_id"] == gateway.boot_id]
    assert len(found) == 2
    gateway.run(" && ".join(f"test -d /proc/{one['pid']}" for one in found))
    return found


def test_a_restart_of_the_service_leaves_its_applications_running(edge):
    before = processes(edge)
    edge.run("systemctl restart selvedge-edge")
    wait_until(lambda: is_ready(edge))
    assert all_answer(edge)
    assert processes(edge) == before


def test_systemd_reads_its_units_again_and_the_groups_of_applications_stay(edge):
    limits = "find /sys/fs/cgroup/selvedge -name cgroup.procs | sort"
    before = edge.run(limits)
    edge.run("systemctl daemon-reload && systemctl daemon-reexec")
    assert edge.run(limits) == before
    assert all_answer(edge)


def test_after_a_restart_of_the_machine_all_applications_are_there_without_a_cloud(edge):
    edge.reboot()
    wait_until(lambda: is_ready(edge))
    wait_until(lambda: all_answer(edge))
    assert processes(edge)
    assert edge.run("systemctl is-failed selvedge-edge", check=False).strip() == "active"


def test_what_was_acknowledged_outlives_a_power_cut_and_so_do_the_applications(edge):
    subscribe = "mosquitto_sub -V 5 -i keeper -c -x 4294967295 -q 1 -u keeper -P secret-of-keeper -t 'devices/#'"
    edge.run(f"{subscribe} -E")
    # Who is told of each acknowledgement ends without an error.
    edge.run(
        f"seq {COUNT} | mosquitto_pub -i pump-7 -q 1 -l -u pump-7 -P secret-of-pump-7 -t devices/pump-7/telemetry",
    )
    edge.lose_power()
    wait_until(lambda: is_ready(edge))
    got = edge.run(f"{subscribe} -C {COUNT} -W 120").split()
    assert got == [str(number) for number in range(1, COUNT + 1)]
    wait_until(lambda: all_answer(edge))
