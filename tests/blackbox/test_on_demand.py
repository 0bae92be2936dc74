"""Applications that run only while somebody asks for them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from applications import Host, answers_while_it_falls_asleep, apply, as_run, deployment
from brokers import PORTS, Selvedge
from http_api import Api
from raw import PATIENCE_S, SLOWNESS
from sites import wait_until
from test_networks import SERVES, ask, fetch, over_each, pod, runs, service, services

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]


@pytest.fixture(params=["oci", "docker"])
def own(start, request) -> Iterator[Selvedge]:
    """An edge of the test's own, over each of what runs images."""
    with over_each(start, request) as edge:
        yield edge


def sleeper(name: str, script: str, port: int, idle: str = "1s", more: str = "", replicas: int = 1) -> str:
    """As `pod`, on demand, at a port of the edge."""
    ports = f", ports: [{{containerPort: 8080, hostPort: {port}}}]{more}"
    annotations = f"annotations: {{selvedge.dev/activation: on-demand, selvedge.dev/idle-timeout: {idle}}}"
    return pod(name, script, ports, replicas).replace("namespace: default}", f"namespace: default, {annotations}}}", 1)


def sleeps(edge: Selvedge, name: str) -> bool:
    """Whether nothing of it runs."""
    one = deployment(edge, name)
    return one["sleeps"] and not one["containers"] and not Host(edge).pids()


def starts(edge: Selvedge) -> int:
    """How often something was started."""
    events = json.loads(edge.run("events", "--output", "json").stdout)
    return sum(one["times"] for one in events if one["what"] == "started")


def test_the_first_request_starts_it_and_it_sleeps_again_when_nobody_asks(own):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port))
    wait_until(lambda: sleeps(own, "site"))
    assert "sleeps until somebody asks" in own.run("get", "deployments").stdout
    for round_number in (1, 2):
        with socket.create_connection(("127.0.0.1", port), timeout=2 * PATIENCE_S):
            assert ask("127.0.0.1", port) == "it is site-0"
            assert starts(own) == round_number
            assert not deployment(own, "site")["sleeps"]
        wait_until(lambda: sleeps(own, "site"))


def test_many_first_requests_start_it_once_and_all_are_answered(own):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port, idle="60s"))
    wait_until(lambda: sleeps(own, "site"))
    with ThreadPoolExecutor(200) as threads:
        answers = list(threads.map(lambda _: ask("127.0.0.1", port), range(200)))
    assert answers == ["it is site-0"] * 200
    assert starts(own) == 1


def sent_again(call: socket.socket) -> int:
    """How many segments of a connection were sent again, its first one too (`tcp(7)`: `TCP_INFO`)."""
    return struct.unpack_from("100xI", call.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))[0]


def test_a_thousand_who_call_before_one_speaks_are_taken_in_at_once_and_all_answered(own):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port, idle="60s"))
    wait_until(lambda: sleeps(own, "site"))
    with contextlib.ExitStack() as closing:
        at, patience_s = ("127.0.0.1", port), 3 * PATIENCE_S
        calls = [closing.enter_context(socket.create_connection(at, timeout=patience_s)) for _ in range(1_000)]
        assert sum(map(sent_again, calls)) == 0
        for call in calls:
            call.sendall(b"GET / HTTP/1.0\r\n\r\n")
        for call in calls:
            with call.makefile("rb") as answer:
                assert answer.read().endswith(b"it is site-0\n")
    assert starts(own) == 1


def test_who_is_told_that_it_sleeps_may_call_it_at_a_port_that_another_had_just_before(own):
    port, api = PORTS.take(), Api(own)
    ours = "/v1/tenants/default/deployments"
    for name in ("site", "other") * 5:
        manifest = as_run(own, sleeper(name, SERVES, port, idle="60s"))
        assert api.ask("POST", "/v1/apply", {"file": "site.yaml", "text": manifest})[0] == 200
        while not api.ask("GET", f"{ours}/{name}")[1]["sleeps"]:
            pass
        assert ask("127.0.0.1", port) == f"it is {name}-0"
        assert api.ask("DELETE", f"/v1/tenants/default/manifests/Deployment/{name}")[0] < 300


