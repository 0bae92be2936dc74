"""The HTTP API of a cloud: who may ask what, and what comes back."""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import json
import re
import socket
import stat
import time

import pytest

from http_api import Api
from paho_client import Client
from raw import PATIENCE_S
from sites import PASSWORD

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "user")]

TELEMETRY = "/v1/tenants/default/devices/pump-7/telemetry"


@pytest.fixture
def admin(cloud):
    """The user that the first start made."""
    return Api(cloud).log_in("admin", (cloud.data / "admin.password").read_text().strip())


def test_the_first_start_leaves_the_password_of_an_admin_to_its_owner_alone(cloud, admin):
    """And later starts leave it as it is."""
    path = cloud.data / "admin.password"
    before = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert admin.ask("GET", "/v1/tenants")[0] == 200
    cloud.stop()
    cloud.start()
    assert path.read_text() == before
    # The key that signed is in the registry, and so is the login.
    assert admin.ask("GET", "/v1/tenants")[0] == 200


def test_users_are_added_listed_given_passwords_and_removed_by_commands(cloud):
    """Each takes effect at once."""
    cloud.run("tenant", "add", "acme")
    added = json.loads(cloud.run("user", "add", "acme/anna", "--role", "viewer", "--output", "json").stdout)
    anna = Api(cloud).log_in("acme/anna", added["password"])
    assert anna.ask("GET", "/v1/tenants/acme/devices") == (200, {"items": [], "has_more": False})
    assert "acme/anna" in cloud.run("user", "list", "--tenant", "acme").stdout
    assert "admin" in cloud.run("user", "list").stdout
    cloud.run("user", "rotate", "acme/anna", "--password", PASSWORD)
    assert anna.ask("GET", "/v1/tenants/acme/devices")[0] == 401
    anna = Api(cloud).log_in("acme/anna", PASSWORD)
    cloud.run("user", "remove", "acme/anna")
    assert anna.ask("GET", "/v1/tenants/acme/devices")[0] == 401
    assert "no user" in cloud.run("user", "remove", "acme/anna", check=False).stderr


def test_another_role_of_a_user_holds_from_its_next_request_on(cloud, admin):
    """By command and by the API; its login goes on. Nobody gives itself one."""
    cloud.run("tenant", "add", "acme")
    cloud.run("user", "add", "acme/anna", "--role", "viewer", "--password", PASSWORD)
    anna = Api(cloud).log_in("acme/anna", PASSWORD)
    label = ("PATCH", "/v1/tenants/acme/devices/pump-7", {"labels": {"kind": "pump"}})
    path = "/v1/tenants/acme/users/anna"
    assert anna.ask(*label)[0] == 403 and anna.ask("PATCH", path, {"role": "admin"})[0] == 403
    assert "acme/anna is an operator" in cloud.run("user", "set", "acme/anna", "--role", "operator").stdout
    assert anna.ask(*label)[0] == 404 and anna.ask("PATCH", path, {"role": "admin"})[0] == 403
    status, changed = admin.ask("PATCH", path, {"role": "viewer"})
    assert (status, changed["user"], changed["role"]) == (200, "acme/anna", "viewer")
    assert anna.ask(*label)[0] == 403
    assert admin.ask("PATCH", path, {"role": "root"})[0] in (400, 422)
    assert admin.ask("PATCH", "/v1/users/nobody", {"role": "viewer"})[0] == 404
    assert "no user" in cloud.run("user", "set", "acme/otto", "--role", "viewer", check=False).stderr
    cloud.run("user", "add", "olga", "--role", "admin", "--password", PASSWORD)
    olga = Api(cloud).log_in("olga", PASSWORD)
    assert olga.ask("PATCH", "/v1/users/olga", {"role": "viewer"})[0] == 200
    assert olga.ask("PATCH", "/v1/users/olga", {"role": "admin"})[0] == 403
    audit = [json.loads(line) for line in (cloud.data / "audit.log").read_text().splitlines()]
    assert "role of user, now operator" in [line.get("what") for line in audit]


