"""Applications of one tenant beside those of another: nothing of it is seen, reached, named or filled up."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from applications import Host, application, apply, deployment, runs
from brokers import Selvedge
from http_api import Api
from sites import Site, wait_until
from test_networks import addresses, ask, fetch, over_each, pod, service, services, within

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs", "tenant")]

# The same words in both manifests; who runs it is all that differs.
SERVES = (
    "cat /secret/owner > /data/owner; mkdir -p /www; cat /secret/owner > /www/index.html; exec httpd -f -p 8080 -h /www"
)
VOLUMES = (
    "      volumes:\n"
    "        - {name: data, persistentVolumeClaim: {claimName: data}}\n"
    "        - {name: secret, secret: {secretName: keys}}\n"
    "        - {name: map, configMap: {name: keys}}\n"
)
MOUNTS = (
    ", env: [{name: OWNER, valueFrom: {secretKeyRef: {name: keys, key: owner}}}], volumeMounts: "
    "[{name: data, mountPath: /data}, {name: secret, mountPath: /secret}, {name: map, mountPath: /map}]"
)
BUSY = "while :; do :; done"


def values(tenant: str) -> str:
    """A Secret and a ConfigMap of the same names in all tenants."""
    named = f"metadata: {{name: keys, namespace: {tenant}}}"
    return (
        f"apiVersion: v1\nkind: Secret\n{named}\nstringData: {{owner: it-is-{tenant}}}\n---\n"
        f"apiVersion: v1\nkind: ConfigMap\n{named}\ndata: {{owner: it-is-{tenant}}}\n---\n"
    )


def serving(tenant: str) -> str:
    """An application that serves who it belongs to, with all that it is given."""
    text = pod("site", SERVES, MOUNTS, tenant=tenant).replace("      containers:", VOLUMES + "      containers:")
    named = f"namespace: {tenant}, annotations: {{selvedge.dev/unix-socket: door}}"
    text = text.replace("        - {name: main,", "        - {name: main, ports: [{containerPort: 8080}],")
    return (
        values(tenant)
        + text.replace(f"namespace: {tenant}", named, 1)
        + "---\n"
        + service("web", "site", tenant=tenant)
    )


def shown(edge: Selvedge, name: str, tenant: str = "acme") -> dict:
    """What is said of an application of a tenant."""
    return deployment(edge, name, "--tenant", tenant)


def uses(edge: Selvedge, tenant: str = "acme") -> dict:
    """What a tenant uses."""
    return json.loads(edge.run("tenant", "show", tenant, "--output", "json").stdout)["uses"]


@pytest.fixture(params=["oci", "docker"])
def own(start, request) -> Iterator[Selvedge]:
    """An edge over each of what runs images, with two tenants."""
    with over_each(start, request) as edge:
        edge.run("tenant", "add", "acme")
        yield edge


@pytest.fixture
def both(own) -> Selvedge:
    """With the same application in each."""
    apply(own, serving("default") + "---\n" + serving("acme"))
    runs(own, "site")
    runs(own, "site", "--tenant", "acme")
    return own


@contextlib.contextmanager
def answering(edge: Selvedge) -> Iterator[None]:
    """An application of the other tenant, which is asked all the time and has to answer each time."""
    apply(edge, serving("default"))
    runs(edge, "site")
    address = services(edge)["web"]
    wait_until(lambda: ask(address, 80) == "it-is-default")
    answers, is_over = [], threading.Event()

    def keep_asking() -> None:
        while not is_over.is_set():
            began = time.monotonic()
            answers.append((ask(address, 80), time.monotonic() - began))
            time.sleep(0.02)

    asking = threading.Thread(target=keep_asking)
    asking.start()
    try:
        yield
    finally:
        is_over.set()
        asking.join()
    assert len(answers) >= 10
    assert {said for said, _ in answers} == {"it-is-default"}
    assert max(took_s for _, took_s in answers) < 3
    (container,) = deployment(edge, "site")["containers"]
    assert container["restarts"] == 0


def test_the_same_names_mean_each_tenants_own(both):
    own, tenants = both, {"default": (), "acme": ("--tenant", "acme")}
    for tenant, words in tenants.items():
        wait_until(lambda w=words, t=tenant: fetch(own, "site", "web", *w, port=80) == f"it-is-{t}")
        said = within(own, "site", "cat /data/owner /secret/owner /map/owner; echo $OWNER", *words).stdout
        assert said == f"it-is-{tenant}" * 4 + "\n"
        with socket.socket(socket.AF_UNIX) as door:
            door.connect(str(own.data / "sockets" / tenant / "door"))
            door.sendall(b"GET / HTTP/1.0\r\n\r\n")
            answer = b""
            while part := door.recv(4096):
                answer += part
        assert answer.endswith(f"it-is-{tenant}".encode())
    for name in ("web.acme", "web.acme.svc.selvedge.local", "web.acme.svc.cluster.local"):
        assert fetch(own, "site", name, port=80) == "", name
        assert fetch(own, "site", name, "--tenant", "acme", port=80) == "it-is-acme", name


def test_neither_containers_nor_services_of_another_tenant_are_reached(both):
    own, acme = both, ("--tenant", "acme")
    of_default = [*((address, 8080) for address in addresses(own, "site")), (services(own)["web"], 80)]
    (container,) = shown(own, "site")["containers"]
    (of_service,) = json.loads(own.run("get", "services", *acme, "--output", "json").stdout)
    of_acme = [(container["address"], 8080), (of_service["address"], 80)]
    for address, port in of_default:
        wait_until(lambda a=address, p=port: fetch(own, "site", a, port=p) == "it-is-default")
        assert fetch(own, "site", address, *acme, port=port) == "", (address, port)
    for address, port in of_acme:
        wait_until(lambda a=address, p=port: fetch(own, "site", a, *acme, port=p) == "it-is-acme")
        assert fetch(own, "site", address, port=port) == "", (address, port)


def test_neither_processes_nor_files_of_another_tenant_are_seen(both):
    own = both
    for tenant, other, words in (("default", "acme", ()), ("acme", "default", ("--tenant", "acme"))):
        seen = within(
            own, "site", "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/[0-9]*/mountinfo", *words
        ).stdout
        assert f"it-is-{tenant}" in seen and f"kept/{tenant}/data" in seen
        for mark in (f"it-is-{other}", f"kept/{other}", f"{other}+site"):
            assert mark not in seen, mark
        found = within(own, "site", "ls -d /data/../../*/kept /data/../.. /secret/../../*", *words).stdout
        assert other not in found
        assert within(own, "site", "ls /run/selvedge/hub", *words).stdout == "token\n"


def test_a_user_of_a_tenant_is_shown_nothing_of_another(start):
    edge = start(http=True, anonymous=False)
    edge.run("tenant", "add", "acme")
    for tenant in ("default", "acme"):
        apply(edge, values(tenant))
    for role in ("viewer", "operator", "admin"):
        edge.run("user", "add", f"acme/{role}", "--role", role, "--password", "correct horse battery")
        user = Api(edge).log_in(f"acme/{role}", "correct horse battery")
        for what in ("deployments", "events", "usage", "services", "configmaps", "secrets"):
            status, said = user.ask("GET", f"/v1/tenants/acme/{what}")
            assert status == 200, (role, what, said)
            for other in ("default", "none"):
                status, said = user.ask("GET", f"/v1/tenants/{other}/{what}")
                assert status in (403, 404) and "it-is" not in str(said), (role, what, said)
        for path in ("deployments/site", "deployments/site/log"):
            assert user.ask("GET", f"/v1/tenants/default/{path}")[0] in (403, 404)
        for what in ("deployments/site", "secrets/keys", "configmaps/keys", "services/web"):
            assert user.ask("DELETE", f"/v1/tenants/default/{what}")[0] in (403, 404, 405)
        status, said = user.ask("POST", "/v1/apply", {"file": "a.yaml", "text": values("default")})
        assert status in (403, 404), said
        assert user.ask("PATCH", "/v1/tenants/acme", {"containers": None})[0] == 403


def test_one_more_container_than_the_quota_is_refused_and_less_is_not(own):
    own.run("tenant", "set", "acme", "--containers", "3")
    sleeps = lambda name, replicas: pod(name, "exec sleep 1000", tenant="acme", replicas=replicas)  # noqa: E731
    apply(own, sleeps("one", 2))
    assert uses(own)["containers"] == 2
    for words in ((), ("--dry-run",)):
        refused = apply(own, sleeps("other", 2), *words, check=False)
        assert refused.returncode != 0
        assert "the tenant acme has 2 containers, and would have 4; its quota containers is 3" in refused.stderr
    assert "+ acme/Deployment/other" in apply(own, sleeps("other", 1)).stdout
    own.run("tenant", "set", "acme", "--containers", "1")
    assert "~ acme/Deployment/one" in apply(own, sleeps("one", 1)).stdout, "less is let in, though it is too much yet"
    apply(own, pod("site", "exec sleep 1000", replicas=4))
    assert "containers          2 of 1" in own.run("tenant", "show", "acme").stdout


def test_an_edge_refuses_what_its_cloud_applies_beyond_the_quota(site):
    both: Site = site()
    both.edge.run("tenant", "set", "default", "--containers", "1")
    path = both.cloud.directory / "two.yaml"
    path.write_text(application("two", "exec sleep 1000", replicas=2))
    both.cloud.run("apply", "-f", str(path), "--edge", "hall-1")
    said = lambda: both.cloud.run("get", "manifests", "--edge", "hall-1", "--output", "json").stdout  # noqa: E731
    wait_until(lambda: "its quota containers is 1" in said())


def test_a_tenant_without_a_processor_left_leaves_the_other_its_own(own):
    own.run("tenant", "set", "acme", "--app-cpu-millis", "300")
    with answering(own):
        apply(own, pod("busy", BUSY, replicas=2, tenant="acme"))
        runs(own, "busy", "--tenant", "acme")
        before = [container["start"] for container in shown(own, "busy")["containers"]]
        assert 0.1 < busy_cores(own) < 0.35
        own.run("tenant", "set", "acme", "--app-cpu-millis", "800")
        # Others may use the machine, too: what it may now is asked the kernel.
        assert may_us(own) == 80_000
        own.run("tenant", "set", "acme", "--app-cpu-millis", "200")
        assert may_us(own) == 20_000
        assert busy_cores(own) < 0.25
        assert before == [container["start"] for container in shown(own, "busy")["containers"]]


def busy_cores(edge: Selvedge, during_s: float = 3) -> float:
    """What the containers of the tenant take of the processor, in cores."""
    time.sleep(0.5)
    began, before = time.monotonic(), cpu_us(edge)
    time.sleep(during_s)
    return (cpu_us(edge) - before) / 1e6 / (time.monotonic() - began)


def group_of(edge: Selvedge) -> str:
    """The tenant's control group, from where those are mounted: the edge's own, or a slice of systemd's."""
    of_tenant = re.compile(r"selvedge/[^/\n]*-acme|selvedge\.slice/[^/\n]*_2dacme\.slice")
    paths = (Path(f"/proc/{pid}/cgroup").read_text() for pid in Host(edge).pids())
    (name,) = {name for text in paths for name in of_tenant.findall(text)}
    return name