def test_who_is_told_that_it_is_applied_may_call_it_at_once(own):
    api = Api(own)
    for name in ("one", "two", "three", "four", "five"):
        port = PORTS.take()
        manifest = as_run(own, sleeper(name, SERVES, port, idle="60s")) + "---\n" + service(f"of-{name}", name)
        assert api.ask("POST", "/v1/apply", {"file": "site.yaml", "text": manifest})[0] == 200
        with socket.create_connection(("127.0.0.1", port), timeout=2 * PATIENCE_S):
            address = services(own)[f"of-{name}"]
        assert ask(address, 80) == f"it is {name}-0"


def test_it_does_not_sleep_under_a_request(own):
    port = PORTS.take()
    slow = "mkdir -p /www/cgi-bin; printf '#!/bin/sh\\nsleep 4; echo; echo done\\n' > /www/cgi-bin/slow; "
    slow += "chmod 755 /www/cgi-bin/slow; exec httpd -f -p 8080 -h /www"
    apply(own, sleeper("site", slow, port))
    wait_until(lambda: sleeps(own, "site"))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/cgi-bin/slow", timeout=2 * PATIENCE_S) as answer:
        assert answer.read() == b"done\n"
    assert starts(own) == 1
    wait_until(lambda: sleeps(own, "site"))


def led_past(port: int) -> bool:
    """Whether the kernel leads connections to a port past its door."""
    rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    return f"tcp dport {port} dnat ip to" in rules


def leads_to_containers(service: str) -> bool:
    """Whether the kernel leads connections to a service past its door."""
    rules = subprocess.run(["nft", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    led = [line for line in rules.splitlines() if f"ip daddr {service} tcp dport 80 dnat" in line]
    return led != [] and not any(line.rsplit(" ", 1)[1].startswith(service) for line in led)


@pytest.mark.parametrize("script", ["cat /dev/zero", "cat"], ids=["whose-reader-is-slow", "that-says-nothing"])
def test_it_does_not_sleep_under_a_connection_that_the_kernel_leads(own, script):
    port = PORTS.take()
    apply(own, sleeper("site", f"exec nc -ll -p 8080 -e {script}", port))
    wait_until(lambda: sleeps(own, "site"))
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
        wait_until(lambda: led_past(port))
        led = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    with led:
        time.sleep(4)
        assert starts(own) == 1
        assert not deployment(own, "site")["sleeps"]
    wait_until(lambda: sleeps(own, "site"), patience_s=20)
    assert not led_past(port)


def test_calls_that_nobody_answered_do_not_keep_it_awake(own):
    """As where more called at once than its program had room for: they have given up since."""
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port, idle="2s"))
    assert ask("127.0.0.1", port) == "it is site-0"
    at = container(own, "site")
    (pid,) = (pid for pid in Host(own).pids() if "httpd" in Path(f"/proc/{pid}/cmdline").read_text())
    within = ["nsenter", f"--net=/proc/{pid}/ns/net", "nft"]
    chain = "add chain ip deaf in { type filter hook input priority 0; }"
    subprocess.run([*within, f"add table ip deaf; {chain}; add rule ip deaf in tcp dport 8080 drop"], check=True)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            socket.create_connection(at, timeout=0.2)
    subprocess.run([*within, "delete", "table", "ip", "deaf"], check=True)
    wait_until(lambda: sleeps(own, "site"), patience_s=20)


