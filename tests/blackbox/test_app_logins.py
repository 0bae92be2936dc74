"""What the edge gives its applications to log in by: their own, renewed in its place, and gone with them."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from applications import Host, application, apply, ending, runs, tag_of
from brokers import Selvedge
from credentials import Account, add
from paho_client import Client, Refused
from sites import wait_until
from test_images import build
from test_networks import pod, within

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

SLEEPS = "exec sleep 1000"
# A client that others wrote, told by nothing but what it is given.
SAYS = (
    'at=${SELVEDGE_MQTT_URL#mqtt://}; while :; do mosquitto_pub -h "${at%:*}" -p "${at##*:}" '
    '-u "$SELVEDGE_MQTT_USERNAME" -P "$(cat "$SELVEDGE_MQTT_TOKEN_FILE")" '
    '-q 1 -t "greetings/$SELVEDGE_MQTT_USERNAME" -m hello; sleep 0.2; done'
)


def with_client() -> dict[str, bytes]:
    """`mosquitto_pub` and all that it needs."""
    needs = subprocess.run(["ldd", "/usr/bin/mosquitto_pub"], capture_output=True, text=True, check=True).stdout
    files = [Path("/usr/bin/mosquitto_pub"), *(Path(word) for word in needs.split() if word.startswith("/"))]
    return {
        "bin/mosquitto_pub": files[0].read_bytes(),
        **{str(file).lstrip("/"): file.read_bytes() for file in files[1:]},
    }


@pytest.fixture(params=["process", "oci", "docker"])
def over_all(start, request) -> Iterator[Selvedge]:
    """An edge over each of what runs applications, whom nobody comes to without credentials."""
    engine = request.getfixturevalue("engine") if request.param == "docker" else None
    environment = {"DOCKER_HOST": f"unix://{engine.socket}"} if engine else {}
    with ending(start(environment=environment, anonymous=False)) as edge:
        edge.runtime = request.param
        if edge.runtime != "process":
            build(edge, "box:1", files=with_client())
        if engine:
            engine.take_in(edge.directory / "image")
        yield edge
    if engine:
        engine.clear()


@pytest.fixture
def own(start) -> Iterator[Selvedge]:
    """An edge over programs of the host."""
    with ending(start(anonymous=False)) as edge:
        edge.runtime = "process"
        yield edge


def site(edge: Selvedge, script: str = SLEEPS, tenant: str = "default", more: str = "") -> str:
    """An application, as the edge of the test runs them."""
    if edge.runtime != "process":
        return pod("site", script, more, tenant=tenant)
    text = application("site", script, more)
    return text.replace("metadata: {name: site}", f"metadata: {{name: site, namespace: {tenant}}}", 1)


def given(edge: Selvedge, *words: str, name: str = "site") -> Account:
    """What an application logs in by now."""
    script = 'echo "$SELVEDGE_MQTT_USERNAME"; cat "$SELVEDGE_MQTT_TOKEN_FILE"'
    user, token = within(edge, name, script, *words).stdout.split()
    return Account(user, token)


def is_let_in(edge: Selvedge, account: Account) -> bool:
    """Whether one can log in so."""
    try:
        Client(edge.port, **account.login()).opened().close()
    except Refused:
        return False
    return True


def test_an_application_logs_in_with_what_it_is_given_and_so_in_its_own_tenant_alone(over_all):
    edge = over_all
    edge.run("tenant", "add", "acme")
    own, other = (
        Client(edge.port, **add(edge, "app", "dash", tenant=tenant).login()).opened() for tenant in ("default", "acme")
    )
    for client in (own, other):
        assert not client.subscribe("greetings/#").is_failure
    apply(edge, site(edge, SAYS) + "---\n" + site(edge, SLEEPS, tenant="acme"))
    for words in ((), ("--tenant", "acme")):
        runs(edge, "site", *words)
    message = own.messages.get(timeout=30)
    assert (message.topic, message.payload) == ("greetings/site", b"hello")
    assert other.messages.empty()
    of_acme = given(edge, "--tenant", "acme")
    assert of_acme.user == "acme/site"
    with pytest.raises(Refused):
        Client(edge.port, user="site", password=of_acme.password).opened()
    inside = Client(edge.port, **of_acme.login()).opened()
    inside.subscribe("greetings/#")
    inside.subscribe("#")
    time.sleep(1)
    assert inside.messages.empty()
    for client in (own, other, inside):
        client.close()


def test_a_container_sees_its_own_and_changes_nothing_of_it(over_all):
    edge = over_all
    edge.run("tenant", "add", "acme")
    apply(edge, site(edge) + "---\n" + site(edge, tenant="acme"))
    for words in ((), ("--tenant", "acme")):
        runs(edge, "site", *words)
    if edge.runtime == "process":
        files = list(in_memory(edge).glob("*/hub/token"))
        assert len(files) == 2
        assert {path.stat().st_mode & 0o777 for path in files} == {0o400}
        return
    assert within(edge, "site", "ls /run/selvedge /run/selvedge/hub").stdout.split() == [
        "/run/selvedge:",
        "hub",
        "/run/selvedge/hub:",
        "token",
    ]
    changed = within(edge, "site", "echo mine > $SELVEDGE_MQTT_TOKEN_FILE")
    assert "Read-only file system" in changed.stderr
    assert not within(edge, "site", "cat /proc/*/mountinfo").stdout.count("acme")


def in_memory(edge: Selvedge) -> Path:
    """Where the files of its containers are."""
    return Path("/run/selvedge") / tag_of(edge)


def test_a_program_of_another_user_cannot_read_it(own):
    own.run("tenant", "add", "acme")
    for tenant, uid in (("default", 65_533), ("acme", 65_534)):
        apply(own, site(own, tenant=tenant, more=f", securityContext: {{runAsUser: {uid}}}"))
    for words in ((), ("--tenant", "acme")):
        runs(own, "site", *words)
    mine = given(own)
    assert is_let_in(own, mine)
    file = within(own, "site", "echo $SELVEDGE_MQTT_TOKEN_FILE").stdout.strip()
    assert within(own, "site", f"cat {file}").stdout == mine.password
    refused = within(own, "site", f"cat {file}; ls /run/selvedge", "--tenant", "acme")
    assert refused.stdout == "" and refused.stderr.count("Permission denied") == 2, refused


def test_with_its_application_its_login_ends_and_one_of_the_same_name_has_another(over_all):
    edge = over_all
    apply(edge, site(edge))
    runs(edge, "site")
    before = given(edge)
    client = Client(edge.port, **before.login()).opened()
    edge.run("delete", "deployment", "site")
    client.ended.result(10)
    assert not is_let_in(edge, before)
    wait_until(lambda: not list(Host(edge).containers.iterdir()))
    wait_until(lambda: not list(in_memory(edge).iterdir()))
    apply(edge, site(edge))
    runs(edge, "site")
    assert not is_let_in(edge, before)
    assert is_let_in(edge, given(edge))


def test_a_new_key_makes_new_files_at_once_and_starts_nothing_anew(over_all):
    edge, host = over_all, Host(over_all)
    apply(edge, site(edge))
    runs(edge, "site")
    (pid,), first = host.pids(), given(edge)
    edge.run("key", "rotate")
    second = given(edge)
    assert second.password != first.password
    assert is_let_in(edge, first) and is_let_in(edge, second)
    client = Client(edge.port, **second.login()).opened()
    edge.run("key", "rotate", "--at-once")
    client.ended.result(10)
    third = given(edge)
    assert [is_let_in(edge, one) for one in (first, second, third)] == [False, False, True]
    assert host.pids() == [pid]


def test_a_login_outlives_the_edge_and_is_new_once_it_is_back(over_all):
    edge, host = over_all, Host(over_all)
    apply(edge, site(edge))
    runs(edge, "site")
    (pid,), before = host.pids(), given(edge)
    edge.kill()
    time.sleep(1)  # A token says when it was made, in seconds.
    edge.start()
    runs(edge, "site")
    wait_until(lambda: given(edge).password != before.password)
    assert is_let_in(edge, before) and is_let_in(edge, given(edge))
    assert host.pids() == [pid]


def test_what_is_old_or_of_the_future_is_renewed_where_it_is(own):
    apply(own, site(own))
    runs(own, "site")
    before = given(own)
    file = Path(within(own, "site", "echo $SELVEDGE_MQTT_TOKEN_FILE").stdout.strip())
    for age_s in (3_600, -3_600):
        before = given(own)
        time.sleep(1)
        os.utime(file, (time.time() - age_s,) * 2)
        wait_until(lambda was=before: given(own).password != was.password, patience_s=30)
        assert is_let_in(own, given(own))


def test_who_asks_for_none_is_given_none_and_who_has_one_loses_it_so(over_all):
    edge = over_all
    apply(edge, site(edge))
    runs(edge, "site")
    before = given(edge)
    without = site(edge).replace("      containers:", "      automountServiceAccountToken: false\n      containers:")
    apply(edge, without)
    assert not is_let_in(edge, before)
    wait_until(
        lambda: "SELVEDGE" not in (found := within(edge, "site", "cat /proc/self/environ")).stdout and found.stdout
    )
    wait_until(lambda: "No such file" in within(edge, "site", "ls /run/selvedge/hub/token").stderr)


def test_what_a_manifest_says_of_the_variables_counts(own):
    apply(own, site(own, more=", env: [{name: SELVEDGE_MQTT_URL, value: 'mqtt://elsewhere:1'}]"))
    runs(own, "site")
    assert within(own, "site", "echo $SELVEDGE_MQTT_URL").stdout == "mqtt://elsewhere:1\n"
    assert is_let_in(own, given(own))


def test_an_app_of_that_name_keeps_its_credentials_and_a_device_cannot_be_one(own):
    by_hand = add(own, "app", "site")
    apply(own, site(own))
    runs(own, "site")
    assert is_let_in(own, by_hand) and is_let_in(own, given(own))
    own.run("app", "disable", "site")
    assert not is_let_in(own, by_hand) and not is_let_in(own, given(own))
    own.run("app", "enable", "site")
    own.run("delete", "deployment", "site")
    assert is_let_in(own, by_hand)
    own.run("app", "remove", "site")
    apply(own, site(own))
    runs(own, "site")
    refused = own.run("device", "add", "site", "--password", "correct horse", check=False)
    assert "exists and is an app" in refused.stderr
    own.run("delete", "deployment", "site")
    add(own, "device", "site")
    apply(own, site(own))
    runs(own, "site")
    assert not is_let_in(own, given(own))
    assert own.said("and a device of that name is there")


def test_a_login_of_an_application_is_none_of_a_user(start):
    with ending(start(anonymous=False, http=True)) as edge:
        edge.runtime = "process"
        apply(edge, site(edge))
        runs(edge, "site")
        url = f"http://127.0.0.1:{edge.http_port}/v1/tenants"
        said = subprocess.run(
            [
                "curl",
                "-s",
                "-o",
                "/dev/null",
                "-w",
                "%{http_code}",
                "-H",
                f"Authorization: Bearer {given(edge).password}",
                url,
            ],
            capture_output=True,
            text=True,
        )
        assert said.stdout == "401"
