"""Containers with a network of their own: whom they reach, and who reaches them."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from applications import Host, apply, deployment, ending, runs
from brokers import BINARY, PORTS, Selvedge, selvedge
from machine import tried
from namespaces import ADDRESSES, FIRST_ADDRESS, FIRST_PORT
from raw import SLOWNESS
from sites import wait_until
from test_images import build, of_image

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

SERVES = "mkdir -p /www; echo it is $(hostname) > /www/index.html; exec httpd -f -p 8080 -h /www"


# Asks as HTTP/1.0 has it, and says what comes behind the head.
FETCH = """\
#!/bin/bash
exec 3<>"/dev/tcp/$1/$2" && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 || exit 1
while read -r line; do [ "$line" = $'\\r' ] && break; done <&3
cat <&3
"""


@pytest.fixture(params=["oci", "docker"])
def own(start, request) -> Iterator[Selvedge]:
    """An edge of the test's own, over each of what runs images."""
    with over_each(start, request) as edge:
        yield edge


@contextlib.contextmanager
def over_each(start, request) -> Iterator[Selvedge]:
    """An edge with an image that has a shell, which is run as the parameter of the fixture says."""
    engine = request.getfixturevalue("engine") if request.param == "docker" else None
    environment = {"DOCKER_HOST": f"unix://{engine.socket}"} if engine else {}
    with ending(start(environment=environment)) as edge:
        edge.runtime = request.param
        build(edge, "box:1", files=with_bash())
        if engine:
            engine.take_in(edge.directory / "image")
        yield edge
    if engine:
        engine.clear()


def with_bash() -> dict[str, bytes]:
    """A shell that connects, by names too, which the static busybox of Debian cannot."""
    needs = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    files = [Path("/bin/bash"), *(Path(word) for word in needs.split() if word.startswith("/"))]
    return {"bin/fetch": FETCH.encode(), **{str(file).lstrip("/"): file.read_bytes() for file in files}}


def pod(name: str, script: str, more: str = "", replicas: int = 1, second: str = "", tenant: str = "default") -> str:
    """A shell that runs a script, in a network of its own; `second` is the script of another container in it."""
    text = of_image(name, script, more, replicas=replicas).replace("hostNetwork: true", "hostNetwork: false")
    text = text.replace(f"metadata: {{name: {name}}}", f"metadata: {{name: {name}, namespace: {tenant}}}", 1)
    text = text.replace("terminationGracePeriodSeconds: 2", "terminationGracePeriodSeconds: 0")
    other = f"        - {{name: other, image: 'box:1', command: [/bin/sh, -c], args: [{json.dumps(second)}]}}\n"
    return text + (other if second else "")


def addresses(edge: Selvedge, name: str) -> list[str]:
    """Where the containers of an application are reached."""
    return [container["address"] for container in deployment(edge, name)["containers"]]


def within(edge: Selvedge, name: str, script: str, *words: str) -> subprocess.CompletedProcess:
    """A script in a container."""
    command = [BINARY, "exec", name, *words, "--data", str(edge.data), "--", "/bin/sh", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)


def fetch(edge: Selvedge, name: str, host: str, *words: str, port: int = 8080) -> str:
    """What a container is answered; nothing where it is not."""
    return within(edge, name, f"timeout 5 fetch {host} {port}", *words).stdout.strip()


def test_containers_of_a_tenant_reach_each_other_and_the_host_reaches_them(own):
    apply(own, pod("site", SERVES, replicas=2))
    apply(own, pod("caller", "exec sleep 1000"))
    runs(own, "site")
    runs(own, "caller")
    one, other = addresses(own, "site")
    assert one != other
    for address, name in ((one, "site-0"), (other, "site-1")):
        wait_until(lambda a=address, n=name: fetch(own, "caller", a) == f"it is {n}")
        wget = subprocess.run(["wget", "-qO-", "-T3", f"http://{address}:8080"], capture_output=True, text=True)
        assert wget.stdout.strip() == f"it is {name}", wget.stderr
    assert fetch(own, "site", "127.0.0.1", "--replica", "1") == "it is site-1"


