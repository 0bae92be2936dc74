"""The keys that tokens are signed with: replaced by a command, by the API and by age; what was signed goes on."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from datetime import UTC, datetime

import pytest

from brokers import BINARY, ENVIRONMENT, Settings
from http_api import Api
from plants import DAY_S
from registered import device, is_let_in, opened
from sites import PASSWORD, Cloud, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud", "key")]


def cloud_with(directory, **settings: object) -> Cloud:
    """A cloud that runs."""
    made = Cloud(directory / "cloud", Settings(anonymous=False, **settings))
    made.directory.mkdir()
    return made.start()


@pytest.fixture
def cloud(tmp_path):
    """A cloud."""
    made = cloud_with(tmp_path)
    yield made
    made.stop()


def token_of(node, name: str = "pump-7", *words: str) -> str:
    """One more token for a device, which is added if it is not there."""
    if device(node, name) is None:
        return json.loads(node.run("device", "add", name, "--token", *words, "--output", "json").stdout)[0]["issued"][
            "token"
        ]
    said = node.run("device", "credential", "add", name, "--token", *words, "--output", "json").stdout
    return json.loads(said)["issued"]["token"]


def part(token: str, number: int) -> dict:
    """Header or claims."""
    text = token.split(".")[number]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def signer(token: str) -> str:
    """The key that signed it."""
    return part(token, 0)["kid"]


def keys(node) -> list[dict]:
    """As operators see them."""
    return json.loads(node.run("key", "list", "--output", "json").stdout)


def as_admin(cloud: Cloud) -> Api:
    """A new login."""
    return Api(cloud).log_in("admin", (cloud.data / "admin.password").read_text().strip())


def audited(node, event: str) -> list[dict]:
    """Lines of the audit log."""
    lines = [json.loads(line) for line in (node.data / "audit.log").read_text().splitlines()]
    return [line for line in lines if line["event"] == event]


@pytest.mark.machine("faketime")
def test_a_token_is_good_until_it_ends_though_the_key_is_another_and_the_key_goes_with_it(tmp_path, clock):
    """Through kill -9 and a restart; what is signed after the rotation is signed by the new key."""
    cloud = cloud_with(tmp_path, environment=clock.environment)
    try:
        old = token_of(cloud, "pump-7", "--valid-days", "1")
        admin = as_admin(cloud)
        status, rotated = admin.ask("POST", "/v1/token-keys", {})
        assert status == 201 and admin.ask("GET", "/v1/token-keys") == (200, rotated)
        first, second = rotated["items"]
        new = token_of(cloud)
        assert (signer(old), signer(new)) == (second["id"], first["id"]) and first["until"] is None
        end = datetime.fromtimestamp(part(old, 1)["exp"], UTC)
        assert datetime.fromisoformat(second["until"]) == end, "for as long as the last token that it signed"
        for _ in range(2):
            assert is_let_in(cloud, old, "pump-7") and is_let_in(cloud, new, "pump-7")
            # Of a user, who logged in before.
            assert admin.ask("GET", "/v1/tenants")[0] == 200
            cloud.kill()
            cloud.start()
        clock.set(DAY_S + 60)
        assert not is_let_in(cloud, old, "pump-7") and is_let_in(cloud, new, "pump-7")
        wait_until(lambda: f'signed by key \\"{signer(old)}\\"' in (cloud.data / "audit.log").read_text())
        assert [key["id"] for key in keys(cloud)] == [first["id"]]
        assert admin.ask("GET", "/v1/tenants")[0] == 401
        assert as_admin(cloud).ask("GET", "/v1/tenants")[0] == 200
    finally:
        cloud.stop()


def test_where_a_key_got_out_all_tokens_end_at_once_and_so_do_their_connections(cloud):
    """A login goes on by its refresh token, which no key has signed."""
    old = token_of(cloud)
    cloud.run("device", "add", "valve-1", "--password", PASSWORD)
    inside, beside = opened(cloud, old, "pump-7"), opened(cloud, PASSWORD, "valve-1")
    password = (cloud.data / "admin.password").read_text().strip()
    _, tokens = Api(cloud).ask("POST", "/v1/login", {"user": "admin", "password": password})
    admin = Api(cloud, f"Bearer {tokens['access_token']}")
    said = cloud.run("key", "rotate", "--at-once").stdout
    assert "worthless" in said and "selvedge device credential add" in said
    inside.ended.result(10)
    beside.publish("devices/valve-1/telemetry", b"1", qos=1)
    beside.disconnect()
    cloud.kill()
    cloud.start()
    assert not is_let_in(cloud, old, "pump-7") and is_let_in(cloud, token_of(cloud), "pump-7")
    assert admin.ask("GET", "/v1/tenants")[0] == 401
    status, tokens = admin.ask("POST", "/v1/refresh", {"refresh_token": tokens["refresh_token"]})
    assert status == 200
    assert Api(cloud, f"Bearer {tokens['access_token']}").ask("GET", "/v1/tenants")[0] == 200
    assert len(keys(cloud)) == 1


def test_only_an_admin_of_the_whole_cloud_replaces_a_key_and_the_audit_log_says_who_did(cloud):
    """Others do not even see them."""
    cloud.run("user", "add", "anna", "--role", "operator", "--password", PASSWORD)
    cloud.run("user", "add", "default/otto", "--role", "admin", "--password", PASSWORD)
    for user in ("anna", "default/otto"):
        one = Api(cloud).log_in(user, PASSWORD)
        assert [one.ask(method, "/v1/token-keys", {})[0] for method in ("GET", "POST")] == [403, 403]
    assert Api(cloud).ask("POST", "/v1/token-keys", {})[0] == 401
    assert as_admin(cloud).ask("POST", "/v1/token-keys", {"at_onc": True})[0] == 422
    assert len(keys(cloud)) == 1 and audited(cloud, "token_key") == []
    assert as_admin(cloud).ask("POST", "/v1/token-keys", {})[0] == 201
    cloud.run("key", "rotate", "--at-once")
    lines = audited(cloud, "token_key")
    assert [(line["by"], line["ends_others"]) for line in lines] == [("admin", False), ("operator", True)]
    assert [key["id"] for key in keys(cloud)] == [lines[1]["key"]]


def test_a_rotation_that_is_killed_is_made_or_not_and_ends_no_token(cloud):
    """At any instant there is one key that signs."""
    old = token_of(cloud)
    for number in range(10):
        words = [BINARY, "key", "rotate", "--data", str(cloud.data)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT) as rotating:
            time.sleep(0.004 * number)  # The instant of the kill is what is tested.
            cloud.kill()
            rotating.wait(30)
        cloud.start()
        assert [key["until"] for key in keys(cloud)].count(None) == 1
        assert is_let_in(cloud, old, "pump-7") and is_let_in(cloud, token_of(cloud), "pump-7")


def test_no_rotation_ends_a_token_for_want_of_room(cloud):
    """Fifteen earlier keys are kept while they are needed; one rotation more is refused until then."""
    old = token_of(cloud)
    for _ in range(15):
        cloud.run("key", "rotate")
    refused = cloud.run("key", "rotate", check=False)
    assert refused.returncode == 1 and "15 earlier keys still verify tokens" in refused.stderr
    assert as_admin(cloud).ask("POST", "/v1/token-keys", {})[0] == 409
    assert is_let_in(cloud, old, "pump-7")
    cloud.run("key", "rotate", "--at-once")
    assert len(keys(cloud)) == 1


def test_the_key_of_a_stopped_edge_is_replaced(start):
    """And what it signed stays good."""
    own = start(anonymous=False)
    old = token_of(own)
    own.stop()
    own.run("key", "rotate")
    own.start()
    assert len(keys(own)) == 2 and is_let_in(own, old, "pump-7")
    assert signer(token_of(own)) != signer(old)


@pytest.mark.machine("faketime")
@pytest.mark.parametrize("is_kept", [False, True], ids=["ninety-days", "never"])
def test_a_key_is_replaced_by_itself_once_it_has_its_age_unless_that_is_turned_off(start, clock, is_kept):
    """Tokens that it signed stay good."""
    configuration = "[tokens]\nkey_days = 0\n" if is_kept else ""
    own = start(anonymous=False, environment=clock.environment, configuration=configuration)
    old = token_of(own)
    clock.set(89 * DAY_S)
    own.stop()
    own.start()
    assert [key["id"] for key in keys(own)] == [signer(old)]
    clock.set(91 * DAY_S)
    own.stop()
    own.start()
    assert is_let_in(own, old, "pump-7")
    if is_kept:
        assert [key["id"] for key in keys(own)] == [signer(old)]
        return
    wait_until(lambda: len(keys(own)) == 2)
    assert signer(token_of(own)) != signer(old)
    assert [line["by"] for line in audited(own, "token_key")] == ["its age"]


def test_an_edge_that_is_linked_hears_of_a_new_key_at_once_and_lets_in_by_both_without_the_cloud(site):
    """Tokens of the cloud open the edge: those from before and those from after."""
    one = site()
    said = one.cloud.run("device", "add", "valve-1", "--edge", "hall-1", "--token", "--output", "json").stdout
    old = json.loads(said)[0]["issued"]["token"]
    wait_until(lambda: device(one.edge) is not None)
    assert is_let_in(one.edge, old)
    since_s = one.edge.link()["since_s"]
    one.cloud.run("key", "rotate")
    new = token_of(one.cloud, "valve-1")
    assert signer(new) != signer(old)
    wait_until(lambda: is_let_in(one.edge, new))
    assert one.edge.link()["since_s"] >= since_s, "it did not have to connect again"
    one.cloud.kill()
    one.edge.kill()
    one.edge.start()
    assert is_let_in(one.edge, old) and is_let_in(one.edge, new)
    inside = opened(one.edge, new)
    one.cloud.start()
    one.edge.is_connected(60)
    one.cloud.run("key", "rotate", "--at-once")
    inside.ended.result(10)
    assert not is_let_in(one.edge, old) and not is_let_in(one.edge, new)
    last = token_of(one.cloud, "valve-1")
    wait_until(lambda: is_let_in(one.edge, last))