def test_a_login_is_gone_on_with_until_it_is_ended(cloud):
    """A refresh token is good once; logging out ends both tokens."""
    api = Api(cloud)
    password = (cloud.data / "admin.password").read_text().strip()
    _, first = api.ask("POST", "/v1/login", {"user": "admin", "password": password})
    assert first["expires_in_s"] == 900
    _, second = api.ask("POST", "/v1/refresh", {"refresh_token": first["refresh_token"]})
    user = Api(cloud, f"Bearer {second['access_token']}")
    assert user.ask("GET", "/v1/users")[0] == 200
    assert user.ask("POST", "/v1/logout") == (204, None)
    assert user.ask("GET", "/v1/users")[0] == 401
    assert api.ask("POST", "/v1/refresh", {"refresh_token": second["refresh_token"]})[0] == 401


def test_who_fails_to_log_in_again_and_again_waits(cloud):
    """Even with the right password, and another user does not."""
    api = Api(cloud)
    cloud.run("user", "add", "anna", "--role", "viewer", "--password", PASSWORD)
    wrong = [api.ask("POST", "/v1/login", {"user": "anna", "password": "wrong"})[0] for _ in range(7)]
    assert wrong[:6] == [401] * 6 and wrong[6] == 429
    assert api.ask("POST", "/v1/login", {"user": "anna", "password": PASSWORD})[0] == 429
    password = (cloud.data / "admin.password").read_text().strip()
    assert api.ask("POST", "/v1/login", {"user": "admin", "password": password})[0] == 200


def test_what_a_user_does_is_in_the_audit_log_under_its_name(cloud, admin):
    """Whoever it is."""
    add = {"ids": ["pump-7"], "credential": "generated_password"}
    assert admin.ask("POST", "/v1/tenants/default/devices", add)[0] == 201
    cloud.run("device", "add", "pump-8")
    lines = [json.loads(line) for line in (cloud.data / "audit.log").read_text().splitlines()]
    by = {line["id"]: line["by"] for line in lines if line.get("event") == "credential"}
    assert (by["pump-7"], by["pump-8"]) == ("admin", "operator")


@pytest.fixture
def pump(cloud):
    """A device that may post."""
    cloud.run("device", "add", "pump-7", "--password", PASSWORD)
    return Api(cloud).basic("pump-7", PASSWORD)


def has_points(user: Api, stream: str, count: int, query: str = "") -> list[dict]:
    """The points, once there are as many."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        status, said = user.ask("GET", f"{TELEMETRY}/{stream}{query}")
        assert status == 200, said
        if len(said["points"]) >= count:
            return said["points"]
        assert time.monotonic() < deadline, f"{said}:\n{user.node.tail()}"
        time.sleep(0.05)  # A database gives no event when it grows.


def test_what_devices_say_is_asked_for_by_stream_and_time(cloud, admin, pump):
    """By MQTT and by HTTP alike, in pages, in buckets, and the latest."""
    client = Client(cloud.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    for number in range(3):
        client.publish("devices/pump-7/telemetry", json.dumps({"n": number, "t": 1000 + number}), qos=1)
    client.disconnect()
    for number in range(3, 6):
        assert pump.ask("POST", TELEMETRY, {"n": number})[0] == 204
    points = has_points(admin, "n", 6)
    assert sorted(point["value"] for point in points) == list(range(6))
    _, first = admin.ask("GET", f"{TELEMETRY}/n?limit=4")
    _, second = admin.ask("GET", f"{TELEMETRY}/n?limit=4&cursor={first['next']}")
    assert first["points"] + second["points"] == points and second["next"] is None
    _, latest = admin.ask("GET", TELEMETRY)
    assert latest["streams"]["n"]["value"] == 5
    times = [point["time_ms"] for point in points]
    span = f"?from_ms={times[0]}&to_ms={times[-1] + 1}&bucket_ms={times[-1] - times[0] + 1}"
    _, said = admin.ask("GET", f"{TELEMETRY}/n{span}")
    assert [(bucket["count"], bucket["min"], bucket["max"]) for bucket in said["buckets"]] == [(6, 0.0, 5.0)]


def test_a_message_that_was_acknowledged_outlives_a_kill(cloud, admin, pump):
    """A post is acknowledged once it is as safe as a PUBLISH with QoS 1."""
    for number in range(20):
        assert pump.ask("POST", "/v1/devices/pump-7/telemetry", {"n": number})[0] == 204
    cloud.kill()
    cloud.start()
    assert {point["value"] for point in has_points(admin, "n", 20)} == set(range(20))


def test_a_device_posts_for_itself_alone_and_sees_nothing(cloud, admin, pump):
    """With its password or its token; no user's token will do."""
    cloud.run("tenant", "add", "acme")
    cloud.run("device", "add", "pump-8", "--password", PASSWORD)
    added = json.loads(cloud.run("device", "add", "pump-9", "--token", "--output", "json").stdout)
    token = Api(cloud, f"Bearer {added[0]['issued']['token']}")
    assert token.ask("POST", "/v1/devices/pump-9/telemetry", {"n": 1})[0] == 204
    for device in (pump, token):
        for path in (
            "/v1/devices/pump-8/telemetry",
            "/v1/tenants/default/devices/pump-8/telemetry",
            "/v1/tenants/acme/devices/pump-7/telemetry",
            "/v1/tenants/acme/devices/pump-9/telemetry",
        ):
            assert device.ask("POST", path, {"n": 1})[0] == 403, path
        assert device.ask("GET", TELEMETRY)[0] == 401
    for stranger in (Api(cloud), admin, pump.basic("pump-7", "wrong"), Api(cloud, "Basic x"), Api(cloud, "Bearer")):
        assert stranger.ask("POST", "/v1/devices/pump-7/telemetry", {"n": 1})[0] == 401