def test_a_container_in_the_hosts_network_is_called_as_the_host_is(own):
    of_host = f"hostNetwork: true\n      runtimeClassName: {own.runtime}"
    apply(own, pod("site", "exec sleep 1000").replace("hostNetwork: false", of_host))
    runs(own, "site")
    assert within(own, "site", "hostname").stdout.strip() == socket.gethostname()


def test_containers_of_another_tenant_are_not_reached(own):
    own.run("tenant", "add", "acme")
    apply(own, pod("site", SERVES))
    apply(own, pod("site", SERVES, tenant="acme"))
    runs(own, "site")
    (address,) = addresses(own, "site")
    wait_until(lambda: fetch(own, "site", address) == "it is site-0")
    refused = within(own, "site", f"timeout 5 fetch {address} 8080", "--tenant", "acme")
    assert "Connection refused" in refused.stderr, refused
    assert fetch(own, "site", "127.0.0.1", "--tenant", "acme") == "it is site-0"


@pytest.mark.parametrize("own", ["oci"], indirect=True)
def test_containers_of_a_pod_share_its_network_and_one_that_is_started_anew_finds_it(own):
    apply(own, pod("site", SERVES, second="exec sleep 1000"))
    runs(own, "site")
    one, other = addresses(own, "site")
    assert one == other
    wait_until(lambda: fetch(own, "site", "localhost", "--container", "other") == "it is site-0")
    (main,) = (pid for pid in Host(own).pids() if "httpd" in Path(f"/proc/{pid}/cmdline").read_text())
    os.kill(main, signal.SIGKILL)
    wait_until(lambda: sum(container["restarts"] for container in deployment(own, "site")["containers"]) == 1)
    runs(own, "site")
    assert addresses(own, "site") == [one, one]
    wait_until(lambda: fetch(own, "site", "localhost", "--container", "other") == "it is site-0")


def test_a_container_reaches_the_edge_and_nothing_else_of_the_host(own):
    apply(own, pod("caller", "exec sleep 1000"))
    runs(own, "caller")
    gateway = within(own, "caller", "cat /etc/resolv.conf").stdout.split()[1]
    connects = "timeout 5 bash -c 'exec 3<>/dev/tcp/{}/{} && echo connected'"
    done = within(own, "caller", connects.format(gateway, own.port))
    assert done.stdout == "connected\n", done
    with socket.create_server(("0.0.0.0", 0)) as listener:
        refused = within(own, "caller", connects.format(gateway, listener.getsockname()[1]))
        assert refused.stdout == "" and "Connection refused" in refused.stderr, refused


def test_what_a_container_had_of_the_network_goes_with_it(own):
    apply(own, pod("site", SERVES))
    runs(own, "site")
    (address,) = addresses(own, "site")
    route = lambda: subprocess.run(["ip", "route", "get", address], capture_output=True, text=True).stdout  # noqa: E731
    link = "sv" + "".join(f"{int(part):02x}" for part in address.split("."))
    assert f"dev {link}" in route()
    own.stop()
    assert f"dev {link}" in route()
    own.start()
    runs(own, "site")
    assert addresses(own, "site") == [address]
    own.run("delete", "deployment", "site")
    wait_until(lambda: not list(Host(own).containers.iterdir()))
    wait_until(lambda: f"dev {link}" not in route())


def test_probes_ask_a_container_where_it_is(own):
    asked = ", readinessProbe: {httpGet: {port: 8080, path: /}, periodSeconds: 1}"
    apply(own, pod("site", SERVES, asked))
    runs(own, "site")


def service(name: str, application: str, port: int = 80, target: int | str = 8080, tenant: str = "default") -> str:
    """A name for an application."""
    return f"""\
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {tenant}}}
spec:
  selector: {{app: {application}}}
  ports: [{{port: {port}, targetPort: {target}}}]
"""


