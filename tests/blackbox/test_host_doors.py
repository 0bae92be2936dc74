"""Calls of the host itself to its programs: the kernel leads them past the doors of the edge."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import machine
from applications import Host, answers_while_it_falls_asleep, application, apply, deployment, ending, host_table, runs
from brokers import ENVIRONMENT, PORTS, Selvedge
from sites import wait_until
from test_networks import Between, ask, service, services
from test_on_demand import sent_again, sleeps, starts

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

HERE = "127.0.0.1"
# Calls to it are led by rules, where those to the other are led as they are made.
BY_RULES = "127.0.0.9"
# Says to each who calls where the call comes from, and holds it until the caller ends it.
SERVER = """\
import socketserver, sys

class Says(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"%s %d\\n" % (self.client_address[0].encode(), self.client_address[1]))
        for line in self.rfile:
            self.wfile.write(line)

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True

Server(("127.0.0.1", int(sys.argv[1])), Says).serve_forever()
"""


@pytest.fixture(autouse=True)
def root() -> None:
    """Rules of the kernel take root."""
    if os.geteuid() != 0:
        machine.lacking("root, which may have the kernel lead calls")


@pytest.fixture
def own(start) -> Iterator[Selvedge]:
    """An edge of the test's own."""
    with ending(start()) as edge:
        yield edge


def program(name: str, script: str, port: int, inner: int, activation: str = "always", idle: str = "1s") -> str:
    """A program of the host behind a port of the edge."""
    ports = f", ports: [{{name: web, containerPort: {inner}, hostPort: {port}}}]"
    annotations = f"annotations: {{selvedge.dev/activation: {activation}, selvedge.dev/idle-timeout: {idle}}}"
    text = application(name, script, ports).replace("GracePeriodSeconds: 2", "GracePeriodSeconds: 0")
    return text.replace(f"metadata: {{name: {name}}}", f"metadata: {{name: {name}, {annotations}}}", 1)


def says(edge, name: str, *words: str) -> tuple[str, int]:
    """One that says where calls come from, and its port of the edge."""
    path = edge.directory / "server.py"
    path.write_text(SERVER)
    port, inner = PORTS.take(), PORTS.take()
    return program(name, f"exec python3 {path} {inner}", port, inner, *words), port


def site(edge: Selvedge, idle: str) -> tuple[str, int]:
    """A web server on demand that has room for nine who wait, and its port of the edge."""
    folder = edge.directory / "www"
    folder.mkdir()
    (folder / "index.html").write_text("it is here\n")
    port, inner = PORTS.take(), PORTS.take()
    script = f"exec /bin/busybox httpd -f -p {HERE}:{inner} -h {folder}"
    return program("site", script, port, inner, "on-demand", idle), port


class Call:
    """A connection to one that says where it comes from."""

    def __init__(self, port: int, address: str = HERE):
        self.stream = socket.create_connection((address, port), timeout=20)
        self.lines = self.stream.makefile("rb")
        ip, number = self.lines.readline().decode().split()
        self.seen = (ip, int(number))

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self.lines.close()
        self.stream.close()

    def is_led(self) -> bool:
        """Whether it came to the program as it is."""
        return self.seen == self.stream.getsockname()

    def is_alive(self) -> bool:
        """Whether what it says comes back."""
        self.stream.sendall(b"echo\n")
        return self.lines.readline() == b"echo\n"


def is_led(port: int, address: str = HERE) -> bool:
    """Whether the kernel leads who calls there, who is answered in any case."""
    with Call(port, address) as call:
        return call.is_led()


def becomes_led(port: int) -> None:
    """Waits until the kernel leads who calls there; a program that is being started may refuse at first."""

    def is_now() -> bool:
        with contextlib.suppress(OSError, ValueError):
            return is_led(port)
        return False

    wait_until(is_now, patience_s=20)


def rests(edge: Selvedge, port: int) -> None:
    """Waits until it sleeps behind a door that is open."""
    wait_until(lambda: sleeps(edge, "site") and machine.tried("ss", "-Hltn", f"sport = :{port}") != "", patience_s=20)


def rules(edge: Selvedge) -> str:
    """What the kernel has in the edge's table; nothing where there is none."""
    table = host_table(edge)
    done = subprocess.run(["nft", "list", "table", "ip", table or "none"], capture_output=True, text=True, check=False)
    return done.stdout


def own_address() -> str:
    """One of this machine that is not of its loopback, or that where it has none."""
    said = json.loads(machine.tried("ip", "-json", "-4", "address", "show", "scope", "global"))
    others = (one for link in said if link.get("ifname") != "lo" for one in link["addr_info"])
    return next((one["local"] for one in others if "local" in one), "127.0.0.2")


@pytest.mark.parametrize("activation", ["always", "on-demand"])
def test_calls_of_the_host_come_to_a_program_as_they_are_at_each_address_of_the_host(own, activation):
    text, port = says(own, "site", activation, "60s")
    apply(own, text)
    becomes_led(port)
    for address in (HERE, BY_RULES, own_address()):
        with Call(port, address) as call:
            assert call.is_led() and call.is_alive(), address
    assert starts(own) == 1


