"""Applications on several edges of a site call each other by name: what is near answers, and else who is there."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import grpc
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from applications import application, apply, ending
from brokers import PORTS
from raw import PATIENCE_S, SLOWNESS
from sites import metric, wait_until
from test_images import build
from test_networks import fetch, pod, runs, service, services, with_bash
from test_nodes import Node
from test_on_demand import sleeper, sleeps

pytestmark = [pytest.mark.contract, pytest.mark.needs("site"), pytest.mark.needs("logs")]

# By which policy the requests to a service are spread.
BALANCE = "selvedge.dev/balance"


def serves(node: str) -> str:
    """A script that answers with the name of its node."""
    return f"mkdir -p /www; echo {node} > /www/index.html; exec httpd -f -p 8080 -h /www"


def annotated(manifest: str, annotation: str) -> str:
    """A manifest with an annotation."""
    return manifest.replace("namespace: default", f"namespace: default, annotations: {{{annotation}}}")


@pytest.fixture
def site(tmp_path: Path):
    """Edges of one site, each connected with all others."""
    with contextlib.ExitStack() as stack:

        def make(*names: str) -> list[Node]:
            nodes = []
            for name in names:
                node = Node(tmp_path / name, name, http=True)
                node.called = name
                nodes.append(stack.enter_context(ending(node.start())))
                node.runtime = "oci"
                build(node, "box:1", files=with_bash())
                if len(nodes) > 1:
                    node.joins(nodes[0].invite(name))
            for node in nodes:
                wait_until(lambda n=node: n.sees(*(other.called for other in nodes if other is not n)))
            return nodes

        yield make


def caller(node: Node) -> None:
    """An application that calls others."""
    apply(node, pod("caller", "exec sleep 1000"))
    runs(node, "caller")


def answers(node: Node, count: int = 12) -> Counter:
    """Which nodes answer requests of a container to the service `web`."""
    return Counter(fetch(node, "caller", "web", port=80) for _ in range(count))


def test_a_container_calls_by_name_what_only_another_node_has(site):
    here, there = site("here", "there")
    caller(here)
    assert fetch(here, "caller", "web", port=80) == ""
    apply(there, pod("web", serves("there")) + "---\n" + service("web", "web"))
    for name in ("web", "web.default.svc.selvedge.local", "web.default.svc.cluster.local"):
        wait_until(lambda n=name: fetch(here, "caller", n, port=80) == "there")
    assert "there (1 ready)" in here.run("get", "services").stdout
    there.run("delete", "service", "web")
    wait_until(lambda: fetch(here, "caller", "web", port=80) == "")


def test_requests_stay_while_somebody_is_here_and_go_to_another_node_when_nobody_is(site):
    here, there = site("here", "there")
    caller(here)
    for node in (here, there):
        apply(node, pod("web", serves(node.called)) + "---\n" + service("web", "web"))
        runs(node, "web")
    wait_until(lambda: answers(here) == {"here": 12})
    here.run("delete", "deployment", "web")
    wait_until(lambda: answers(here, 1) == {"there": 1})
    assert answers(here) == {"there": 12}
    apply(here, pod("web", serves("here")))
    wait_until(lambda: answers(here) == {"here": 12})


@pytest.mark.parametrize("policy", ["round-robin", "random", "least-request"])
def test_other_policies_spread_requests_over_the_endpoints_of_all_nodes(site, policy):
    here, there = site("here", "there")
    caller(here)
    web = service("web", "web").replace(
        "namespace: default", f"namespace: default, annotations: {{{BALANCE}: {policy}}}"
    )
    for node, replicas in ((here, 1), (there, 2)):
        apply(node, pod("web", serves(node.called), replicas=replicas) + "---\n" + web)
        runs(node, "web")
    wait_until(lambda: answers(here, 6)["there"] > 0)
    seen = answers(here, 30)
    assert seen.keys() == {"here", "there"}
    if policy == "round-robin":
        assert seen == {"here": 10, "there": 20}


@pytest.mark.parametrize("kept", ["internalTrafficPolicy: Local", f"{BALANCE}: local"])
def test_a_service_that_is_to_stay_on_its_node_does_so_whatever_becomes_of_it(site, kept):
    here, there = site("here", "there")
    caller(here)
    web = service("web", "web")
    web = web.replace("spec:\n", f"spec:\n  {kept}\n") if kept.startswith("internal") else annotated(web, kept)
    for node in (here, there):
        apply(node, pod("web", serves(node.called)) + "---\n" + web)
        runs(node, "web")
    wait_until(lambda: answers(here) == {"here": 12})
    here.run("delete", "deployment", "web")
    wait_until(lambda: refusal(here) != "")
    assert refusal(here) == "nobody is ready to answer"


def refusal(node: Node) -> str:
    """Why the host is not answered by the service `web`."""
    try:
        urllib.request.urlopen(f"http://{services(node)['web']}", timeout=10).read()
        return ""
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return error.read().decode().strip()
    except OSError:
        return ""  # Who answered has just ended.


def test_a_request_wakes_what_sleeps_on_another_node(site):
    here, there = site("here", "there")
    caller(here)
    apply(there, sleeper("web", serves("there"), there.https_port + 1, idle="2s") + "---\n" + service("web", "web"))
    for _ in range(2):
        wait_until(lambda: sleeps(there, "web"))
        wait_until(lambda: answers(here, 1) == {"there": 1})


def test_a_node_that_is_killed_gets_no_more_requests_and_those_that_are_left_answer(site):
    here, near, there = site("here", "near", "there")
    caller(here)
    web = annotated(service("web", "web"), f"{BALANCE}: round-robin")
    apply(here, web)
    for node in (near, there):
        apply(node, pod("web", serves(node.called)) + "---\n" + web)
        runs(node, "web")
    wait_until(lambda: answers(here) == {"near": 6, "there": 6})
    near.kill()
    time.sleep(1)
    assert answers(here) == {"there": 12}
    there.kill()
    time.sleep(1)
    begun = time.monotonic()
    assert fetch(here, "caller", "web", port=80) == "nobody is ready to answer"
    assert time.monotonic() - begun < 3
    near.start()
    wait_until(lambda: answers(here, 1) == {"near": 1})


def test_a_tenant_neither_finds_nor_reaches_services_of_another_tenant_on_another_node(site):
    here, there = site("here", "there")
    for node in (here, there):
        node.run("tenant", "add", "acme")
    caller(here)
    apply(here, pod("caller", "exec sleep 1000", tenant="acme"))
    apply(there, pod("web", serves("there"), tenant="acme") + "---\n" + service("web", "web", tenant="acme"))
    wait_until(lambda: fetch(here, "caller", "web", "--tenant", "acme", port=80) == "there")
    assert fetch(here, "caller", "web", port=80) == ""
    assert fetch(here, "caller", "web.acme", port=80) == ""


def test_bytes_pass_both_ways_and_an_end_of_one_way_leaves_the_other(site):
    here, there = site("here", "there")
    apply(here, service("echo", "echo"))
    apply(there, pod("echo", "exec nc -ll -p 8080 -e cat") + "---\n" + service("echo", "echo"))
    runs(there, "echo")
    sent = os.urandom(3_000_000)
    with socket.create_connection((services(here)["echo"], 80), timeout=PATIENCE_S) as stream:
        stream.settimeout(PATIENCE_S)
        sending = threading.Thread(target=lambda: (stream.sendall(sent), stream.shutdown(socket.SHUT_WR)))
        sending.start()
        with stream.makefile("rb") as answer:
            assert answer.read() == sent
        sending.join()


@contextlib.contextmanager
def keeping(node: Node, name: str = "web"):
    """A connection of the host to a service, over which requests go one after the other."""
    connection = http.client.HTTPConnection(services(node)[name], 80, timeout=PATIENCE_S)
    yield connection
    connection.close()


def asked(connection: http.client.HTTPConnection, path: str = "/", **more: object) -> tuple[int, str]:
    """The answer to one request of a connection."""
    connection.request("POST" if "body" in more else "GET", path, **more)
    answer = connection.getresponse()
    return answer.status, answer.read().decode().strip()


def test_requests_of_one_connection_are_led_each_on_its_own(site):
    here, there = site("here", "there")
    web = annotated(service("web", "web"), f"{BALANCE}: round-robin")
    for node, replicas in ((here, 1), (there, 2)):
        apply(node, pod("web", serves(node.called), replicas=replicas) + "---\n" + web)
        runs(node, "web")
    wait_until(lambda: there_too(here))
    with keeping(here) as connection:
        seen = Counter(asked(connection) for _ in range(30))
        assert seen == {(200, "here"): 10, (200, "there"): 20}
        led = [metric(here, "service_requests_total", service="web", node=node.called) for node in (here, there)]
        answered = [
            metric(here, "service_answer_seconds_count", service="web", node=node.called) for node in (here, there)
        ]
        assert led == answered and led[0] >= 10 and led[1] >= 20
        assert metric(here, "service_spilled_total", service="web", reason="policy") == led[1]
        socket_before = connection.sock
        there.run("delete", "deployment", "web")
        wait_until(lambda: Counter(asked(connection) for _ in range(5)) == {(200, "here"): 5})
        assert connection.sock is socket_before


def there_too(node: Node) -> bool:
    """Whether requests of the host to the service `web` come to another node, too."""
    with keeping(node) as connection:
        return any(asked(connection)[1] == "there" for _ in range(6))


def program(file: str, name: str) -> str:
    """A server of the host's Python, `NAME`'s, and its service `calls`."""
    port = PORTS.take()
    script = f"exec {sys.executable} {Path(__file__).with_name(file)} {name} {port}"
    ready = f", readinessProbe: {{tcpSocket: {{port: {port}}}, periodSeconds: 1}}"
    return application("calls", script, ready) + "---\n" + service("calls", "calls", target=port)


def test_calls_of_grpc_pass_with_their_streams_and_trailers_and_are_led_each_on_its_own(site):
    here, there = site("here", "there")
    for node in (here, there):
        apply(node, annotated(program("grpc_server.py", node.called), f"{BALANCE}: round-robin"))
        runs(node, "calls")
    with grpc.insecure_channel(f"{services(here)['calls']}:80") as channel:
        says = channel.unary_unary("/test.Calls/Says")
        wait_until(lambda: says(b"", wait_for_ready=True) == b"there ")
        seen = Counter(says(b"hello") for _ in range(20))
        assert seen == {b"here hello": 10, b"there hello": 10}
        counts = channel.stream_stream("/test.Calls/Counts")
        for _ in range(2):
            assert list(counts(iter([b"a", b"b", b"c"]))) == [b"0 a", b"1 b", b"2 c"]
            with pytest.raises(grpc.RpcError) as failed:
                channel.unary_unary("/test.Calls/Fails")(b"")
            assert failed.value.code() == grpc.StatusCode.NOT_FOUND and failed.value.details() == "there is none"
        for node in (here, there):
            node.run("delete", "deployment", "calls")
        wait_until(lambda: "nobody is ready to answer" in failure(says))


def failure(call: grpc.UnaryUnaryMultiCallable) -> str:
    """Why nobody answers."""
    try:
        call(b"")
    except grpc.RpcError as error:
        return error.details() if error.code() == grpc.StatusCode.UNAVAILABLE else ""
    return ""


def test_a_websocket_is_led_to_another_node(site):
    here, there = site("here", "there")
    apply(here, service("calls", "calls"))
    apply(there, program("websocket_server.py", "there"))
    runs(there, "calls")
    url = f"ws://{services(here)['calls']}:80/"
    wait_until(lambda: is_connected(url))
    with connect(url) as stream:
        for number in range(20):
            stream.send(f"message {number}")
            assert stream.recv(timeout=PATIENCE_S) == f"there message {number}"


def is_connected(url: str) -> bool:
    """Whether somebody takes a WebSocket."""
    try:
        with connect(url):
            return True
    except (OSError, InvalidStatus):
        return False


def test_bodies_of_requests_and_answers_pass_whatever_their_length(site):
    here, there = site("here", "there")
    apply(here, service("web", "web"))
    echo = "mkdir -p /www/cgi-bin; printf '#!/bin/sh\\necho; cat\\n' > /www/cgi-bin/echo; chmod 755 /www/cgi-bin/echo; "
    apply(there, pod("web", echo + "exec httpd -f -p 8080 -h /www") + "---\n" + service("web", "web"))
    runs(there, "web")
    sent = "x" * 300_000
    with keeping(here) as connection:
        wait_until(lambda: asked(connection)[0] == 404)
        assert asked(connection, "/cgi-bin/echo", body=sent) == (200, sent)
        assert asked(connection, "/cgi-bin/echo", body="short") == (200, "short")
        assert asked(connection, "/none")[0] == 404


def test_who_sends_much_is_told_why_nobody_has_it(site):
    here, there = site("here", "there")
    apply(here, service("web", "web"))
    apply(there, pod("web", serves("there")) + "---\n" + service("web", "web"))
    runs(there, "web")
    with keeping(here) as connection:
        wait_until(lambda: asked(connection) == (200, "there"))
    there.run("delete", "deployment", "web")
    with keeping(here) as connection:
        wait_until(lambda: asked(connection)[0] == 503)
        for _ in range(5):
            assert asked(connection, body="x" * 1_000_000) == (503, "nobody is ready to answer")


SMUGGLED = {
    "both lengths": b"POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "a length that is none": b"POST / HTTP/1.1\r\nHost: web\r\nContent-Length: +4\r\n\r\nabcd",
    "a folded line": b"GET / HTTP/1.1\r\nHost: web\r\nA: b\r\n c\r\n\r\n",
    "a space before the colon": b"GET / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding : chunked\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: web\r\nHost: other\r\n\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "a chunk that is none": b"POST / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nab\r\n0\r\n\r\n",
    "a coding that is not last": b"POST / HTTP/1.1\r\nHost: web\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "a head without an end": b"GET / HTTP/1.1\r\nHost: web\r\n" + b"A: b\r\n" * 40_000,
}


def test_requests_that_two_could_read_differently_are_refused_and_reach_nobody(site):
    here, there = site("here", "there")
    apply(here, service("web", "web"))
    # What was asked is in its log, each line of it.
    script = "mkdir -p /www; echo there > /www/index.html; exec httpd -f -vv -p 8080 -h /www"
    apply(there, pod("web", script) + "---\n" + service("web", "web"))
    runs(there, "web")
    with keeping(here) as connection:
        wait_until(lambda: asked(connection) == (200, "there"))
    at = services(here)["web"], 80
    for why, request in SMUGGLED.items():
        with socket.create_connection(at, timeout=PATIENCE_S) as stream:
            with contextlib.suppress(OSError):
                stream.sendall(request + b"GET /smuggled HTTP/1.1\r\nHost: web\r\n\r\n")
            answer = b""
            with contextlib.suppress(OSError):
                while more := stream.recv(65_536):
                    answer += more
        # By RFC 9112, 6.3, chunks count, and the connection ends.
        refused = (b"501",) if why == "both lengths" else (b"400", b"431")
        assert answer == b"" or answer.split(b" ")[1] in refused, (why, answer)
        assert answer.count(b"HTTP/1.1 ") <= 1, (why, answer)
    with keeping(here) as connection:
        assert asked(connection) == (200, "there")
    assert "smuggled" not in there.run("logs", "web").stdout


BAD = {
    "answers half": ("printf 'HTTP/1.1 200 OK\\r\\nContent-Length: 10\\r\\n\\r\\nhalf'", "half an answer"),
    "says nothing": ("exit 0", "502"),
    "answers something else": ("echo hello; sleep 1", "502"),
    "sends headers without end": ("printf 'HTTP/1.1 200 OK\\r\\n'; while echo 'A: b'; do :; done", "502"),
}


@pytest.mark.parametrize("what", BAD)
def test_an_endpoint_that_misbehaves_costs_its_callers_an_error_at_once_and_nobody_anything_else(site, what):
    here, there = site("here", "there")
    answer, expected = BAD[what]
    for name in ("web", "good"):
        apply(here, service(name, name))
    quoted = f"#!/bin/sh\\nread -r line; {answer}\\n".replace("'", "'\\''").replace("%", "%%")
    script = f"printf '{quoted}' > /bin/answer; chmod 755 /bin/answer; exec nc -ll -p 8080 -e /bin/answer"
    apply(there, pod("web", script) + "---\n" + service("web", "web"))
    apply(there, pod("good", serves("there")) + "---\n" + service("good", "good"))
    runs(there, "web")
    runs(there, "good")
    begun = time.monotonic()
    with keeping(here, "good") as connection:
        wait_until(lambda: asked(connection) == (200, "there"))
    seen = []
    for _ in range(3):
        with keeping(here) as connection:
            try:
                seen.append(str(asked(connection)[0]))
            except http.client.IncompleteRead:
                seen.append("half an answer")
    assert seen == [expected] * 3
    assert time.monotonic() - begun < 20
    with keeping(here, "good") as connection:
        assert asked(connection) == (200, "there")


def test_a_node_that_says_nothing_any_more_costs_no_request_that_may_be_repeated(site):
    """As one whose cable is pulled: its connections stay, and nothing comes."""
    here, near, there = site("here", "near", "there")
    web = annotated(service("web", "web"), f"{BALANCE}: round-robin")
    apply(here, web)
    for node in (near, there):
        apply(node, pod("web", serves(node.called)) + "---\n" + web)
        runs(node, "web")
    with keeping(here) as connection:
        wait_until(lambda: {asked(connection)[1] for _ in range(4)} == {"near", "there"})
        os.kill(near.process.pid, signal.SIGSTOP)
        try:
            began, seen = time.monotonic(), []
            while time.monotonic() - began < 6 * SLOWNESS:
                seen.append(asked(connection))
                time.sleep(0.02)
        finally:
            os.kill(near.process.pid, signal.SIGCONT)
        assert {status for status, _ in seen} == {200}
        assert {node for _, node in seen[-20:]} == {"there"}
        wait_until(lambda: asked(connection)[1] == "near")
