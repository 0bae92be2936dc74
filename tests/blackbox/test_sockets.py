"""Applications that take over listening sockets of the edge (`sd_listen_fds`), here lighttpd, and its Unix sockets."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from applications import Host, answers_while_it_falls_asleep, apply, deployment, ending, runs
from brokers import PORTS, Selvedge
from sites import wait_until
from test_images import build
from test_networks import SERVES, ask, fetch, pod, service, services, with_bash
from test_on_demand import sleeper, sleeps, starts

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

LIGHTTPD = "/usr/sbin/lighttpd"
CONFIG = """\
server.document-root = "{root}"
server.bind = "0.0.0.0"
server.port = {port}
server.systemd-socket-activation = "enable"
index-file.names = ("index.html")
"""


@pytest.fixture
def own(start):
    """An edge of the test's own, with images of a shell and of a web server that takes sockets over."""
    with ending(start()) as edge:
        build(edge, "box:1", files=with_bash())
        files = with_bash() | library(LIGHTTPD)
        files["www/index.html"] = b"it is lighttpd\n"
        files["lighttpd.conf"] = CONFIG.format(root="/www", port=9).encode()
        build(edge, "lighttpd:1", files=files)
        yield edge


def library(program: str) -> dict[str, bytes]:
    """A program, and what it is linked with."""
    needs = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    files = [Path(program), *(Path(word) for word in needs.split() if word.startswith("/"))]
    return {str(file).lstrip("/"): file.read_bytes() for file in files}


def server(runtime: str, edge: Selvedge, port: int, more: str = "", before: str = "", unix: str = "") -> str:
    """lighttpd on demand, which takes over the socket of a port of the edge."""
    run = f"{before}exec {LIGHTTPD} -D -f /lighttpd.conf"
    if runtime == "process":
        (edge.directory / "www").mkdir(exist_ok=True)
        (edge.directory / "www/index.html").write_text("it is lighttpd\n")
        config = edge.directory / "lighttpd.conf"
        config.write_text(CONFIG.format(root=edge.directory / "www", port=port))
        run = run.replace("/lighttpd.conf", str(config))
    text = sleeper("site", run, port, more=more).replace("box:1", "lighttpd:1")
    annotations = 'selvedge.dev/listen-fds: "true"' + (f", selvedge.dev/unix-socket: {unix}" if unix else "")
    text = text.replace("selvedge.dev/activation", f"{annotations}, selvedge.dev/activation")
    if runtime == "process":
        text = text.replace("      hostNetwork: false\n", "      runtimeClassName: process\n")
        text = text.replace("image: 'lighttpd:1', command: [/bin/sh, -c]", "image: /bin/sh").replace(
            "args: [", "args: [-c, "
        )
    return text


@pytest.mark.parametrize("runtime", ["process", "oci"])
def test_a_server_that_takes_its_socket_over_answers_itself_and_sleeps_again(own, runtime):
    port = PORTS.take()
    apply(own, server(runtime, own, port))
    wait_until(lambda: sleeps(own, "site"))
    for round_number in (1, 2):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=20) as answer:
            assert answer.read() == b"it is lighttpd\n"
            # It is the server that says so, and it has the client's own address: nobody stands between.
            assert answer.headers["Server"].startswith("lighttpd")
        # It answers before the edge has noted that it has started it.
        wait_until(lambda: starts(own) == round_number)  # noqa: B023
        wait_until(lambda: sleeps(own, "site"))


@pytest.mark.parametrize("runtime", ["process", "oci"])
def test_many_first_connections_wait_in_the_socket_and_are_all_answered(own, runtime):
    port = PORTS.take()
    apply(own, server(runtime, own, port, before="sleep 1; ").replace("idle-timeout: 1s", "idle-timeout: 60s"))
    wait_until(lambda: sleeps(own, "site"))
    with ThreadPoolExecutor(200) as threads:
        answers = list(threads.map(lambda _: ask("127.0.0.1", port), range(200)))
    assert answers == ["it is lighttpd"] * 200
    # It answers before the edge has noted that it has started it.
    wait_until(lambda: starts(own) > 0)
    assert starts(own) == 1


def test_it_does_not_sleep_while_a_connection_to_its_socket_is_open(own):
    port = PORTS.take()
    apply(own, server("oci", own, port))
    wait_until(lambda: sleeps(own, "site"))
    with socket.create_connection(("127.0.0.1", port), timeout=20) as stream:
        for _ in range(4):
            stream.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"200 OK" in stream.recv(4096)
            time.sleep(1.5)
    assert starts(own) == 1
    wait_until(lambda: sleeps(own, "site"))