def test_calls_from_elsewhere_and_to_other_ports_do_not_come_to_it_past_the_edge(tmp_path):
    with contextlib.ExitStack() as undo:
        edge = Between(tmp_path, undo)
        text, port = says(edge, "site")
        apply(edge, text)
        runs(edge, "site")
        far = tmp_path / "far.py"
        far.write_text("import socket,sys\nprint(socket.create_connection(sys.argv[1:3], 5).makefile().readline())\n")
        address = str(edge.addresses["a"] + 1)

        def seen(name: str) -> str:
            """Whom the program sees call from a namespace."""
            command = ["ip", "netns", "exec", name, "python3", str(far), address, str(port)]
            return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout.split(" ")[0]

        wait_until(lambda: seen(edge.edge) == address, patience_s=20)
        assert seen(edge.ends["a"]) == HERE
        # The host of programs alone forwards nothing, and has no range of addresses.
        assert machine.tried("ip", "netns", "exec", edge.edge, "sysctl", "-n", "net.ipv4.ip_forward") == "0\n"
        assert not (edge.data / "containers.network").exists()


def test_it_does_not_sleep_under_a_call_that_the_kernel_leads_and_sleeps_after_it(own):
    text, port = says(own, "site", "on-demand")
    apply(own, text)
    rests(own, port)
    with Call(port):
        wait_until(lambda: f"tcp dport {port} dnat" in rules(own))
        led = Call(port)
        assert led.is_led()
    with led:
        time.sleep(4)  # Longer than it would stay awake: a claim that nothing happens.
        assert led.is_alive()
        assert starts(own) == 1
        assert not deployment(own, "site")["sleeps"]
    wait_until(lambda: sleeps(own, "site"), patience_s=20)
    # The kernel goes on to follow connections for as long as it may lead one.
    assert f"tcp dport {port}" not in rules(own) and "ct state" in rules(own)
    assert not is_led(port)


def test_calls_that_come_and_go_while_nobody_looks_keep_it_awake(own):
    text, port = says(own, "site", "on-demand", "2s")
    apply(own, text)
    rests(own, port)
    becomes_led(port)
    for _ in range(12):
        time.sleep(0.5)
        assert is_led(port)
    assert starts(own) == 1


def test_while_it_is_awake_a_call_of_the_host_is_one_to_the_program_itself(own):
    text, port = says(own, "site", "on-demand", "3s")
    apply(own, text)
    rests(own, port)
    inner = int(re.search(r"containerPort: (\d+)", text)[1])
    for _ in range(2):
        becomes_led(port)

        def called() -> tuple[str, int]:
            """Whom the host is connected to."""
            with Call(port) as call:
                return call.stream.getpeername()

        wait_until(lambda: called() == (HERE, inner))
        rests(own, port)
        assert called() == (HERE, port)


def test_who_calls_a_program_itself_keeps_it_awake_and_its_probes_do_not(own):
    text, port = says(own, "site", "on-demand")
    inner = int(re.search(r"containerPort: (\d+)", text)[1])
    probe = f"}}], readinessProbe: {{tcpSocket: {{port: {inner}}}, periodSeconds: 1}}}}"
    apply(own, text.replace("}]}", probe, 1))
    rests(own, port)
    becomes_led(port)
    with Call(inner) as call:
        time.sleep(4)  # Longer than it would stay awake: a claim that nothing happens.
        assert call.is_alive() and not deployment(own, "site")["sleeps"]
    wait_until(lambda: sleeps(own, "site"), patience_s=20)
    assert starts(own) == 1


def test_an_edge_that_is_killed_leads_on_and_the_next_takes_its_table_over(own):
    text, port = says(own, "site", "on-demand", "60s")
    apply(own, text)
    becomes_led(port)
    pids, table = Host(own).pids(), host_table(own)
    with Call(port) as held:
        own.kill()
        assert is_led(port) and held.is_alive()
        own.start()
        assert held.is_alive()
        becomes_led(port)
        assert held.is_alive()
        assert (Host(own).pids(), host_table(own)) == (pids, table)
        wait_until(lambda: is_led(port) and rules(own).count(f"tcp dport {port} dnat") == 1)
    own.run("delete", "deployment", "site")
    wait_until(lambda: host_table(own) is None, patience_s=20)
    listed = machine.tried("nft", "list", "tables")
    assert table not in listed


def test_an_edge_that_is_stopped_leads_nobody_and_leaves_a_table_only_while_a_call_that_it_led_goes_on(own):
    text, port = says(own, "site")
    apply(own, text)
    becomes_led(port)
    with Call(port, BY_RULES) as held:
        assert held.is_led()
        own.stop()
        assert f"tcp dport {port}" not in rules(own) != ""
        with pytest.raises(ConnectionRefusedError):
            Call(port)
        assert held.is_alive()
        own.start()
        becomes_led(port)
        assert held.is_alive()
    table = host_table(own)
    own.stop()
    assert host_table(own) is None
    assert table not in machine.tried("nft", "list", "tables")


