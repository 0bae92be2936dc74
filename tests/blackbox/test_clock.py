"""The clock set back and forward an hour under a running edge; libfaketime shows it another time than the host's.

What has a deadline keeps it: an hour that nobody lived through ends nothing, and an hour that is lived twice keeps
nothing alive. Over a restart only the wall clock is left: then nothing lasts longer than was asked for.
"""

import json
import socket
import ssl
import time
from datetime import datetime

import pytest

import wire
from credentials import add, add_with_certificate, add_with_token, context
from paho_client import Refused
from raw import PATIENCE_S, Closed, Connection
from wire import Kind

pytestmark = [pytest.mark.contract, pytest.mark.machine("faketime")]
HOUR_S = 3_600
JUMPS = {"forward": HOUR_S, "back": -HOUR_S}
LONG, SHORT = 600, 1


def kept(expiry_s: int) -> dict:
    """Options of a session that outlasts its connection by so much."""
    return {"clean": False, "keep_alive": 0, "properties": [("session_expiry_interval", expiry_s)]}


@pytest.fixture
def own(start, clock):
    """An edge that sees that clock."""
    return start(environment=clock.environment)


@pytest.fixture(params=JUMPS.values(), ids=JUMPS.keys())
def jump(request, clock):
    """Sets the clock an hour forward or back."""
    return lambda: clock.set(request.param)


def published(dial, own, topic: str, expiry_s: int, **options) -> None:
    """A message that expires, acknowledged."""
    writer = dial(to=own).open("writer")
    expiry = [("message_expiry_interval", expiry_s)]
    writer.publish(topic, b"x", qos=1, packet_id=1, properties=expiry, **options)
    writer.expect(Kind.PUBACK)
    writer.leave()


def pause(seconds: float) -> None:
    """Time that has to pass: what is tested is that something happens in it, or does not."""
    time.sleep(seconds)


def test_the_edge_sees_the_clock_that_these_tests_set(start, clock, jump):
    """Without this the others would prove nothing."""
    own = start(environment=clock.environment, anonymous=False)
    jump()
    add(own, "device", "pump-7")
    own.stop()
    seen = datetime.fromisoformat(json.loads((own.data / "audit.log").read_text().splitlines()[0])["time"])
    assert abs(abs(seen.timestamp() - time.time()) - HOUR_S) < 60


def test_a_jump_ends_no_connection_session_or_message(own, dial, jump):
    """Keep alive, session expiry, message expiry and will delay count time that passed."""
    idle = dial(to=own).open("idle", keep_alive=LONG)
    idle.subscribe([("wills", 1)])
    away = dial(to=own).open("away", **kept(LONG))
    away.subscribe([("queued", 1)])
    away.leave()
    will = wire.Will("wills", properties=[("will_delay_interval", LONG)])
    dial(to=own).open("dying", will=will, **kept(LONG)).cut()
    published(dial, own, "queued", LONG)
    published(dial, own, "retained", LONG, retain=True)
    jump()
    pause(0.5)
    idle.ping()
    back = dial(to=own).open("away", **kept(LONG))
    assert back.connack.session_present
    late = dial(to=own).open("late")
    for message in (back.expect(Kind.PUBLISH), *late.retained("retained", 1)):
        assert LONG - 30 < message.get("message_expiry_interval") <= LONG
    idle.ping()


def test_what_is_due_after_a_jump_comes_in_its_time(own, dial, client, jump):
    """Keep alive, will delay, session and message expiry, and the timeout of a call."""
    watcher = client(to=own)
    watcher.subscribe("wills")
    away = dial(to=own).open("away", **kept(LONG))
    away.subscribe([("queued", 1)])
    away.leave()
    silent = dial(to=own).open("silent", keep_alive=SHORT)
    will = wire.Will("wills", properties=[("will_delay_interval", SHORT)])
    dial(to=own).open("dying", will=will, **kept(LONG)).cut()
    dial(to=own).open("short", **kept(SHORT)).leave()
    published(dial, own, "queued", SHORT)
    published(dial, own, "retained", SHORT, retain=True)
    jump()
    assert silent.verdict() in (None, 0x8D)
    assert watcher.receive().topic == "wills"
    pause(1.0)
    assert not dial(to=own).open("short", **kept(SHORT)).connack.session_present
    dial(to=own).open("away", **kept(LONG)).ping()
    dial(to=own).open("late").retained("retained", 0)


