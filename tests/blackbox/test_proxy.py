"""What a Service's annotations ask for its requests, and how connections of HTTP/2 end."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from applications import Host, application, apply, deployment, ending, runs
from brokers import PORTS, Selvedge
from proxied_frames import GOAWAY, Http2
from raw import PATIENCE_S
from sites import metric, wait_until
from test_images import build
from test_mesh import site  # noqa: F401  (a fixture)
from test_networks import services, with_bash
from test_on_demand import sleeper, sleeps

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

# What has requests come to the door, one by one.
LOGGED = 'selvedge.dev/access-log: "true"'


@pytest.fixture
def edge(start) -> Iterator[Selvedge]:
    """An edge of the test's own."""
    with ending(start(http=True)) as one:
        yield one


class Endpoint:
    """An application that answers with its name, and behaves as the test says (`proxied_server.py`)."""

    def __init__(self, edge: Selvedge, name: str, more: str = ""):
        self.edge, self.name = edge, name
        self.directory = edge.directory / name
        self.directory.mkdir()
        self.does("ready")
        port = PORTS.take()
        script = f"exec {sys.executable} {Path(__file__).with_name('proxied_server.py')} {name} {port} {self.directory}"
        probe = f"exec: {{command: [/usr/bin/test, -f, {self.directory}/ready]}}, periodSeconds: 1, failureThreshold: 1"
        more = f", ports: [{{name: web, containerPort: {port}}}], readinessProbe: {{{probe}}}{more}"
        text = application(name, script, more).replace(f"labels: {{app: {name}}}", f"labels: {{app: {name}, is: web}}")
        apply(edge, text)
        runs(edge, name)

    def does(self, what: str) -> None:
        """From now on."""
        (self.directory / what).touch()

    def stops(self, what: str) -> None:
        """To do that."""
        (self.directory / what).unlink()

    def seen(self) -> int:
        """Requests that it has looked at."""
        seen = self.directory / "seen"
        return len(seen.read_text().splitlines()) if seen.exists() else 0


def service(edge: Selvedge, *annotations: str, check: bool = True) -> subprocess.CompletedProcess:
    """The service `web`, which leads to all endpoints."""
    return apply(edge, manifest(*annotations), check=check)


def manifest(*annotations: str, port: str = "") -> str:
    """Of it."""
    return f"""\
apiVersion: v1
kind: Service
metadata:
  name: web
  annotations: {{{", ".join(annotations)}}}
spec:
  selector: {{is: web}}
  ports: [{{port: 80, targetPort: web{port}}}]
"""


def address(edge: Selvedge) -> str:
    """Of the service."""
    return services(edge)["web"]


def curl(edge: Selvedge, *words: str, path: str = "/") -> str:
    """What curl is answered by HTTP/2, behind it the status."""
    command = ["curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_code}", "-m", str(PATIENCE_S), *words]
    done = subprocess.run([*command, f"http://{address(edge)}{path}"], capture_output=True, text=True, check=False)
    return done.stdout.replace("\n", " ") + done.stderr


def asks(edge: Selvedge, count: int, method: str = "GET") -> Counter:
    """Who answers requests of HTTP/1.1 over one connection."""
    connection = http.client.HTTPConnection(address(edge), 80, timeout=PATIENCE_S)
    seen = Counter()
    for _ in range(count):
        connection.request(method, "/")
        seen[connection.getresponse().read().decode().strip()] += 1
    connection.close()
    return seen


def both(edge: Selvedge) -> tuple[Endpoint, Endpoint]:
    """Two endpoints of the service, which both have requests."""
    one, two = Endpoint(edge, "one"), Endpoint(edge, "two")
    service(edge, LOGGED, "selvedge.dev/balance: round-robin")
    wait_until(lambda: len(asks(edge, 2)) == 2)
    return one, two


