"""Who may come in, and where: passwords, tokens, tenants, the tree of a device, ownership of sessions."""

import json
import re
import select
import socket
import subprocess
from pathlib import Path

import pytest

import wire
from credentials import add, add_with_certificate, add_with_token, context
from paho_client import Refused
from raw import PATIENCE_S, Connection
from test_reload import figure
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.needs("device", "app")]


@pytest.fixture
def own(start):
    """An edge that lets nobody in without credentials."""
    return start(anonymous=False)


def reason_of(connect) -> str:
    """Why a connection is refused."""
    with pytest.raises(Refused) as refusal:
        connect()
    return str(refusal.value.reason)


def test_a_device_comes_in_with_its_password(own, client):
    """Section 3.1.3.5."""
    pump = client("pump-7", to=own, **add(own, "device", "pump-7").login())
    pump.publish("devices/pump-7/telemetry", b'{"level": 0.8}')


def test_a_credential_works_at_once_on_a_running_edge_and_is_kept(own, client):
    """Contract of the commands: they work on a running edge; kill -9 forgets nothing that they said."""
    account = add(own, "device", "pump-7")
    client(to=own, **account.login())
    own.kill()
    own.start()
    client(to=own, **account.login())


def test_a_credential_can_be_made_before_the_edge_runs(start, client):
    """Contract of the commands: they work on a stopped edge."""
    own = start(anonymous=False, begin=False)
    account = add(own, "device", "pump-7")
    own.start()
    client(to=own, **account.login())


def test_without_credentials_nobody_comes_in(own, client, dial):
    """MQTT-3.1.4-2: 0x87 in 5.0, 5 in 3.1.1."""
    assert "uthori" in reason_of(lambda: client(to=own)) or "user name" in reason_of(lambda: client(to=own)).lower()
    assert dial(4, to=own).send(wire.connect("x", 4)).verdict() in (4, 5)


def test_a_wrong_password_and_an_unknown_user_are_refused_alike(own, client, dial):
    """Section 3.1.4: which of both it was is nobody's business."""
    account = add(own, "device", "pump-7")
    answers = []
    for user, password in ((account.user, b"wrong"), ("nobody", b"wrong")):
        answers.append(dial(5, to=own).send(wire.connect("x", user=user, password=password)).verdict())
    assert answers[0] == answers[1] and answers[0] in (0x86, 0x87)


def test_many_wrong_passwords_slow_the_guesser_and_nobody_else(start, client, dial):
    """Failed logins are limited by address; who knows the password comes in from another one, who is in stays in."""
    own = start(anonymous=False, http=True)
    account = add(own, "device", "pump-7")
    inside = client(to=own, **account.login())
    inside.subscribe("devices/pump-7/echo", 1)

    def attempt(connection, password: str) -> int | None:
        return connection.send(wire.connect("x", user=account.user, password=password.encode())).verdict()

    answers = [attempt(dial(to=own), "guess") for _ in range(12)]
    assert set(answers) == {0x86, 0x9F}, "connection rate exceeded (section 3.2.2.2) once some have failed"
    assert answers[:5] == [0x86] * 5, "a person may mistype a few times"
    assert figure(own, 'connections_refused_total{reason="login_throttled"}') == answers.count(0x9F)
    elsewhere = socket.create_connection(("127.0.0.1", own.port), PATIENCE_S, source_address=("127.0.0.2", 0))
    with elsewhere:
        Connection(elsewhere).open("y", user=account.user, password=account.password.encode()).ping()
    inside.publish("devices/pump-7/echo", b"still served")
    assert inside.receive().payload == b"still served"


def come_from(own, address: str) -> Connection:
    """A connection from another address of this machine."""
    return Connection(socket.create_connection(("127.0.0.1", own.port), PATIENCE_S, source_address=(address, 0)))


def test_a_flood_of_guesses_delays_nobody_who_comes_from_elsewhere(own):
    """Checking a password takes long: the addresses that logins come from take turns."""
    account = add(own, "device", "pump-7")
    flood = [come_from(own, "127.0.0.2") for _ in range(200)]
    for number, one in enumerate(flood):
        one.send(wire.connect("x", user=f"guess-{number}", password=b"a guess"))
    honest = come_from(own, "127.0.0.3").open("y", **login_of(account))
    answered, _, _ = select.select([one.stream for one in flood], [], [], 0)
    assert len(answered) < 150, "it waited for the logins of another address"
    honest.ping()
    assert {one.verdict() for one in flood} == {0x86, 0x9F}