def test_posts_beyond_the_rate_of_the_tenant_are_refused(cloud, pump):
    """With a time to try again."""
    cloud.run("tenant", "set", "default", "--messages-per-s", "5")
    statuses = [pump.ask("POST", "/v1/devices/pump-7/telemetry", {"n": 1})[0] for _ in range(30)]
    assert statuses[0] == 204 and 429 in statuses and set(statuses) == {204, 429}


def test_another_tenants_user_sees_nothing_of_it(cloud, pump):
    """Neither readings nor twins nor methods."""
    cloud.run("tenant", "add", "acme")
    cloud.run("user", "add", "acme/anna", "--role", "admin", "--password", PASSWORD)
    assert pump.ask("POST", "/v1/devices/pump-7/telemetry", {"n": 1})[0] == 204
    anna = Api(cloud).log_in("acme/anna", PASSWORD)
    of_device = "/v1/tenants/default/devices/pump-7"
    for method, path in (
        ("GET", TELEMETRY),
        ("GET", f"{TELEMETRY}/n"),
        ("GET", f"{of_device}/twin"),
        ("PATCH", f"{of_device}/twin"),
        ("POST", f"{of_device}/methods/stop?timeout_ms=1000"),
    ):
        assert anna.ask(method, path, {})[0] == 404, (method, path)
    _, own = anna.ask("GET", "/v1/tenants/acme/devices/pump-7/telemetry")
    assert own == {"streams": {}, "next": None}


def test_twins_are_set_and_methods_called(cloud, admin, pump):
    """A device that is away is said to be."""
    path = "/v1/tenants/default/devices/pump-7"
    status, _ = admin.ask("PATCH", f"{path}/twin", {"interval_s": 10})
    assert status == 200
    status, twin = admin.ask("GET", f"{path}/twin")
    assert (status, twin["desired"]["interval_s"]) == (200, 10)
    status, result = admin.ask("POST", f"{path}/methods/stop?timeout_ms=500", {})
    assert status == 200 and result["status"] == 404, result