@pytest.mark.parametrize("how", ["refuse", "leave"])
def test_what_an_endpoint_says_that_it_has_not_looked_at_goes_to_another_whatever_its_method(edge, how):
    one, two = both(edge)
    before = one.seen()
    one.does(how)
    # Its connections are kept, and made anew.
    assert [curl(edge, "-d", "a body") for _ in range(6)] == ["two 200"] * 6
    assert one.seen() == before
    two.does(how)
    assert re.fullmatch(r".*did not answer.* 50[23]", curl(edge, "-d", "a body"))
    for endpoint in (one, two):
        endpoint.stops(how)
    assert "200" in curl(edge, "-d", "a body")


def test_what_somebody_may_have_seen_is_asked_again_no_more_often_than_the_service_says(edge):
    one, _two = both(edge)
    before = one.seen()
    one.does("drop")
    assert asks(edge, 6) == {"two": 6}
    assert one.seen() > before
    service(edge, LOGGED, "selvedge.dev/balance: round-robin", 'selvedge.dev/retries: "0"')
    wait_until(lambda: any("did not answer as HTTP has it" in answer for answer in asks(edge, 2)))
    one.stops("drop")
    wait_until(lambda: asks(edge, 4) == {"one": 2, "two": 2})


def test_an_endpoint_that_is_not_ready_any_more_takes_no_request_and_ends_what_is_under_way(edge):
    one, two = both(edge)
    with Http2(address(edge)) as caller:
        one.does("hold")
        two.does("hold")
        before = one.seen(), two.seen()
        under_way = [caller.asks(), caller.asks()]
        wait_until(lambda: (one.seen(), two.seen()) == (before[0] + 1, before[1] + 1))
        one.stops("ready")
        two.stops("hold")
        wait_until(lambda: deployment(edge, "one")["ready"] == 0)
        wait_until(lambda: [curl(edge, "-m", "1") for _ in range(3)] == ["two 200"] * 3)
        seen = one.seen()
        assert {caller.answer(caller.asks()) for _ in range(6)} == {b"two\n"}
        assert one.seen() == seen
        one.stops("hold")
        assert {caller.answer(number) for number in under_way} == {b"one\n", b"two\n"}


def test_callers_by_http2_are_told_that_a_service_is_gone_and_that_the_edge_stops_and_have_their_answers(edge):
    one, _two = both(edge)
    with Http2(address(edge)) as caller:
        assert caller.answer(caller.asks()) in (b"one\n", b"two\n")
        edge.run("delete", "service", "web")
        assert caller.frame(GOAWAY)
        caller.ends()
    service(edge, LOGGED)
    edge.run("delete", "deployment", "two")
    wait_until(lambda: asks(edge, 3) == {"one": 3})
    kept = http.client.HTTPConnection(address(edge), 80, timeout=PATIENCE_S)
    kept.request("GET", "/")
    assert kept.getresponse().read() == b"one\n"
    with Http2(address(edge)) as caller:
        assert caller.answer(caller.asks()) == b"one\n"
        one.does("hold")
        seen = one.seen()
        under_way = caller.asks()
        wait_until(lambda: one.seen() == seen + 1)
        edge.signal(signal.SIGTERM)
        assert caller.frame(GOAWAY)
        # What nobody needs is over at once.
        assert kept.sock.recv(1) == b""
        assert edge.alive()
        one.stops("hold")
        assert caller.answer(under_way) == b"one\n"
        caller.ends()
    assert edge.process.wait(PATIENCE_S) == 0


def test_an_endpoint_that_has_just_become_ready_has_few_requests_where_the_service_starts_slowly(edge):
    old, new = Endpoint(edge, "old"), Endpoint(edge, "new")
    slow = "selvedge.dev/slow-start: 10m"
    service(edge, slow)
    # Those that were there before anybody asked are no newer than each other.
    wait_until(lambda: len(asks(edge, 2)) == 2)
    assert asks(edge, 100)["new"] == 50
    new.stops("ready")
    wait_until(lambda: asks(edge, 3) == {"old": 3})
    new.does("ready")
    wait_until(lambda: asks(edge, 100)["new"] > 0)
    assert 0 < asks(edge, 400)["new"] < 100
    old.stops("ready")
    wait_until(lambda: asks(edge, 3) == {"new": 3})