def test_the_logins_of_one_address_leave_places_for_others(start):
    """Half of those that may wait; the others are told to come back later."""
    own = start(anonymous=False, http=True, configuration="[limits]\npending_connects = 40\n")
    account = add(own, "device", "pump-7")
    flood = [come_from(own, "127.0.0.2") for _ in range(35)]
    for number, one in enumerate(flood):
        one.send(wire.connect("x", user=f"guess-{number}", password=b"a guess"))
    come_from(own, "127.0.0.3").open("y", **login_of(account)).ping()
    answers = [one.verdict() for one in flood]
    assert set(answers) <= {0x86, 0x89, 0x9F} and 0x89 in answers
    assert figure(own, 'connections_refused_total{reason="logins_waiting"}') == answers.count(0x89)


def test_connections_that_say_nothing_take_no_place_of_who_comes_from_elsewhere(start):
    """Of those that do not finish the oldest of the address with the most is given up, not the oldest of all."""
    own = start(anonymous=False, configuration="[limits]\npending_connects = 20\n")
    login = login_of(add(own, "device", "pump-7"))
    slow, packet = come_from(own, "127.0.0.3"), wire.connect("y", **login)
    slow.send(packet[:10])
    flood = [come_from(own, "127.0.0.2") for _ in range(100)]
    for one in flood[:80]:
        assert one.verdict() is None, "given up for newer ones"
    slow.send(packet[10:])
    assert slow.expect(Kind.CONNACK).reason == 0


def login_of(account) -> dict[str, object]:
    """As `wire.connect` takes them."""
    return {"user": account.user, "password": account.password.encode()}


def test_a_device_that_is_removed_is_out_at_once(own, client):
    """Contract of the registry: its connection ends, its password is worthless."""
    account = add(own, "device", "pump-7")
    pump = client(to=own, **account.login())
    own.run("device", "remove", "pump-7")
    pump.end()
    reason_of(lambda: client(to=own, **account.login()))


def test_a_token_stands_where_a_password_would(own, client):
    """Contract of credentials: `sub` and `tenant` are signed."""
    pump = client(to=own, **add_with_token(own, "device", "pump-7").login())
    pump.publish("devices/pump-7/telemetry", b"1")


def test_a_token_of_another_device_another_edge_or_with_a_changed_byte_is_refused(own, start, client):
    """Contract of credentials."""
    account = add_with_token(own, "device", "pump-7")
    add(own, "device", "pump-8")
    foreign = add_with_token(start(anonymous=False), "device", "pump-7")
    head, body, signature = account.password.split(".")
    changed = ".".join((head, body, ("A" if signature[0] != "A" else "B") + signature[1:]))
    unsigned = ".".join(("eyJhbGciOiJub25lIn0", body, ""))
    for user, password in (("pump-8", account.password), ("pump-7", foreign.password), ("pump-7", changed),
                           ("pump-7", unsigned)):  # fmt: skip
        reason_of(lambda user=user, password=password: client(to=own, user=user, password=password))


def test_a_token_for_another_tenant_is_refused(own, client):
    """Contract of tenants."""
    add(own, "device", "pump-7")
    here = add_with_token(own, "device", "pump-8")
    there = add_with_token(own, "device", "pump-7", tenant="plant-b")
    add(own, "device", "pump-8", tenant="plant-b")
    reason_of(lambda: client(to=own, user="pump-7", password=there.password))
    reason_of(lambda: client(to=own, user="plant-b/pump-8", password=here.password))