def may_us(edge: Selvedge) -> int:
    """What the kernel gives the tenant of each 100 ms of the processor."""
    group = group_of(edge)
    of_first = Path("/sys/fs/cgroup/cpu") / group / "cpu.cfs_quota_us"
    file = of_first if of_first.exists() else Path("/sys/fs/cgroup") / group / "cpu.max"
    return int(file.read_text().split()[0])


def cpu_us(edge: Selvedge) -> int:
    """That all of them have taken."""
    return sum(one["cpu_us"] for one in json.loads(edge.run("top", "--tenant", "acme", "--output", "json").stdout))


def test_an_application_may_be_limited_to_more_than_its_tenant(own):
    own.run("tenant", "set", "acme", "--app-cpu-millis", "300")
    apply(own, pod("busy", BUSY, ", resources: {limits: {cpu: 1500m}}", tenant="acme"))
    runs(own, "busy", "--tenant", "acme")
    assert busy_cores(own) < 0.45


@pytest.mark.parametrize("own", ["docker"], indirect=True)
def test_what_docker_runs_of_a_tenant_and_what_else_runs_take_no_more_than_its_quota_together(own, engine):
    own.run("tenant", "set", "acme", "--app-cpu-millis", "400")
    apply(own, pod("busy", BUSY, tenant="acme"))
    runs(own, "busy", "--tenant", "acme")
    apply(own, pod("beside", BUSY, tenant="acme").replace("hostNetwork: false", "runtimeClassName: oci"))
    if engine.said("info", "--format", "{{.CgroupDriver}}") == ["systemd"]:
        # Nobody counts what systemd keeps together with what it does not.
        said = lambda: own.run("get", "deployments", "--tenant", "acme").stdout  # noqa: E731
        wait_until(lambda: "write the same runtimeClassName for all of them" in said(), patience_s=30)
        assert len(Host(own).pids()) == 1
        own.run("tenant", "set", "acme", "--app-cpu-millis", "none")
    runs(own, "beside", "--tenant", "acme")
    refused = own.run("tenant", "set", "acme", "--app-cpu-millis", "400", check=False)
    if engine.said("info", "--format", "{{.CgroupDriver}}") == ["systemd"]:
        assert "write the same runtimeClassName for all of them" in refused.stderr
    else:
        assert busy_cores(own) < 0.55


