"""Applications that sleep until a message comes for them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator

import pytest

from applications import apply, deployment, ending
from brokers import Selvedge
from sites import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]


def listener(filters: str, port: int, idle: str = "1s", last: str = "exec") -> str:
    """An application that says each message that it gets; it is called alarm, and so is its session."""
    login = '-i alarm -u "$SELVEDGE_MQTT_USERNAME" -P "$(cat "$SELVEDGE_MQTT_TOKEN_FILE")"'
    listens = f"mosquitto_sub -p {port} {login} -c -q 1 -t devices/+/telemetry -F %p"
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: alarm
  annotations:
    selvedge.dev/activation: on-demand
    selvedge.dev/idle-timeout: {idle}
    selvedge.dev/subscriptions: {json.dumps(filters)}
spec:
  selector: {{matchLabels: {{app: alarm}}}}
  template:
    metadata: {{labels: {{app: alarm}}}}
    spec:
      runtimeClassName: process
      terminationGracePeriodSeconds: 5
      containers:
        - {{name: main, image: /bin/sh, args: [-c, {json.dumps(f"{last} {listens}")}]}}
"""


@pytest.fixture
def own(start) -> Iterator[Selvedge]:
    """An edge of the test's own, with a device."""
    with ending(start(anonymous=False)) as edge:
        edge.run("device", "add", "pump-7", "--password", "secret")
        yield edge


def publish(edge: Selvedge, *payloads: str, qos: int = 1) -> None:
    """As the device does, once each is acknowledged."""
    command = ["mosquitto_pub", "-p", str(edge.port), "-u", "pump-7", "-P", "secret", "-q", str(qos)]
    command += ["-t", "devices/pump-7/telemetry", "-l"]
    subprocess.run(command, input="".join(f"{payload}\n" for payload in payloads), text=True, check=True, timeout=30)


def sleeps(edge: Selvedge) -> bool:
    """Whether nothing of it runs."""
    one = deployment(edge, "alarm")
    return one["sleeps"] and not one["containers"]


def starts(edge: Selvedge) -> int:
    """How often it was started."""
    events = json.loads(edge.run("events", "--output", "json").stdout)
    return sum(one["times"] for one in events if one["what"] == "started")


def said(edge: Selvedge) -> list[str]:
    """The messages that it got since its last start."""
    log = edge.run("logs", "alarm", check=False).stdout
    return [line.split(" ", 3)[3] for line in log.splitlines()]


def test_messages_start_an_application_that_has_never_run_and_each_reaches_it_once_in_order(own):
    apply(own, listener("devices/+/telemetry", own.port, idle="20s", last="sleep 1; exec"))
    wait_until(lambda: sleeps(own))
    time.sleep(1)
    assert starts(own) == 0
    wanted = [str(number) for number in range(200)]
    publish(own, *wanted[:100])
    publish(own, *wanted[100:])
    wait_until(lambda: len(said(own)) >= 200)
    assert said(own) == wanted
    assert starts(own) == 1


def test_it_sleeps_once_no_message_has_come_for_a_while_and_the_next_starts_it_again(own):
    apply(own, listener("devices/+/telemetry", own.port))
    for number in range(3):
        wait_until(lambda: sleeps(own))
        publish(own, f"round {number}")
        wait_until(lambda n=number: said(own) == [f"round {n}"])
        assert starts(own) == number + 1


def test_it_is_not_ended_while_messages_come(own):
    apply(own, listener("devices/+/telemetry", own.port, idle="4s"))
    for number in range(20):
        publish(own, str(number))
        time.sleep(0.3)
    wait_until(lambda: len(said(own)) == 20)
    assert starts(own) == 1


def test_a_message_that_waits_as_the_edge_is_killed_starts_it_and_reaches_it(own):
    apply(own, listener("devices/+/telemetry", own.port, last="sleep 2; exec"))
    wait_until(lambda: sleeps(own))
    publish(own, "before the kill")
    own.kill()
    own.start()
    wait_until(lambda: said(own)[-1:] == ["before the kill"])


def test_a_message_of_qos_0_starts_it_and_other_topics_do_not(own):
    apply(own, listener("devices/+/telemetry", own.port))
    wait_until(lambda: sleeps(own))
    own.run("twin", "set", "pump-7", '{"a": 1}')
    time.sleep(1)
    assert starts(own) == 0
    publish(own, "lost", qos=0)
    wait_until(lambda: starts(own) == 1)
    wait_until(lambda: sleeps(own))


def test_filters_that_are_exchanged_or_taken_away_wake_nobody_any_more(own):
    apply(own, listener("devices/+/telemetry, apps/#", own.port))
    wait_until(lambda: sleeps(own))
    apply(own, listener("devices/pump-8/telemetry", own.port))
    publish(own, "for nobody")
    time.sleep(1)
    assert starts(own) == 0
    apply(own, listener("devices/pump-8/telemetry", own.port).replace("selvedge.dev/subscriptions", "example/other"))
    publish(own, "for nobody")
    own.run("delete", "deployment", "alarm")
    publish(own, "for nobody")
    time.sleep(1)
    assert starts(own) == 0


@pytest.mark.parametrize(
    ("filters", "why"),
    [
        ("devices/#/telemetry", '"devices/#/telemetry" is no topic filter'),
        ("$share/g/a", "is shared; an application has its subscriptions alone"),
        ("", '"" is no topic filter'),
        (", ".join(["a"] * 17), "has 17 topic filters; an application has at most 16"),
    ],
)
def test_what_is_no_subscription_is_refused_by_its_line(own, filters, why):
    refused = apply(own, listener(filters, own.port), check=False)
    assert refused.returncode == 1
    assert "app.yaml:8: metadata.annotations.selvedge.dev/subscriptions: " in refused.stderr
    assert why in refused.stderr


def test_subscriptions_of_what_runs_all_the_time_are_refused(own):
    text = listener("a", own.port).replace("activation: on-demand", "activation: always")
    assert "write selvedge.dev/activation: on-demand beside it" in apply(own, text, check=False).stderr