def test_a_device_writes_and_reads_under_its_own_tree_alone(own, client, dial):
    """Contract of the topics: a refused SUBSCRIBE gets the failure code, a refused PUBLISH its reason code."""
    account = add(own, "device", "pump-7")
    add(own, "device", "pump-8")
    app = client(to=own, **add(own, "app", "dashboard").login())
    app.subscribe("devices/#")
    pump = client(to=own, **account.login())
    for topic_filter in ("#", "devices/#", "devices/+/telemetry", "devices/pump-8/#", "apps/dashboard/#", "$SYS/#"):
        assert pump.subscribe(topic_filter).value == 0x87, topic_filter
    assert pump.subscribe("devices/pump-7/#").value == 2
    for topic in ("devices/pump-8/telemetry", "devices/pump-7/methods/stop/1", "devices/pump-7/twin/desired",
                  "devices/pump-7/twin/desired/set", "apps/dashboard/x", "plain"):  # fmt: skip
        assert pump.publish(topic, b"x").value == 0x87, topic
    pump.publish("devices/pump-7/telemetry", b"mine")
    assert app.receive().payload == b"mine"
    app.nothing_arrives()


def test_in_3_1_1_a_refused_publish_reaches_nobody(own, client):
    """MQTT-3.3.5-2 of 3.1.1: acknowledged, or the connection is closed; never delivered."""
    account = add(own, "device", "pump-7")
    app = client(to=own, **add(own, "app", "dashboard").login())
    app.subscribe("#", 1)
    pump = client("p", 4, to=own, **account.login())
    pump.paho.publish("devices/pump-8/telemetry", b"forged", 1)
    app.nothing_arrives()


def test_a_will_outside_its_own_tree_is_refused_or_never_sent(own, client):
    """Contract of the topics holds for wills, too."""
    account = add(own, "device", "pump-7")
    app = client(to=own, **add(own, "app", "dashboard").login())
    app.subscribe("devices/#", 1)
    try:
        will = {"topic": "devices/pump-8/telemetry", "payload": b"forged", "qos": 1}
        client(to=own, will=will, **account.login()).cut()
    except Refused:
        pass
    app.nothing_arrives()


def test_an_app_asks_devices_but_reports_for_none(own, client):
    """Contract of the topics."""
    app = client(to=own, **add(own, "app", "dashboard").login())
    assert app.publish("devices/pump-7/twin/reported", b"{}").value == 0x87
    assert app.publish("devices/pump-7/telemetry", b"{}").value == 0x87
    for topic in ("apps/other/x", "apps/other", "apps", "devices/pump-7", "devices"):
        assert app.publish(topic, b"{}").value == 0x87, topic
    app.subscribe("devices/pump-7/methods/+/+/result")
    app.publish("devices/pump-7/methods/stop/1", b"{}")
    assert json.loads(app.receive().payload)["status"] == 404


def test_tenants_do_not_see_each_other(own, client):
    """Promise 9: the same names in two tenants are two devices."""
    apps = {tenant: client(to=own, **add(own, "app", "dash", tenant=tenant).login()) for tenant in ("a", "b")}
    pump = client(to=own, **add(own, "device", "pump", tenant="a").login())
    for app in apps.values():
        app.subscribe("#", retainHandling=2)
    pump.publish("devices/pump/telemetry", b"secret", retain=True)
    assert apps["a"].receive().payload == b"secret"
    apps["b"].nothing_arrives()
    late = client("late", to=own, **add(own, "app", "late", tenant="b").login())
    late.subscribe("devices/#")
    late.nothing_arrives()


def test_a_session_belongs_to_its_credential(own, client, dial):
    """Contract of sessions: nobody takes over another's client id."""
    mine, other = add(own, "device", "pump-7"), add(own, "device", "pump-8")
    one = client("shared-id", to=own, clean=False, SessionExpiryInterval=60, **mine.login())
    one.subscribe("devices/pump-7/#", 1)
    thief = dial(to=own).send(wire.connect("shared-id", clean=False, user=other.user, password=other.password.encode()))
    answer = thief.expect(Kind.CONNACK)
    assert answer.reason in (0x85, 0x87) or not answer.session_present
    one.publish("devices/pump-7/telemetry", b"still mine")
    assert one.receive().payload == b"still mine"


def test_secrets_are_in_no_log(own, client, dial):
    """Logs are without secrets."""
    account = add(own, "device", "pump-7", password="zebra-crossing-42")
    client(to=own, **account.login())
    dial(to=own).send(wire.connect("x", user="pump-7", password=b"giraffe-crossing-43")).verdict()
    own.stop()
    said = own.log.read_text() + "".join(
        path.read_text(errors="replace") for path in own.data.rglob("*") if path.is_file() and path.stat().st_size < 1e7
    )
    assert "zebra-crossing-42" not in said and "giraffe-crossing-43" not in said