def test_a_tenant_without_memory_left_ends_its_own_and_is_named(own):
    own.run("tenant", "set", "acme", "--app-memory-bytes", "64MiB")
    with answering(own):
        # Each of the two is small enough.
        apply(own, pod("greedy", "sleep 1; exec busybox tail /dev/zero", tenant="acme"))
        wait_until(lambda: shown(own, "greedy")["restarts"] > 0, patience_s=30)
        end = lambda: shown(own, "greedy")["containers"][0]["last_end"]  # noqa: E731
        wait_until(lambda: end() is not None, patience_s=30)
        assert end()["how"].startswith("its tenant ran out of memory, quota app_memory_bytes"), end()
        assert uses(own)["app_memory_bytes"] <= 64 << 20
    own.run("delete", "deployment", "greedy", "--tenant", "acme")
    limited = ", resources: {limits: {memory: 16Mi}}"
    apply(own, pod("modest", "exec busybox tail /dev/zero", limited, tenant="acme"))
    end = lambda: shown(own, "modest")["containers"][0]["last_end"]  # noqa: E731
    wait_until(lambda: (end() or {}).get("how", "").startswith("ran out of memory"), patience_s=30)


def test_a_fork_bomb_ends_at_the_quota_of_its_tenant(own):
    own.run("tenant", "set", "acme", "--app-pids", "100", "--app-cpu-millis", "500")
    with answering(own):
        apply(own, pod("bomb", "f() { f | f & }; f; while :; do sleep 1; f; done", tenant="acme"))
        wait_until(lambda: uses(own)["app_pids"] > 50, patience_s=30)
        for _ in range(10):
            assert uses(own)["app_pids"] <= 100
            time.sleep(0.2)
        own.run("delete", "deployment", "bomb", "--tenant", "acme")
    wait_until(lambda: uses(own)["app_pids"] == 0, patience_s=30)


