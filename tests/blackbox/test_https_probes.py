"""Probes by HTTPS, asked of a real nginx whose certificate nobody else would believe."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from applications import Host, application, apply, deployment, ending, runs
from brokers import PORTS, Selvedge
from sites import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

# Who asks for no name, or another one, is not spoken to.
CONFIG = """\
user root;
daemon off;
worker_processes 1;
pid {place}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log off;
  client_body_temp_path {place};
  proxy_temp_path {place};
  fastcgi_temp_path {place};
  uwsgi_temp_path {place};
  scgi_temp_path {place};
  server {{
    listen 127.0.0.1:{by_tls} ssl default_server;
    ssl_reject_handshake on;
  }}
  server {{
    listen 127.0.0.1:{by_tls} ssl;
    server_name site.example;
    ssl_certificate {place}/certificate.pem;
    ssl_certificate_key {place}/key.pem;
    if (-f {place}/ill) {{ return 500; }}
    return 200;
  }}
  server {{
    listen 127.0.0.1:{in_the_clear};
    return 200;
  }}
}}
"""
NAMED = "httpHeaders: [{name: Host, value: site.example}]"


class Server:
    """nginx, as an application of the edge."""

    def __init__(self, edge: Selvedge):
        self.edge = edge
        self.by_tls, self.in_the_clear = PORTS.take(), PORTS.take()
        self.ill = edge.directory / "ill"
        place = edge.directory
        signs = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=another"
        files = ["-keyout", str(place / "key.pem"), "-out", str(place / "certificate.pem")]
        subprocess.run([*signs.split(), *files], check=True, capture_output=True)
        config = CONFIG.format(place=place, by_tls=self.by_tls, in_the_clear=self.in_the_clear)
        (place / "nginx.conf").write_text(config)

    def apply(self, probe: str, port: int, more: str = "") -> None:
        """Has it asked so."""
        asked = f"scheme: HTTPS, port: {port}" + (f", {more}" if more else "")
        probe = f", {probe}: {{periodSeconds: 1, failureThreshold: 4, httpGet: {{{asked}}}}}"
        script = f"exec /usr/sbin/nginx -c {self.edge.directory}/nginx.conf"
        apply(self.edge, application("site", script, probe))

    def is_not_ready(self, why: str) -> bool:
        """Whether it runs and is not ready, and that is said to be why."""
        one = deployment(self.edge, "site")
        return one["ready"] == 0 and any(why in (each["not_ready"] or "") for each in one["containers"])

    def unhealthy(self) -> list[str]:
        """Why it was ended."""
        events = json.loads(self.edge.run("events", "site", "--output", "json").stdout)
        return [event["message"] for event in events if event["what"] == "unhealthy"]


@pytest.fixture
def server(start) -> Iterator[Server]:
    """On an edge of the test's own."""
    with ending(start()) as edge:
        yield Server(edge)


def test_it_is_ready_while_it_answers_well_by_tls_whatever_its_certificate(server):
    server.ill.touch()
    server.apply("readinessProbe", server.by_tls, NAMED)
    wait_until(lambda: server.is_not_ready("/ answers with 500"))
    server.ill.unlink()
    runs(server.edge, "site")
    before = Host(server.edge).pids()
    server.ill.touch()
    wait_until(lambda: server.is_not_ready("/ answers with 500"))
    assert Host(server.edge).pids() == before


def test_it_is_asked_by_the_name_of_its_host_header_and_by_none_where_there_is_none(server):
    server.apply("readinessProbe", server.by_tls)
    wait_until(lambda: server.is_not_ready(f"port {server.by_tls}: TLS: "))
    server.apply("readinessProbe", server.by_tls, NAMED.replace("example", "example:8443"))
    runs(server.edge, "site")


@pytest.mark.parametrize("probe", ["startupProbe", "livenessProbe"])
def test_what_does_not_speak_tls_is_said_in_events(server, probe):
    server.apply(probe, server.in_the_clear)
    words = f"port {server.in_the_clear}: what answers there does not speak TLS; leave scheme: HTTPS out"
    wait_until(lambda: any(words in message for message in server.unhealthy()))