def test_a_credential_that_is_rotated_ends_the_old_one_and_its_connections(own, client):
    """Contract of the commands: password, token and certificate, whatever it had before."""
    old = add(own, "device", "pump-7")
    pump = client(to=own, **old.login())
    said = json.loads(own.run("device", "rotate", "pump-7", "--output", "json").stdout)
    pump.end()
    reason_of(lambda: client(to=own, **old.login()))
    made = {"user": "pump-7", "password": said["issued"]["password"]}
    pump = client(to=own, **made)
    own.run("device", "passwd", "pump-7", "--password", "battery staple")
    pump.end()
    reason_of(lambda: client(to=own, **made))
    chosen = {"user": "pump-7", "password": "battery staple"}
    client(to=own, **chosen)
    token = json.loads(own.run("device", "rotate", "pump-7", "--token", "--output", "json").stdout)["issued"]["token"]
    reason_of(lambda: client(to=own, **chosen))
    client(to=own, user="pump-7", password=token)
    own.run("device", "rotate", "pump-7", "--token")
    reason_of(lambda: client(to=own, user="pump-7", password=token))
    missing = own.run("device", "rotate", "pump-8", check=False)
    assert missing.returncode == 1 and 'did you mean "pump-7"' in missing.stderr


def test_a_credential_is_rotated_on_a_stopped_edge(own, client):
    """Its session stays, with what waits in it."""
    old = add(own, "device", "pump-7")
    lasting = {"clean": False, "SessionExpiryInterval": 600}
    client("p", to=own, **lasting, **old.login()).subscribe("devices/pump-7/echo", 1)
    own.stop()
    own.run("device", "rotate", "pump-7", "--password", "battery staple")
    own.start()
    reason_of(lambda: client("p", to=own, **lasting, **old.login()))
    client("p", to=own, user="pump-7", password="battery staple", **lasting)
    assert '"action":"changed"' in (own.data / "audit.log").read_text()