def services(edge: Selvedge) -> dict[str, str]:
    """Their addresses."""
    return {one["name"]: one["address"] for one in json.loads(edge.run("get", "services", "--output", "json").stdout)}


def ask(address: str, port: int) -> str:
    """What the host is answered; nothing where it is not, or not to the end."""
    try:
        with urllib.request.urlopen(f"http://{address}:{port}", timeout=10 * SLOWNESS) as answer:
            return answer.read().decode().strip()
    except (OSError, http.client.HTTPException) as error:
        words = error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
        print(f"http://{address}:{port}: {error!r} {words}")  # Shown where the test fails.
        return ""


def test_a_service_is_found_by_its_name_and_leads_to_each_that_is_ready(own):
    apply(own, pod("site", SERVES, replicas=2) + "---\n" + service("web", "site"))
    apply(own, pod("caller", "exec sleep 1000"))
    runs(own, "site")
    runs(own, "caller")
    address = services(own)["web"]
    wait_until(lambda: ask(address, 80) != "")
    assert {ask(address, 80) for _ in range(4)} == {"it is site-0", "it is site-1"}
    for name in ("web", "web.default", "web.default.svc.selvedge.local", "web.default.svc.cluster.local"):
        assert fetch(own, "caller", name, port=80).startswith("it is site-"), name
    assert fetch(own, "caller", "none.default.svc.selvedge.local", port=80) == ""
    assert fetch(own, "site", "web", port=80).startswith("it is site-")
    own.stop()
    own.start()
    wait_until(lambda: fetch(own, "caller", "web", port=80).startswith("it is site-"))
    assert ask(address, 80) != ""
    own.run("delete", "service", "web")
    wait_until(lambda: ask(address, 80) == "")
    assert fetch(own, "caller", "web", port=80) == ""


def test_a_service_of_another_tenant_is_neither_found_nor_reached(own):
    own.run("tenant", "add", "acme")
    apply(own, pod("site", SERVES) + "---\n" + service("web", "site"))
    apply(own, pod("caller", "exec sleep 1000", tenant="acme") + "---\n" + service("own", "caller", tenant="acme"))
    runs(own, "site")
    address = services(own)["web"]
    wait_until(lambda: fetch(own, "site", "web", port=80) == "it is site-0")
    for name in ("web", "web.default", "web.default.svc.selvedge.local", address):
        tried = within(own, "caller", f"timeout 5 fetch {name} 80", "--tenant", "acme")
        assert tried.returncode == 1 and tried.stdout == "", (name, tried)


def test_a_port_of_the_edge_leads_to_a_container(own):
    port = PORTS.take()
    apply(own, pod("site", SERVES, f", ports: [{{containerPort: 8080, hostPort: {port}}}]"))
    runs(own, "site")
    wait_until(lambda: ask("127.0.0.1", port) == "it is site-0")
    own.run("delete", "deployment", "site")
    wait_until(lambda: ask("127.0.0.1", port) == "")


def test_a_port_that_another_program_has_is_said_and_taken_once_it_is_free(own):
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        apply(own, pod("site", SERVES, f", ports: [{{containerPort: 8080, hostPort: {port}}}]"))
        said = f"port {port} is in use by another program of this machine"
        wait_until(lambda: said in own.run("get", "deployments").stdout)
        assert said in own.run("describe", "deployment", "site").stdout
    wait_until(lambda: ask("127.0.0.1", port) == "it is site-0")
    assert said not in own.run("get", "deployments").stdout