def test_who_has_no_answer_in_the_time_that_the_service_sets_is_told_so_and_that_is_counted(edge):
    one = Endpoint(edge, "one")
    service(edge, "selvedge.dev/timeout: 400ms")
    wait_until(lambda: asks(edge, 1) == {"one": 1})
    one.does("hold")
    assert curl(edge) == "web did not answer in the 400ms that it sets 504"
    connection = http.client.HTTPConnection(address(edge), 80, timeout=PATIENCE_S)
    connection.request("POST", "/", body="a body")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (504, b"web did not answer in the 400ms that it sets\n")
    call = ("-H", "content-type: application/grpc", "-H", "grpc-timeout: 100m", "-d", "", "-D", "-")
    called = curl(edge, *call)
    assert "grpc-status: 4" in called and "100ms that who asks sets" in called
    late = [metric(edge, "service_late_total", service="web", reason=reason) for reason in ("service", "caller")]
    assert late == [2, 1]
    one.stops("hold")
    assert curl(edge) == "one 200"


def test_each_request_has_one_line_of_the_log_whatever_it_says(edge):
    Endpoint(edge, "one")
    service(edge, LOGGED)
    wait_until(lambda: asks(edge, 1) == {"one": 1})
    assert curl(edge, path="/a%0Ab?secret=1") == "one 200"
    edge.said("%0Ab")
    hostile = b"/\xc2\x85\xe2\x80\xa8\xc2\x9b31m\"' tenant=other"
    with socket.create_connection((address(edge), 80), timeout=PATIENCE_S) as stream:
        stream.sendall(b"GET /long" + b"x" * 5_000 + b" HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")
        assert stream.recv(100).startswith(b"HTTP/1.1 200 ")
    for path in (hostile.replace(b" ", b""), b"/\x1b[31m", b"/\rA"):
        with socket.create_connection((address(edge), 80), timeout=PATIENCE_S) as stream:
            stream.sendall(b"G!T " + path + b" HTTP/1.1\r\nHost: web\r\nX-Own: secret\r\nConnection: close\r\n\r\n")
            stream.recv(100)
    edge.said("/long")
    curl(edge, "-X", "DELETE", path="/last")
    lines = [line for line in edge.said("/last").splitlines() if " access: " in line]
    first = next(line for line in lines if "%0Ab" in line)
    assert re.search(
        r' INFO access: tenant="default" service="web" port=80 method="GET" path="/a%0Ab" status=200 bytes=4 '
        r"took_ms=[0-9.]+ endpoint=127\.0\.0\.1:\d+ tries=1$",
        first,
    ), first
    assert all(re.match(r"\S+Z  INFO access: tenant=\"default\" service=\"web\" ", line) for line in lines)
    assert max(map(len, lines)) < 2_000 and 'method="DELETE" path="/last" status=200' in lines[-1]
    said = edge.log.read_bytes()
    assert b"secret" not in said and b"\x1b" not in said and b"\xe2\x80\xa8" not in said and b"\xc2\x9b" not in said
    before = len(lines)
    service(edge, "selvedge.dev/timeout: 10s")
    wait_until(lambda: asks(edge, 1) == {"one": 1})
    assert edge.log.read_text().count(" access: ") <= before + 1