def test_a_call_has_five_seconds_unless_it_says_otherwise_in_words_that_are_understood(cloud, admin, pump):
    """As a call over MQTT has."""
    path = "/v1/tenants/default/devices/pump-7/methods/stop"
    device = Client(cloud.port, "pump-7", user="pump-7", password=PASSWORD).opened()
    device.subscribe("devices/pump-7/methods/+/+")
    began = time.monotonic()
    status, result = admin.ask("POST", path, {})
    assert (status, result["status"]) == (200, 504), result
    assert "within 5000 ms" in result["payload"]["message"] and time.monotonic() - began > 4.9
    device.disconnect()
    for wrong in ("0", "600001", "5s", "-1", "1.5", ""):
        status, said = admin.ask("POST", f"{path}?timeout_ms={wrong}", {})
        assert status == 400, said
        assert said["error"] == f'timeout_ms is "{wrong}"; it must be a whole number from 1 to 600000'
    status, said = admin.ask("POST", f"{path}?timeout=5", {})
    assert status == 400 and "timeout_ms" in said["error"]


def test_the_place_of_a_point_is_as_its_edge_wrote_it_for_readers_without_integers_of_64_bits(cloud, admin, pump):
    """JavaScript has 53 bits: a greater number would be another one."""
    assert pump.ask("POST", TELEMETRY, {"n": 1})[0] == 204
    (point,) = has_points(admin, "n", 1)
    ((epoch, sequence),) = cloud.rows("epoch, sequence")
    assert epoch > 1 << 53
    assert (point["epoch"], point["sequence"]) == (str(epoch), sequence)


def test_an_edge_that_was_added_is_listed_before_it_ever_connects(cloud, admin):
    """By the API and by the command."""
    cloud.run("tenant", "add", "acme")
    cloud.run("edge", "add", "hall-1")
    cloud.run("edge", "add", "hall-2", "--tenant", "acme")
    _, said = admin.ask("GET", "/v1/edges")
    assert [(edge["name"], edge["is_connected"]) for edge in said["items"]] == [
        ("acme/hall-2", False),
        ("hall-1", False),
    ]
    assert [edge["name"] for edge in cloud.edges()] == ["acme/hall-2", "hall-1"]
    assert "hall-1" in cloud.run("get", "edges").stdout


def paths_with(document: dict, values: dict[str, list[str]]):
    """Every method and path that is not open to all, with every combination of these for its parameters."""
    for template, operations in document["paths"].items():
        names = re.findall(r"{(\w+)}", template)
        for chosen in itertools.product(*(values[name] for name in names)):
            path = template
            for name, value in zip(names, chosen, strict=True):
                path = path.replace("{" + name + "}", value)
            for method in (name for name, operation in operations.items() if operation.get("security")):
                yield method.upper(), path


def test_no_route_gives_a_user_or_device_of_another_tenant_anything_of_this_one(cloud, admin):
    """Whatever of its ids it is asked with: never data, and nothing is changed."""
    cloud.run("tenant", "add", "acme")
    cloud.run("tenant", "add", "beta")
    cloud.run("device", "add", "secret-pump", "--tenant", "acme", "--password", PASSWORD)
    cloud.run("app", "add", "secret-app", "--tenant", "acme", "--password", PASSWORD)
    cloud.run("user", "add", "acme/secret-user", "--role", "viewer", "--password", PASSWORD)
    cloud.run("user", "add", "beta/mallory", "--role", "admin", "--password", PASSWORD)
    cloud.run("device", "add", "thief", "--tenant", "beta", "--password", PASSWORD)
    victim = Api(cloud).basic("acme/secret-pump", PASSWORD)
    assert victim.ask("POST", "/v1/devices/secret-pump/telemetry", {"secret": 1})[0] == 204
    assert admin.ask("PATCH", "/v1/tenants/acme/devices/secret-pump/twin", {"secret": 1})[0] == 200

    def of_acme() -> list:
        paths = ["/devices", "/apps", "/users", "/devices/secret-pump/credentials", "/devices/secret-pump/twin"]
        # What it uses at the moment changes by itself.
        quotas = admin.ask("GET", "/v1/tenants/acme")[1]["quotas"]
        return [quotas, *(admin.ask("GET", f"/v1/tenants/acme{path}") for path in paths)]

    before = of_acme()
    mallory, thief = Api(cloud).log_in("beta/mallory", PASSWORD), Api(cloud).basic("beta/thief", PASSWORD)
    _, document = Api(cloud).ask("GET", "/v1/openapi.json")
    ids = ["secret-pump", "secret-app"]
    values = {"tenant": ["acme", "beta"], "kinds": ["devices", "apps"], "id": ids, "name": ["secret-user", "stop"]}
    values |= {"stream": ["secret"], "credential": ["password"], "namespace": ["acme", "beta"], "kind": ["Route"]}
    tried = 0
    for method, path in paths_with(document, values):
        # The one would end the login, the other does not end.
        if path == "/v1/logout" or path.endswith("/telemetry/live"):
            continue
        for caller in (mallory, thief):
            status, said = caller.ask(method, path + ("?timeout_ms=100" if "/methods/" in path else ""), {})
            tried += 1
            if "/beta" not in path:
                assert status in {401, 403, 404}, (method, path, status, said)
            shown = {name: value for name, value in (said or {}).items() if name != "error"}
            assert "secret" not in json.dumps(shown), (method, path, said)
    assert tried > 150
    for query in ("", "?device=secret-pump", "?device=secret-pump&stream=secret"):
        assert mallory.ask("GET", f"/v1/tenants/acme/telemetry/live{query}")[0] == 404
    assert of_acme() == before


