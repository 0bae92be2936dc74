"""What is said of a device behind an edge: which part was away, by commands, by the API, and to applications."""

from __future__ import annotations

import json
import re
import threading
import time

import pytest

from http_api import Api
from paho_client import Client
from raw import PATIENCE_S
from sites import PASSWORD, Pump, Site, wait_until
from test_operation import get

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]

# A cloud gives up an edge that is silent for one and a half times its Keep Alive of 10 s, and looks every second.
CLOUD_FINDS_IT_S = 15 + 1
SLACK_S = 3
OF_DEVICE = "/v1/tenants/default/devices/pump-7"


def known(one: Site) -> Site:
    """The cloud has heard of the device."""
    wait_until(lambda: "pump-7" in one.cloud.run("device", "list").stdout)
    return one


def admin(one: Site) -> Api:
    return Api(one.cloud).log_in("admin", (one.cloud.data / "admin.password").read_text().strip())


def call(one: Site, *words: str) -> str:
    """Why `selvedge call` at the cloud got no answer."""
    done = one.cloud.run("call", "pump-7", "stop", *words, check=False)
    assert done.returncode == 1 and not done.stdout, done
    return done.stderr


def listening(one: Site) -> Client:
    """The device at its edge, which hears calls."""
    device = Pump(one).client()
    device.subscribe("devices/pump-7/methods/+/+")
    return device


def is_away(one: Site) -> bool:
    return not one.cloud.edges()[0]["is_connected"]


def test_a_device_that_is_away_from_its_connected_edge_is_said_to_be(site):
    one = known(site())
    why = "pump-7 is not connected to its edge hall-1, which is connected"
    assert f'{why}, so "stop" was not called' in call(one)
    _, result = admin(one).ask("POST", f"{OF_DEVICE}/methods/stop", {})
    assert result == {"status": 404, "payload": {"message": why}}
    one.cloud.run("app", "add", "dash", "--password", PASSWORD)
    dash = Client(one.cloud.port, "dash", user="dash", password=PASSWORD).opened()
    dash.subscribe("devices/pump-7/methods/+/+/result")
    dash.publish("devices/pump-7/methods/stop/1", b"now")
    assert json.loads(dash.receive().payload) == result
    dash.disconnect()
    assert "selvedge_calls_away_total 3\n" in get(one.cloud, "/metrics")[1]


def test_a_device_that_gives_no_answer_is_said_to_be_behind_an_edge_that_is_heard(site):
    """The cloud asks the edge for a sign of life while the call waits."""
    one = known(site())
    device = listening(one)
    said = call(one, "--timeout", "2.5")
    assert 'pump-7 did not answer "stop" within 2500 ms' in said
    found = re.search(r"its edge hall-1 is connected, and was heard (\d\.\d) s ago", said)
    assert found and float(found[1]) < 2.5, said
    assert "delivered" not in said
    device.disconnect()


def test_a_device_that_is_connected_here_and_gives_no_answer_is_said_to_be(site):
    one = site()
    device = listening(one)
    done = one.edge.run("call", "pump-7", "stop", "--timeout", "0.2", check=False)
    assert 'pump-7 did not answer "stop" within 200 ms; it is connected' in done.stderr
    device.disconnect()


def test_a_line_that_is_silent_is_said_to_be_and_one_that_was_given_up_with_when_the_edge_was_heard(site):
    one = known(site())
    device = listening(one)
    one.line.cut()
    cut_at = time.monotonic()
    # What was heard just before the cut is as old as the call then.
    time.sleep(0.5)
    said = call(one, "--timeout", "2")
    assert 'pump-7 did not answer "stop" within 2000 ms' in said
    assert "nothing was heard of its edge hall-1 since the call was made" in said and "delivered" not in said
    wait_until(lambda: is_away(one), CLOUD_FINDS_IT_S + SLACK_S)
    said = call(one)
    found = re.search(r"behind the edge hall-1, which is not connected \(heard last (\d+) s ago\)", said)
    assert found, said
    # It says something every 5 s.
    assert CLOUD_FINDS_IT_S - 2 <= int(found[1]) <= time.monotonic() - cut_at + 5 + 1
    (edge,) = one.cloud.edges()
    assert edge["last_heard_s"] >= int(found[1])
    _, location = admin(one).ask("GET", f"{OF_DEVICE}/location")
    assert (location["at"], location["edge"], location["is_connected"]) == ("edge", "hall-1", False)
    assert location["last_heard_s"] >= int(found[1])
    assert "hall-1, which is not connected (heard last" in one.cloud.run("describe", "device", "pump-7").stdout
    assert "away, heard last" in one.cloud.run("get", "edges").stdout
    device.disconnect()


def test_an_edge_that_has_not_connected_since_the_cloud_started_is_said_to_be_away(site):
    one = known(site())
    one.edge.stop()
    one.cloud.stop()
    one.cloud.start()
    said = call(one)
    assert "behind the edge hall-1, which is not connected (not heard since this cloud started)" in said
    assert one.cloud.edges()[0]["last_heard_s"] is None
    assert "which is not connected (not heard" in one.cloud.run("twin", "set", "pump-7", '{"a": 1}').stdout


def test_a_line_that_breaks_while_a_call_waits_ends_it_at_once_and_is_named(site):
    one = known(site())
    device = listening(one)
    said: list[str] = []
    began = time.monotonic()
    calling = threading.Thread(target=lambda: said.append(call(one, "--timeout", "25")))
    calling.start()
    assert device.receive().topic.startswith("devices/pump-7/methods/stop/")
    one.line.hang_up()
    calling.join(PATIENCE_S)
    assert time.monotonic() - began < 20
    assert "the connection of the edge hall-1 broke before the answer came" in said[0]
    assert "whether pump-7 got the call is not known" in said[0]
    device.disconnect()


def test_a_desired_state_is_said_to_go_to_the_device_by_its_edge(site):
    one = known(site())
    device = listening(one)
    said = one.cloud.run("twin", "set", "pump-7", '{"interval_s": 10}').stdout
    assert "by the edge hall-1, which is connected" in said and "away" not in said
    assert "the device is connected" in one.edge.run("twin", "set", "pump-7", '{"interval_s": 11}').stdout
    device.disconnect()


@pytest.mark.needs("user")
def test_while_its_cloud_is_away_a_device_is_called_and_its_twin_read_and_edited_at_the_edge(site):
    """By the edge's own API, though the edge has never seen its cloud since it started."""
    one = site()
    one.edge.run("user", "add", "default/olga", "--role", "operator", "--password", PASSWORD)
    one.edge.stop()
    one.cloud.stop()
    one.edge.start()
    olga = Api(one.edge).log_in("default/olga", PASSWORD)
    device = listening(one)
    device.subscribe("devices/pump-7/twin/desired")
    device.publish("devices/pump-7/twin/reported", b'{"level": 0.83}')

    answering = threading.Thread(target=device.answer_call)
    answering.start()
    status, result = olga.ask("POST", f"{OF_DEVICE}/methods/stop", {"reason": "dry"})
    answering.join(PATIENCE_S)
    assert (status, result) == (200, {"status": 200, "payload": {"reason": "dry"}})
    assert olga.ask("PATCH", f"{OF_DEVICE}/twin", {"interval_s": 10})[0] == 200
    assert json.loads(device.receive().payload)["interval_s"] == 10
    _, twin = olga.ask("GET", f"{OF_DEVICE}/twin")
    assert (twin["desired"]["interval_s"], twin["reported"]["level"]) == (10, 0.83)
    _, link = olga.ask("GET", "/v1/tenants/default/link")
    assert not link["is_connected"]
    device.disconnect()