def test_edges_of_one_host_have_a_table_each(own, start):
    with ending(start()) as other:
        ports = {}
        for edge in (own, other):
            text, ports[edge] = says(edge, "site")
            apply(edge, text)
        for edge in (own, other):
            becomes_led(ports[edge])
        assert host_table(own) != host_table(other)
        other.run("delete", "deployment", "site")
        wait_until(lambda: host_table(other) is None, patience_s=20)
        assert is_led(ports[own])


def test_rules_that_another_program_drops_are_back_before_long(own):
    text, port = says(own, "site")
    apply(own, text)
    becomes_led(port)
    machine.tried("nft", "delete", "table", "ip", host_table(own))
    assert not is_led(port, BY_RULES)
    wait_until(lambda: is_led(port, BY_RULES))


class Nft:
    """A program `nft` that can be made to fail, for one edge."""

    def __init__(self, directory: Path):
        self.broken = directory / "broken"
        path = directory / "nft"
        real = shutil.which("nft", path=ENVIRONMENT["PATH"])
        path.write_text(f'#!/bin/sh\n[ -e {self.broken} ] && {{ echo it is broken >&2; exit 1; }}\nexec {real} "$@"\n')
        path.chmod(0o755)
        self.environment = {"PATH": f"{directory}:{ENVIRONMENT['PATH']}"}

    def fails(self, is_broken: bool = True) -> None:
        """From now on."""
        self.broken.touch() if is_broken else self.broken.unlink()


def test_where_the_kernel_takes_no_rules_calls_pass_through_the_edge_which_says_so(start, tmp_path):
    nft = Nft(tmp_path)
    nft.fails()
    with ending(start(environment=nft.environment)) as own:
        text, port = says(own, "site", "on-demand")
        apply(own, text)
        rests(own, port)
        for _ in range(2):
            with Call(port) as one:
                assert one.is_alive()
                own.said("calls of the host to its programs are not led past doors")
                with Call(port) as other:
                    assert not other.is_led() and other.is_alive()
            wait_until(lambda: sleeps(own, "site"), patience_s=20)


def test_it_does_not_sleep_while_it_may_still_be_called_past_its_door(start, tmp_path):
    nft = Nft(tmp_path)
    with ending(start(environment=nft.environment)) as own:
        text, port = says(own, "site", "on-demand")
        apply(own, text)
        rests(own, port)
        with Call(port):
            wait_until(lambda: f"tcp dport {port} dnat" in rules(own))
            nft.fails()
        own.said("it is broken")
        time.sleep(2)  # It would sleep at once: a claim that nothing happens.
        with Call(port) as late:
            assert late.is_led() and late.is_alive()
            assert starts(own) == 1
        nft.fails(is_broken=False)
        wait_until(lambda: sleeps(own, "site"), patience_s=20)


def test_calls_while_it_falls_asleep_are_all_answered(own):
    text, port = site(own, "50ms")
    apply(own, text)
    rests(own, port)
    assert answers_while_it_falls_asleep(lambda: ask(HERE, port)) == {"it is here"}
    assert starts(own) > 1


def test_a_thousand_who_call_a_program_that_sleeps_are_taken_in_at_once_and_all_answered(own):
    text, port = site(own, "60s")
    apply(own, text)
    rests(own, port)
    with contextlib.ExitStack() as closing, ThreadPoolExecutor(50) as threads:
        calls = [closing.enter_context(socket.create_connection((HERE, port), timeout=30)) for _ in range(1_000)]

        def answer(call: socket.socket) -> bytes:
            call.sendall(b"GET / HTTP/1.0\r\n\r\n")
            with call.makefile("rb") as said:
                return said.read()

        assert all(said.endswith(b"it is here\n") for said in threads.map(answer, calls))
        assert sum(map(sent_again, calls)) == 0
    assert starts(own) == 1
    wait_until(lambda: f"tcp dport {port} dnat" in rules(own))


def test_a_service_leads_the_host_to_each_of_its_programs_in_turn(own):
    text, ports = "", []
    for name in ("one", "two"):
        # Both are what the service selects.
        manifest, port = says(own, name)
        text += manifest.replace(f"app: {name}", "app: site") + "---\n"
        ports.append(port)
    apply(own, text + service("web", "site", target="web"))
    for port in ports:
        becomes_led(port)

    def peers() -> set[tuple[str, int]]:
        """Those whom the host is led to."""
        calls = [Call(80, services(own)["web"]) for _ in range(4)]
        with contextlib.ExitStack() as closing:
            for call in calls:
                closing.enter_context(call)
            assert all(call.is_alive() for call in calls)
            return {own_end(call) for call in calls if call.is_led()}

    wait_until(lambda: services(own)["web"] != "" and len(peers()) == 2, patience_s=20)


def own_end(call: Call) -> tuple[str, int]:
    """Where the program has a connection."""
    ours = f"{call.seen[0]}:{call.seen[1]}"
    lines = machine.tried("ss", "-Htn", "dst", ours).splitlines()
    ends = {line.split()[3] for line in lines if line.split()[3].startswith(f"{HERE}:")}
    assert len(ends) == 1, lines
    ip, port = ends.pop().split(":")
    return ip, int(port)