def test_a_call_times_out_and_is_answered_whatever_the_clock_does(own, client, jump):
    """Contract of methods: 504 after the timeout, not an hour later."""
    device = client(to=own)
    device.subscribe("devices/pump-7/methods/+/+")
    jump()
    done = own.run("call", "pump-7", "stop", "--timeout", "0.3", check=False)
    assert "did not answer" in done.stderr


def test_acknowledgements_and_a_stop_wait_for_no_clock(own, dial, jump):
    """Group commit and the time limit of a stop."""
    away = dial(to=own).open("away", **kept(LONG))
    away.subscribe([("queued", 1)])
    away.leave()
    published(dial, own, "queued", LONG)
    jump()
    published(dial, own, "queued", LONG)
    one = dial(to=own).open("one")
    since = time.monotonic()
    assert own.stop() == 0
    assert time.monotonic() - since < 8
    assert one.verdict() == 0x8B


def test_over_a_restart_with_the_clock_forward_what_has_time_left_is_there(own, dial, clock):
    """An hour that seems to have passed is taken off; the rest remains."""
    away = dial(to=own).open("away", **kept(3 * HOUR_S))
    away.subscribe([("queued", 1)])
    away.leave()
    published(dial, own, "queued", 3 * HOUR_S)
    own.kill()
    clock.set(HOUR_S)
    own.start()
    back = dial(to=own).open("away", **kept(3 * HOUR_S))
    assert back.connack.session_present
    assert HOUR_S < back.expect(Kind.PUBLISH).get("message_expiry_interval") <= 3 * HOUR_S


def test_over_a_restart_with_the_clock_back_nothing_lasts_longer_than_was_asked_for(own, dial, clock):
    """MQTT-3.3.2-6: the interval that is sent on is never more than the one that was received."""
    for name, expiry_s in (("away", LONG), ("short", 2)):
        one = dial(to=own).open(name, **kept(expiry_s))
        one.subscribe([("queued", 1)])
        one.leave()
    published(dial, own, "queued", LONG)
    published(dial, own, "retained", LONG, retain=True)
    own.kill()
    clock.set(-HOUR_S)
    own.start()
    back = dial(to=own).open("away", **kept(LONG))
    assert back.connack.session_present
    late = dial(to=own).open("late")
    for message in (back.expect(Kind.PUBLISH), *late.retained("retained", 1)):
        assert 0 < message.get("message_expiry_interval") <= LONG
    pause(2.5)
    assert not dial(to=own).open("short", **kept(2)).connack.session_present


def test_over_a_restart_with_the_clock_back_a_message_expires_in_its_time(own, dial, clock):
    """Section 3.3.2.3.3."""
    published(dial, own, "retained", SHORT, retain=True)
    own.kill()
    clock.set(-HOUR_S)
    own.start()
    pause(2.5)
    late = dial(to=own).open("late")
    late.retained("retained", 0)
    pause(0.3)
    late.ping()


def test_credentials_made_before_a_jump_hold_after_it(start, clock, client, jump):
    """Password, token and certificate; one that was refused waits no hour to try again."""
    own = start(environment=clock.environment, anonymous=False, tls={})
    logins = [add(own, "device", "pump-1").login(), add_with_token(own, "device", "pump-2").login()]
    pair = add_with_certificate(own, "device", "pump-3")
    jump()
    for login in logins:
        client(to=own, **login).publish(f"devices/{login['user']}/telemetry", b"1")
    trust = context(own.data / "ca.pem", *pair)
    client(port=own.tls_port, tls=trust).publish("devices/pump-3/telemetry", b"1")


def test_a_token_and_a_certificate_end_when_their_days_are_over(start, clock, client):
    """Contract of credentials: dates count, on the clock of the edge."""
    own = start(environment=clock.environment, anonymous=False, tls={})
    login = add_with_token(own, "device", "pump-1", "--valid-days", "1").login()
    trust = context(own.data / "ca.pem", *add_with_certificate(own, "device", "pump-2", "--valid-days", "1"))
    client(to=own, **login).disconnect()
    client(port=own.tls_port, tls=trust).disconnect()
    clock.set(25 * HOUR_S)
    with pytest.raises(Refused):
        client(to=own, **login)
    stream = socket.create_connection(("127.0.0.1", own.tls_port), PATIENCE_S)
    with stream, pytest.raises((ssl.SSLError, Closed)):
        Connection(trust.wrap_socket(stream)).open("pump-2")