def read_all(connection: socket.socket) -> bytes:
    """All that is answered until the end."""
    answer = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(65536):
            answer += part
    return answer


def test_a_body_of_a_gigabyte_is_refused_by_its_length(cloud, admin):
    """Before a byte of it is read, and its memory is not taken."""
    for path, authorization in (("/v1/login", ""), ("/v1/apply", f"authorization: {admin.authorization}\r\n")):
        with socket.create_connection(("127.0.0.1", cloud.http_port), timeout=PATIENCE_S) as connection:
            head = f"POST {path} HTTP/1.1\r\nhost: x\r\n{authorization}content-type: application/json\r\n"
            connection.sendall(f"{head}content-length: 1073741824\r\n\r\n".encode())
            assert read_all(connection).startswith(b"HTTP/1.1 413 ")


def test_a_body_without_a_length_is_refused_once_it_is_too_long(cloud, admin):
    """However much more would come."""
    with socket.create_connection(("127.0.0.1", cloud.http_port), timeout=PATIENCE_S) as connection:
        head = f"POST /v1/apply HTTP/1.1\r\nhost: x\r\nauthorization: {admin.authorization}\r\n"
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n".encode())
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 1 << 30:
                connection.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                sent += 65536
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = read_all(connection)
        # Where the answer was overtaken by the reset there is none to read.
        assert not answer or answer.startswith(b"HTTP/1.1 413 ")
        assert sent < 1 << 26, f"{sent} bytes were taken"


def test_a_body_that_comes_slowly_is_not_waited_for(cloud):
    """Its sender is told so."""
    with socket.create_connection(("127.0.0.1", cloud.http_port), timeout=3 * PATIENCE_S) as connection:
        head = b"POST /v1/login HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
        connection.sendall(head + b"{")
        assert read_all(connection).startswith(b"HTTP/1.1 408 ")


def test_a_head_that_comes_slowly_is_not_waited_for(cloud):
    """A byte a second keeps no connection."""
    with socket.create_connection(("127.0.0.1", cloud.http_port), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(30):
                connection.sendall(b"x")
                connection.settimeout(1)
                with contextlib.suppress(TimeoutError):
                    if not connection.recv(4096).startswith(b"HTTP/1.1 2"):
                        return
        pytest.fail("a request of 30 s was waited for")


def test_logins_at_once_are_bounded_and_the_others_are_told_to_wait(cloud):
    """However many come: two passwords are checked at a time."""
    cloud.run("user", "add", "anna", "--role", "viewer", "--password", PASSWORD)
    before = cloud.rss_bytes()
    login = {"user": "anna", "password": PASSWORD}
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        asked = [pool.submit(Api(cloud).ask, "POST", "/v1/login", login) for _ in range(200)]
        statuses = {future.result()[0] for future in asked}
    assert 200 in statuses and statuses <= {200, 503}, statuses
    # A check takes 19 MiB; a hundred would take 1.9 GiB.
    assert cloud.rss_bytes() - before < 150 << 20
    assert Api(cloud).ask("POST", "/v1/login", login)[0] == 200