def called(port: int) -> tuple[str, int]:
    """Whom a program of the host is connected to that calls a port of its own."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as call:
        return call.getpeername()


def container(edge: Selvedge, name: str) -> tuple[str, int]:
    """Where the one container of an application listens."""
    return deployment(edge, name)["containers"][0]["address"], 8080


def test_while_it_is_awake_a_call_of_the_host_is_one_to_the_container_itself(own):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port, idle="3s"))
    wait_until(lambda: sleeps(own, "site"))
    assert ask("127.0.0.1", port) == "it is site-0"
    wait_until(lambda: called(port) == container(own, "site"))
    assert ask("127.0.0.1", port) == "it is site-0"
    wait_until(lambda: sleeps(own, "site"))
    assert called(port) == ("127.0.0.1", port)
    assert ask("127.0.0.1", port) == "it is site-0"
    assert starts(own) == 2


def test_a_call_in_another_network_means_that_network(own):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port, idle="60s"))
    assert ask("127.0.0.1", port) == "it is site-0"
    wait_until(lambda: called(port) == container(own, "site"))
    calls = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
    call = ["unshare", "--net", "sh", "-c", 'ip link set lo up; exec "$@"', "sh", sys.executable, "-c", calls]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    # Led to the container, it would say that the network is unreachable.
    assert "Connection refused" in done.stderr, done.stderr


def test_who_calls_its_own_address_keeps_it_awake_and_its_probes_do_not(own):
    port = PORTS.take()
    probe = ", readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}"
    apply(own, sleeper("site", SERVES, port, more=probe))
    wait_until(lambda: sleeps(own, "site"))
    assert ask("127.0.0.1", port) == "it is site-0"
    with socket.create_connection(container(own, "site"), timeout=PATIENCE_S):
        time.sleep(4)
        assert not deployment(own, "site")["sleeps"]
    wait_until(lambda: sleeps(own, "site"), patience_s=20)
    assert starts(own) == 1


def test_bytes_that_come_before_it_is_ready_are_not_lost(own):
    port = PORTS.take()
    apply(own, sleeper("echo", "sleep 1; exec nc -l -p 8080 -e cat", port))
    wait_until(lambda: sleeps(own, "echo"))
    with socket.create_connection(("127.0.0.1", port), timeout=2 * PATIENCE_S) as stream:
        for number in range(50):
            stream.sendall(b"%06d\n" % number)
            time.sleep(0.01)
        got = b""
        while len(got) < 350:
            got += stream.recv(4096)
    assert got == b"".join(b"%06d\n" % number for number in range(50))


def peak_bytes(edge: Selvedge) -> int:
    """The most memory that it had resident."""
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{edge.process.pid}/status").read_text())[1]) << 10


@pytest.mark.parametrize("own", ["oci"], indirect=True)
def test_what_comes_before_it_is_ready_does_not_wait_in_the_edges_memory_and_all_of_it_arrives(own):
    port, said = PORTS.take(), os.urandom(8 << 20)
    probe = ", readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}"
    apply(own, sleeper("digests", "sleep 2; exec nc -ll -p 8080 -e busybox sha256sum", port, more=probe))
    wait_until(lambda: sleeps(own, "digests"))

    def digest(_: int) -> str:
        with socket.create_connection(("127.0.0.1", port), timeout=3 * PATIENCE_S) as call:
            call.sendall(said)
            call.shutdown(socket.SHUT_WR)
            with call.makefile("rb") as answer:
                return answer.read().split()[0].decode()

    before = own.rss_bytes()
    with ThreadPoolExecutor(20) as callers:
        digests = list(callers.map(digest, range(20)))
    assert digests == [hashlib.sha256(said).hexdigest()] * 20
    assert peak_bytes(own) - before < 16 << 20


def test_a_readiness_probe_is_waited_for(own):
    port = PORTS.take()
    late = "sleep 2; httpd -p 8080 -h /www; touch /ready; exec sleep 1000"
    times = f"periodSeconds: 1, timeoutSeconds: {SLOWNESS:.0f}"
    probe = f", readinessProbe: {{exec: {{command: [test, -e, /ready]}}, {times}}}"
    apply(own, sleeper("site", "mkdir -p /www; echo here > /www/index.html; " + late, port, more=probe))
    wait_until(lambda: sleeps(own, "site"))
    assert ask("127.0.0.1", port) == "here"


def test_a_start_that_fails_is_answered_in_time_with_why(own):
    port = PORTS.take()
    apply(own, sleeper("site", "echo no such thing >&2; exit 3", port))
    wait_until(lambda: sleeps(own, "site"))
    began = time.monotonic()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=6 * PATIENCE_S)
    assert refused.value.code == 503
    assert "exited with 3" in refused.value.read().decode()
    assert time.monotonic() - began < 20


def test_another_application_wakes_it_by_its_name(own):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port) + "---\n" + service("web", "site"))
    apply(own, pod("caller", "exec sleep 1000"))
    runs(own, "caller")
    wait_until(lambda: deployment(own, "site")["sleeps"])
    wait_until(lambda: fetch(own, "caller", "web", port=80) == "it is site-0")
    wait_until(lambda: deployment(own, "site")["sleeps"])
    assert ask(services(own)["web"], 80) == "it is site-0"


def test_one_that_is_applied_anew_while_it_ends_is_asleep(own):
    port = PORTS.take()
    takes_its_time = "trap 'sleep 2; exit 0' TERM; " + SERVES.replace("exec httpd", "httpd") + " & wait"
    manifest = sleeper("site", takes_its_time, port, idle="60s")
    manifest = manifest.replace("terminationGracePeriodSeconds: 0", "terminationGracePeriodSeconds: 10")
    apply(own, manifest)
    wait_until(lambda: sleeps(own, "site"))
    assert ask("127.0.0.1", port) == "it is site-0"
    own.run("delete", "deployment", "site")
    assert Host(own).pids()
    apply(own, manifest)
    wait_until(lambda: sleeps(own, "site"))
    assert ask("127.0.0.1", port) == "it is site-0"
    assert starts(own) == 2


def test_requests_while_it_falls_asleep_are_all_answered(own):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port, idle="50ms"))
    wait_until(lambda: sleeps(own, "site"))
    assert answers_while_it_falls_asleep(lambda: ask("127.0.0.1", port)) == {"it is site-0"}
    assert starts(own) > 1


def test_an_edge_that_is_killed_finds_it_awake_and_lets_it_sleep(own):
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port, idle="3s"))
    wait_until(lambda: sleeps(own, "site"))
    # Until the edge is killed somebody is connected: it does not sleep before.
    with socket.create_connection(("127.0.0.1", port), timeout=2 * PATIENCE_S):
        assert ask("127.0.0.1", port) == "it is site-0"
        before = Host(own).pids()
        own.kill()
    own.start()
    wait_until(lambda: ask("127.0.0.1", port) == "it is site-0")
    assert Host(own).pids() == before
    wait_until(lambda: sleeps(own, "site"))


def test_an_edge_that_is_killed_as_soon_as_it_finds_it_awake_leads_on(own):
    """Nobody calls in between: nothing comes to the door of the second edge."""
    port = PORTS.take()
    apply(own, sleeper("site", SERVES, port, idle="60s") + "---\n" + service("web", "site"))
    wait_until(lambda: ask("127.0.0.1", port) == "it is site-0")
    wait_until(lambda: led_past(port) and leads_to_containers(services(own)["web"]))
    address = services(own)["web"]
    own.kill()
    own.start()
    wait_until(lambda: deployment(own, "site")["ready"] == 1)
    time.sleep(2)  # It would lead calls to its door: a claim that nothing happens.
    own.kill()
    for where in (("127.0.0.1", port), (address, 80)):
        assert ask(*where) == "it is site-0"
    own.start()


@pytest.mark.parametrize("activation", ["always", "on-demand"])
def test_requests_are_answered_while_the_edge_is_killed_and_while_it_starts(own, activation):
    port = PORTS.take()
    text = sleeper("site", SERVES, port, idle="60s").replace("activation: on-demand", f"activation: {activation}")
    apply(own, text + "---\n" + service("web", "site"))
    wait_until(lambda: ask("127.0.0.1", port) == "it is site-0")
    # Whoever asks keeps what is on demand awake, but is led past its door between two requests only.
    wait_until(lambda: led_past(port) and leads_to_containers(services(own)["web"]))
    address = services(own)["web"]
    over = threading.Event()
    asked, wrong = [], []

    def asks() -> None:
        while not over.is_set():
            for where in (("127.0.0.1", port), (address, 80)):
                asked.append(where)
                if ask(*where) != "it is site-0":
                    wrong.append(where)
            time.sleep(0.001)

    asking = threading.Thread(target=asks)
    asking.start()
    for _ in range(3):
        own.kill()
        time.sleep(0.2)  # Requests while there is no edge.
        own.start()
        time.sleep(1)  # And while it finds out who is ready.
    over.set()
    asking.join()
    assert not wrong, f"{len(wrong)} of {len(asked)}"
    assert len(asked) > 100


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        ("selvedge.dev/activation: sometimes", '"sometimes" is neither always nor on-demand'),
        ("selvedge.dev/idle-timeout: soon", '"soon" is no time; one is 90s, 5m or 1h'),
        ("selvedge.dev/idle: 5m", "there is no annotation selvedge.dev/idle"),
    ],
)
def test_annotations_that_are_wrong_are_refused(own, annotation, said):
    text = pod("site", SERVES).replace("namespace: default}", f"namespace: default, annotations: {{{annotation}}}}}", 1)
    assert said in apply(own, text, check=False).stderr