def test_what_nobody_at_another_node_has_looked_at_goes_on_and_what_is_late_there_does_not(site):  # noqa: F811
    here, there = site("here", "there")
    near, far = Endpoint(here, "near"), Endpoint(there, "far")
    for node in (here, there):
        service(node, LOGGED, "selvedge.dev/balance: round-robin")
    wait_until(lambda: len(asks(here, 4)) == 2)
    seen = far.seen()
    far.does("refuse")
    assert [curl(here, "-d", "a body") for _ in range(6)] == ["near 200"] * 6
    assert far.seen() == seen
    here.said('node="there" spilled="policy" tries=1')
    there.said('from="here" endpoint=')
    far.stops("refuse")
    near.stops("ready")
    wait_until(lambda: asks(here, 3) == {"far": 3})
    service(there, "selvedge.dev/timeout: 300ms")
    wait_until(lambda: curl(here) == "far 200")
    far.does("hold")
    assert curl(here) == "there: it did not answer in the time that its service sets there 504"
    assert metric(there, "service_late_total", service="web", reason="service") == 1


ECHO = "mkdir -p /www/cgi-bin; printf '#!/bin/sh\\necho; cat\\n' > /www/cgi-bin/echo; chmod 755 /www/cgi-bin/echo; "


# What a kernel says to the first bytes of a connection that it let be made, and had no room for.
FORGETS = """add table inet full; add chain inet full in {type filter hook input priority 0;};
add rule inet full in tcp dport 8080 meta length > 80 counter reject with tcp reset"""


def test_what_has_not_come_to_a_server_that_was_woken_and_had_no_room_is_made_anew_whatever_it_is(start):
    with ending(start(http=True)) as edge:
        edge.runtime = "oci"
        build(edge, "box:1", files=with_bash())
        asleep = sleeper("web", ECHO + "sleep 1; exec httpd -f -p 8080 -h /www", PORTS.take(), idle="60s")
        asleep = asleep.replace("{app: web}", "{app: web, is: web}")
        apply(
            edge, asleep.replace("containerPort: 8080,", "name: web, containerPort: 8080,") + "---\n" + manifest(LOGGED)
        )
        wait_until(lambda: sleeps(edge, "web"))
        at = address(edge)

        def posts(number: int) -> tuple[int, bytes]:
            connection = http.client.HTTPConnection(at, 80, timeout=3 * PATIENCE_S)
            connection.request("POST", "/cgi-bin/echo", body=f"{number}")
            answer = connection.getresponse()
            return answer.status, answer.read()

        def within(*words: str) -> str:
            command = ["nsenter", "-t", str(Host(edge).pids()[0]), "-n", "nft", *words]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        with ThreadPoolExecutor(20) as threads:
            answers = [threads.submit(posts, number) for number in range(20)]
            wait_until(lambda: Host(edge).pids() != [])
            within(FORGETS)
            wait_until(lambda: "packets 0 " not in within("list", "table", "inet", "full"))
            within("delete", "table", "inet", "full")
            assert [answer.result() for answer in answers] == [(200, b"%d" % number) for number in range(20)]


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        ("selvedge.dev/timeout: soon", '"soon" is no time; one is 500ms, 10s or 5m'),
        ("selvedge.dev/slow-start: 1h", '"1h" is not from 0 ms to 900 s'),
        ('selvedge.dev/retries: "-1"', '"-1" is no number from 0 to 10'),
        ("selvedge.dev/access-log: often", '"often" is neither true nor false'),
        ("selvedge.dev/acess-log: often", "is nothing that is read here"),
    ],
)
def test_annotations_of_services_that_are_wrong_are_refused_with_their_line(broker, annotation, said):
    refused = apply(broker, manifest(annotation), check=False)
    name = annotation.split(":")[0]
    assert refused.returncode != 0 and said in refused.stderr and f"metadata.annotations.{name}" in refused.stderr
    assert re.search(r"app\.yaml:\d+", refused.stderr)


def test_what_only_requests_of_http_have_is_refused_where_the_port_says_that_it_speaks_something_else(broker):
    text = manifest("selvedge.dev/timeout: 10s", port=", appProtocol: mysql")
    refused = apply(broker, text, check=False)
    assert "is of requests of HTTP alone, and appProtocol says mysql" in refused.stderr