@pytest.mark.parametrize("runtime", ["process", "oci"])
def test_an_edge_that_is_killed_gets_the_socket_back(own, runtime):
    port = PORTS.take()
    apply(own, server(runtime, own, port).replace("idle-timeout: 1s", "idle-timeout: 3s"))
    wait_until(lambda: ask("127.0.0.1", port) == "it is lighttpd")
    # Until the edge is killed somebody is connected: it does not sleep before.
    with socket.create_connection(("127.0.0.1", port), timeout=20):
        wait_until(lambda: ask("127.0.0.1", port) == "it is lighttpd" and Host(own).pids() != [])
        before = Host(own).pids()
        own.kill()
    # Nobody but the server answers now.
    assert ask("127.0.0.1", port) == "it is lighttpd"
    own.start()
    assert ask("127.0.0.1", port) == "it is lighttpd"
    assert Host(own).pids() == before
    wait_until(lambda: sleeps(own, "site"), patience_s=20)
    assert ask("127.0.0.1", port) == "it is lighttpd"
    assert deployment(own, "site")["closed_doors"] == []


def test_requests_while_it_falls_asleep_are_all_answered(own):
    port = PORTS.take()
    apply(own, server("oci", own, port).replace("idle-timeout: 1s", "idle-timeout: 50ms"))
    wait_until(lambda: sleeps(own, "site"))
    answers = answers_while_it_falls_asleep(lambda: ask("127.0.0.1", port), times=15, pauses_s=(0.31, 0.47, 1.1))
    assert answers == {"it is lighttpd"}


def test_a_new_version_takes_the_same_socket_and_nobody_notices(own):
    port = PORTS.take()
    text = server("oci", own, port).replace("selvedge.dev/activation: on-demand, ", "selvedge.dev/activation: always, ")
    apply(own, text)
    runs(own, "site")
    over = threading.Event()
    wrong, asked = [], []

    def asks() -> None:
        while not over.is_set():
            asked.append(ask("127.0.0.1", port))
            if not asked[-1].startswith("it is"):
                wrong.append(asked[-1])

    asking = threading.Thread(target=asks)
    asking.start()
    before = Host(own).pids()
    apply(own, text.replace("exec ", "echo it is new > /www/index.html; exec "))
    wait_until(lambda: asked[-1:] == ["it is new"] and not set(before) & set(Host(own).pids()), patience_s=20)
    over.set()
    asking.join()
    assert not wrong, f"{len(wrong)} of {len(asked)}"


def test_a_service_leads_to_a_socket_that_was_taken_over(own):
    port = PORTS.take()
    apply(own, server("oci", own, port) + "---\n" + service("web", "site"))
    apply(own, pod("caller", "exec sleep 1000"))
    runs(own, "caller")
    wait_until(lambda: fetch(own, "caller", "web", port=80) == "it is lighttpd")
    assert ask(services(own)["web"], 80) == "it is lighttpd"


def test_a_start_that_fails_is_told_to_those_who_wait_in_the_socket(own):
    port = PORTS.take()
    apply(own, server("oci", own, port, before="exit 3; "))
    wait_until(lambda: sleeps(own, "site"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=60)
    assert refused.value.code == 503
    assert "exited with 3" in refused.value.read().decode()


def over_unix(path: Path) -> bytes:
    """What is answered there."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.settimeout(20)
        stream.connect(str(path))
        stream.sendall(b"GET / HTTP/1.0\r\n\r\n")
        answer = b""
        while more := stream.recv(4096):
            answer += more
        return answer.split(b"\r\n\r\n", 1)[1].strip()


def unix(own: Selvedge, name: str) -> Path:
    """A Unix socket of the edge."""
    return own.data / "sockets/default" / name


def test_a_unix_socket_wakes_an_application_and_leads_to_it(own):
    port = PORTS.take()
    text = sleeper("site", SERVES, port).replace(
        "selvedge.dev/activation", "selvedge.dev/unix-socket: web, selvedge.dev/activation"
    )
    apply(own, text)
    wait_until(lambda: sleeps(own, "site") and unix(own, "web").is_socket())
    assert over_unix(unix(own, "web")) == b"it is site-0"
    wait_until(lambda: sleeps(own, "site"))
    assert over_unix(unix(own, "web")) == b"it is site-0"
    own.run("delete", "deployment", "site")
    wait_until(lambda: not unix(own, "web").exists())


def test_a_server_takes_a_unix_socket_over(own):
    port = PORTS.take()
    apply(own, server("oci", own, port, unix="web"))
    wait_until(lambda: sleeps(own, "site") and unix(own, "web").is_socket())
    for _ in range(2):
        assert over_unix(unix(own, "web")) == b"it is lighttpd"
        wait_until(lambda: sleeps(own, "site"))
    assert ask("127.0.0.1", port) == "it is lighttpd"


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        ('selvedge.dev/listen-fds: "perhaps"', '"perhaps" is neither true nor false'),
        ('selvedge.dev/listen-fds: "true"', "there is no socket to take over"),
        ("selvedge.dev/unix-socket: ../web", '"../web" is no name of a socket'),
        ("selvedge.dev/unix-socket: web", "leads nowhere"),
    ],
)
def test_what_cannot_be_is_refused_with_what_would_be_right(own, annotation, said):
    text = pod("site", SERVES).replace("namespace: default}", f"namespace: default, annotations: {{{annotation}}}}}", 1)
    assert said in apply(own, text, check=False).stderr
    assert json.loads(own.run("get", "deployments", "--output", "json").stdout) == []