def test_who_fills_the_disk_beyond_the_quota_of_its_tenant_is_replaced(own):
    own.run("tenant", "set", "acme", "--app-disk-bytes", "20MB")
    apply(own, pod("small", "exec sleep 1000", tenant="acme"))
    runs(own, "small", "--tenant", "acme")
    with answering(own):
        fills = "busybox dd if=/dev/zero of=/large bs=1M count=40; exec sleep 1000"
        apply(own, pod("large", fills, tenant="acme"))
        events = lambda: own.run("events", "large", "--tenant", "acme").stdout  # noqa: E731
        wait_until(lambda: "quota app_disk_bytes is 20.0 MB" in events(), patience_s=60)
        assert "evicted" in events()
    assert shown(own, "small")["restarts"] == 0


def test_who_fills_a_volume_that_is_kept_is_held_up_until_there_is_room(own):
    own.run("tenant", "set", "acme", "--app-disk-bytes", "20MB")
    volumes = "      volumes:\n        - {name: data, persistentVolumeClaim: {claimName: data}}\n"
    # Whoever takes its place goes on where it was.
    fills = "while [ $(busybox stat -c %s /data/large || echo 0) -lt 41943040 ]; do "
    fills += "busybox head -c 1048576 /dev/zero >> /data/large; done; exec sleep 1000"
    text = pod("large", fills, ", volumeMounts: [{name: data, mountPath: /data}]", tenant="acme")
    apply(own, text.replace("      containers:", volumes + "      containers:"))
    wait_until(lambda: shown(own, "large")["restarts"] > 0, patience_s=60)
    assert "quota app_disk_bytes is 20.0 MB" in own.run("events", "large", "--tenant", "acme").stdout
    wait_until(lambda: uses(own)["app_disk_bytes"] > 40_000_000, patience_s=60)
    own.run("tenant", "set", "acme", "--app-disk-bytes", "none")
    runs(own, "large", "--tenant", "acme")
    before = shown(own, "large")["restarts"]
    time.sleep(3)
    assert shown(own, "large")["restarts"] == before


def test_of_a_tenants_group_nothing_is_left_once_nothing_of_it_runs(own):
    apply(own, pod("one", "exec sleep 1000", tenant="acme"))
    runs(own, "one", "--tenant", "acme")
    name = group_of(own)
    groups = lambda: [one for of in ("", "*/") for one in Path("/sys/fs/cgroup").glob(f"{of}{name}")]  # noqa: E731
    assert groups()
    own.run("delete", "deployment", "one", "--tenant", "acme")
    wait_until(lambda: not groups(), patience_s=30)