def serial_of(certificate: Path) -> str:
    """As openssl shows it, with colons."""
    command = ["openssl", "x509", "-noout", "-serial", "-in", str(certificate)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    return said.strip().removeprefix("serial=")


def credentials_of(own, name: str) -> list[tuple[str, str | None]]:
    """Sorts and serial numbers."""
    listed = json.loads(own.run("device", "credential", "list", name, "--output", "json").stdout)
    return [(held["sort"], held["serial"]) for held in listed]


@pytest.mark.needs("--mqtts")
def test_a_certificate_is_exchanged_without_a_moment_when_none_is_valid(start, client):
    """Contract of the commands: one more is added; the old one is revoked once the new one is in use."""
    own = start(anonymous=False, tls={})
    trusted = own.data / "ca.pem"
    old = [made.rename(made.with_stem("old")) for made in add_with_certificate(own, "device", "pump-7")]
    before = client("before", port=own.tls_port, tls=context(trusted, *old))
    said = own.run("device", "credential", "add", "pump-7", "--certificate").stdout
    new = [own.directory / "pump-7.pem", own.directory / "pump-7.key"]
    after = client("after", port=own.tls_port, tls=context(trusted, *new))
    before.subscribe("devices/pump-7/echo")
    after.publish("devices/pump-7/echo", b"both are valid")
    assert before.receive().payload == b"both are valid"
    serials = [serial_of(made[0]).lower() for made in (old, new)]
    assert serials[1] in said
    assert sorted(credentials_of(own, "pump-7")) == sorted(("certificate", serial) for serial in serials)
    shown = own.run("device", "credential", "list", "pump-7").stdout
    assert all(re.search(rf"^certificate +{serial} +20[0-9-]+T[0-9:]+Z$", shown, re.MULTILINE) for serial in serials)

    as_shown = ":".join(re.findall("..", serials[0].upper()))
    said = own.run("device", "credential", "revoke", "pump-7", as_shown).stdout
    assert serials[0] in said and "what else it has stays valid" in said
    before.end()
    after.publish("devices/pump-7/telemetry", b"goes on", 1)
    for _ in range(2):
        client("after", port=own.tls_port, tls=context(trusted, *new)).publish("devices/pump-7/telemetry", b"1", 1)
        reason_of(lambda: client(port=own.tls_port, tls=context(trusted, *old)))
        own.kill()
        own.start()
    assert credentials_of(own, "pump-7") == [("certificate", serials[1])]
    again = own.run("device", "credential", "revoke", "pump-7", serials[0], check=False)
    assert again.returncode == 1 and f"has no certificate {serials[0]}" in again.stderr
    audited = (own.data / "audit.log").read_text()
    for action, serial in (("added", serials[1]), ("removed", serials[0])):
        assert re.search(rf'"action":"{action}".*"what":"certificate {serial}"', audited), audited


def test_a_client_has_a_bounded_number_of_certificates_and_room_for_one_more_once_one_is_revoked(own):
    """Contract of credentials: 16."""
    own.run("device", "add", "pump-7", "--certificate", "--output", "json")
    more = ("device", "credential", "add", "pump-7", "--certificate", "--output", "json")
    for _ in range(15):
        own.run(*more)
    refused = own.run(*more, check=False)
    assert refused.returncode == 1 and "revoke one first" in refused.stderr
    listed = credentials_of(own, "pump-7")
    own.run("device", "credential", "revoke", "pump-7", listed[0][1])
    own.run(*more)
    assert len(credentials_of(own, "pump-7")) == len(listed) == 16


def test_credentials_of_every_sort_are_revoked_one_by_one(own, client):
    """Those of another sort stay; with the last one the client is told how to get another."""
    account = add(own, "device", "pump-7")
    given = json.loads(own.run("device", "credential", "add", "pump-7", "--token", "--output", "json").stdout)
    token = {"user": "pump-7", "password": given["issued"]["token"]}
    own.run("device", "credential", "add", "pump-7", "--trusted-certificate")
    assert [sort for sort, _ in credentials_of(own, "pump-7")] == ["password", "token", "trusted-certificate"]
    inside = client(to=own, **token)
    beside = client(to=own, **account.login())
    beside.subscribe("devices/pump-7/echo", 1)
    own.run("device", "credential", "revoke", "pump-7", "token")
    inside.end()
    beside.publish("devices/pump-7/echo", b"goes on", 1)
    assert beside.receive().payload == b"goes on"
    reason_of(lambda: client(to=own, **token))
    client(to=own, **account.login())
    own.stop()
    own.run("device", "credential", "revoke", "pump-7", "trusted-certificate")
    last = own.run("device", "credential", "revoke", "pump-7", "password").stdout
    assert "no credential left" in last and "selvedge device credential add pump-7" in last
    own.start()
    reason_of(lambda: client(to=own, **account.login()))
    own.run("device", "credential", "add", "pump-7", "--password", "battery staple")
    client(to=own, user="pump-7", password="battery staple")
    wrong = own.run("device", "credential", "revoke", "pump-7", "passwd", check=False)
    assert wrong.returncode == 2 and "password, token, trusted-certificate" in wrong.stderr


def test_a_device_that_is_removed_leaves_nothing_to_one_of_its_name(own, client):
    """Its session, its twin and the desired state that was retained for it are gone."""
    account = add(own, "device", "pump-7")
    lasting = {"clean": False, "SessionExpiryInterval": 600, **account.login()}
    pump = client("p", to=own, **lasting)
    pump.subscribe("devices/pump-7/#", 1)
    pump.publish("devices/pump-7/twin/reported", b'{"level": 0.5}')
    own.run("twin", "set", "pump-7", '{"interval_s": 10}')
    own.run("device", "remove", "pump-7")
    pump.end()
    add(own, "device", "pump-7")
    twin = json.loads(own.run("twin", "get", "pump-7").stdout)
    assert "level" not in twin["reported"] and "interval_s" not in twin["desired"]
    heir = client("p", to=own, **lasting)
    assert not heir.session_present
    dash = client(to=own, **add(own, "app", "dash").login())
    dash.subscribe("devices/pump-7/#", 1)
    dash.nothing_arrives()
    own.stop()
    own.start()
    twin = json.loads(own.run("twin", "get", "pump-7").stdout)
    assert "level" not in twin["reported"] and "interval_s" not in twin["desired"]