def test_a_service_may_have_the_port_of_another_program_which_its_containers_do_not_reach(own):
    with socket.create_server(("0.0.0.0", 0)) as listener, socket.create_server(("0.0.0.0", 0)) as other:
        port, closed = listener.getsockname()[1], other.getsockname()[1]
        apply(own, pod("site", SERVES) + "---\n" + service("web", "site", port=port))
        runs(own, "site")
        wait_until(lambda: fetch(own, "site", "web", port=port) == "it is site-0")
        assert ask(services(own)["web"], port) == "it is site-0"
        refused = within(own, "site", f"timeout 5 fetch web {closed}")
        assert "Connection refused" in refused.stderr, refused


class Between:
    """An edge in a namespace of its own, with a line to each of two others; all goes with the test."""

    def __init__(self, directory: Path, undo: contextlib.ExitStack, environment: dict[str, str] | None = None):
        port = PORTS.take()
        self.directory, self.data = directory, directory / "data"
        self.edge, self.ends = f"sel{port}", {way: f"sel{port}-{way}" for way in "ab"}
        first = FIRST_ADDRESS + (port - FIRST_PORT) * ADDRESSES
        self.addresses = {"a": first + 1, "b": first + 5}
        for name in (self.edge, *self.ends.values()):
            tried("ip", "netns", "add", name)
            undo.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
        for way, far in self.ends.items():
            address = self.addresses[way]
            tried("ip", "-n", self.edge, "link", "add", f"to-{way}", "type", "veth", "peer", "line", "netns", far)
            for name, link, own in ((self.edge, f"to-{way}", address + 1), (far, "line", address)):
                tried("ip", "-n", name, "address", "add", f"{own}/30", "dev", link)
                tried("ip", "-n", name, "link", "set", link, "up")
            tried("ip", "-n", far, "route", "add", "default", "via", str(address + 1))
        tried("ip", "-n", self.edge, "link", "set", "lo", "up")
        # A namespace begins with the host's setting.
        tried("ip", "netns", "exec", self.edge, "sysctl", "-qw", "net.ipv4.ip_forward=0")
        # `ip netns exec` would hide control groups.
        command = ["nsenter", f"--net=/run/netns/{self.edge}", BINARY, "edge", "--data", str(self.data)]
        command += ["--mqtt", "127.0.0.1:1883"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
        undo.callback(Host(self).kill_all)
        undo.callback(process.wait)
        undo.callback(process.terminate)
        wait_until((self.data / "control.sock").exists)

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        """`selvedge`, of this edge."""
        return selvedge(*words, "--data", str(self.data), check=check)

    def from_a_to_b(self, port: int) -> bool:
        """Whether a connection comes through."""
        connects = f"exec 3<>/dev/tcp/{self.addresses['b']}/{port}"
        command = ["ip", "netns", "exec", self.ends["a"], "timeout", "2", "bash", "-c", connects]
        return subprocess.run(command, capture_output=True).returncode == 0


def test_an_edge_with_a_foot_in_two_networks_does_not_become_a_router_between_them(tmp_path):
    with contextlib.ExitStack() as undo:
        edge = Between(tmp_path, undo)
        serves = ["ip", "netns", "exec", edge.ends["b"], "python3", "-m", "http.server", "8000"]
        server = subprocess.Popen(serves, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=tmp_path)
        undo.callback(server.wait)
        undo.callback(server.kill)
        build(edge, "box:1", files=with_bash())
        apply(edge, pod("caller", "exec sleep 1000"))
        runs(edge, "caller")
        wait_until(lambda: "data" in fetch(edge, "caller", str(edge.addresses["b"]), port=8000))
        assert tried("ip", "netns", "exec", edge.edge, "cat", "/proc/sys/net/ipv4/ip_forward").strip() == "1"
        assert not edge.from_a_to_b(8000)
        table = [line for line in tried("ip", "netns", "exec", edge.edge, "nft", "list", "tables").splitlines()]
        tried("ip", "netns", "exec", edge.edge, "nft", "delete", *table[0].split())
        assert edge.from_a_to_b(8000)
        # Whoever drops them, rules are back before long.
        wait_until(lambda: not edge.from_a_to_b(8000))
