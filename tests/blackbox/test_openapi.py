"""The document of the API is kept by what is served: by a cloud and an edge, to each who may ask."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import machine
from brokers import Selvedge
from http_api import Api
from sites import PASSWORD

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "user")]

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# What is live does not end: test_live.py. The others would end the login that asks, whose name it takes from a list.
ENDING = ["log_out", "rotate_token_keys", "set_cloud_user_password", "change_cloud_user", "remove_cloud_user"]
LEFT_OUT = ["--exclude-tag", "live", *(word for name in ENDING for word in ("--exclude-operation-id", name))]
# The routes are one code for all who ask: every limit of every field is asked for once, as the admin of a cloud.
BRIEFLY = ["--phases", "fuzzing", "--max-examples", "4"]


def is_kept(node: Selvedge, asks: Api, directory: Path, *words: str) -> None:
    """schemathesis asks each route with what fits and what does not."""
    program = Path(sys.executable).with_name("st")
    if not program.exists():
        machine.lacking("schemathesis is not installed: tools/install.sh python")
    address = f"http://127.0.0.1:{node.http_port}"
    command = [str(program), "run", f"{address}/v1/openapi.json", "--url", address, "--seed", "1", "--no-color"]
    command += ["--header", f"Authorization: {asks.authorization}", "--request-timeout", "10", "--checks", CHECKS]
    command += ["--max-failures", "20"]
    ran = subprocess.run(
        [*command, *LEFT_OUT, *words],
        cwd=directory,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert node.alive()


def user(node: Selvedge, role: str) -> Api:
    """Of the whole cloud, or of the edge."""
    node.run("user", "add", "anna", "--role", role, "--password", PASSWORD)
    return Api(node).log_in("anna", PASSWORD)


def test_to_an_admin_of_a_cloud(cloud, tmp_path):
    """All of it."""
    admin = user(cloud, "admin")
    is_kept(cloud, admin, tmp_path, "--phases", "examples,coverage,fuzzing", "--max-examples", "4")
    assert admin.ask("GET", "/v1/users")[0] == 200


def test_to_a_viewer_of_a_cloud(cloud, tmp_path):
    """Most of it is refused, and in words that the document knows."""
    viewer = user(cloud, "viewer")
    is_kept(cloud, viewer, tmp_path, *BRIEFLY)
    assert viewer.ask("GET", "/v1/tenants")[0] == 200 and viewer.ask("GET", "/v1/users")[0] == 403


def test_to_a_device(cloud, tmp_path):
    """Which posts what it likes, and is nobody elsewhere."""
    cloud.run("device", "add", "pump-7", "--password", PASSWORD)
    pump = Api(cloud).basic("pump-7", PASSWORD)
    # Who fails to log in again and again waits, and so would the device.
    is_kept(cloud, pump, tmp_path, *BRIEFLY, "--exclude-tag", "logins", "--exclude-tag", "enrolment")
    assert pump.ask("POST", "/v1/devices/pump-7/telemetry", {"n": 1})[0] == 204


def test_to_an_admin_of_an_edge(start, tmp_path):
    """Where there is no database, no enrolment, and nobody's edges."""
    edge = start(anonymous=False, http=True)
    admin = user(edge, "admin")
    is_kept(edge, admin, tmp_path, *BRIEFLY)
    assert admin.ask("GET", "/v1/users")[0] == 200
