"""An edge that says over its link what no edge would: it learns and changes nothing of others, and harms nobody."""

from __future__ import annotations

import json
import time

import pytest

from paho_client import Client
from registered import device, figures, is_let_in, shared
from sites import PASSWORD, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]


@pytest.fixture
def site(site):
    """A cloud and an edge."""
    return site()


def hostile(site) -> Client:
    """Whoever has the credential of an edge, and says what it likes."""
    said = site.cloud.run("edge", "add", "hall-2", "--output", "json").stdout
    password = json.loads(said)[0]["issued"]["password"]
    properties = [("selvedge-link", "1"), ("instance", "hostile")]
    return Client(site.cloud.port, "hall-2", user="hall-2", password=password, UserProperty=properties).opened()


def answers(client: Client) -> str:
    """All that it is answered, up to the answer of a last question."""
    client.publish("$link/registry", json.dumps({"registry": "mine"}), qos=0)
    said = ""
    while (message := client.receive()).topic != "$link/registry":
        said += f"{message.topic} {message.payload.decode()}\n"
    return said


def test_a_hostile_edge_learns_no_credential_and_changes_nothing_of_others(site):
    password = shared(site)
    site.cloud.run("device", "add", "meter", "--password", PASSWORD)
    client = hostile(site)
    answers(client)
    unknown, gone = {"leaves": {}, "seen": [0, 0]}, {"leaves": {}, "seen": [99, 99]}
    mine = {"life": ["e", 99, "x"], "password": ["e", 99, "$argon2id$v=19$m=64,t=1,p=1$c2Fs$AAAA"]}
    theirs = {"leaves": mine, "seen": [2**64 - 1, 2**64 - 1]}
    for name in ("valve-1", "pump-7", "meter"):
        for document in (unknown, gone, theirs):
            client.publish("$link/records", json.dumps(["default", [[name, document, 7]]]), qos=0)
        client.publish(f"$link/twin/default/{name}", b"", qos=0)
        client.publish(
            "$link/devices",
            json.dumps({"tenant": "default", "digits": "", "devices": {name: {"record": 1, "twin": 2}}}),
            qos=0,
        )
    client.publish("$link/records", json.dumps(["plant-b", [["valve-1", unknown, 7]]]), qos=0)
    client.publish("$link/parts", json.dumps([{"tenant": "default", "digits": "", "digest": 1}]), qos=0)
    time.sleep(1)  # Whatever it is answered, it is by then.
    said = answers(client)
    assert "argon2" not in said and "life" not in said and "desired" not in said, said
    assert is_let_in(site.edge, password)
    assert is_let_in(site.cloud, PASSWORD, "meter")
    assert device(site.cloud)["edge"] == device(site.cloud, "pump-7")["edge"] == "hall-1"
    client.disconnect()


@pytest.mark.parametrize(
    "record",
    [
        {"life": ["e", 1, "x"], "label:a b": ["e", 1, "no label"]},
        {"life": ["e", 1, "x"], "label:a": ["e", 1, {}]},
        {"life": ["e", 1, "x"], "password": ["e", 1, 7]},
        {"life": ["e", 1, "x"], "certificate:../x": ["e", 1, 7]},
        {"life": ["e", 1, "x"], "role": ["e", 1, "admin"]},
        {"life": ["e", 1, "x" * 1000]},
        {"life": ["e", 1, "x"]} | {f"label:{number}": ["e", 1, "x"] for number in range(65)},
        {"life": ["e", 1, "x"]} | {f"certificate:{number}": ["e", 1, 7] for number in range(17)},
        {"life": ["x", 1, "x"]},
    ],
    ids=["label", "nested", "number", "serial", "member", "long", "labels", "certificates", "side"],
)
def test_a_record_that_no_device_can_have_is_refused_whole(site, record):
    client = hostile(site)
    answers(client)
    leaves = {"/" + name: leaf for name, leaf in record.items()}
    records = [
        ["odd", {"leaves": leaves, "seen": [1, 0]}, 0],
        ["even", {"leaves": {"/life": ["e", 1, "x"]}, "seen": [1, 0]}, 0],
    ]
    client.publish("$link/records", json.dumps(["default", records]), qos=0)
    wait_until(lambda: device(site.cloud, "even") is not None)
    assert device(site.cloud, "odd") is None
    assert figures(site.cloud)["records_refused"] == 1
    site.cloud.run("device", "label", "even", "hall=1")
    client.disconnect()


PAYLOADS = [b"{", b"null", b"[[[[", b"\xff", b"[" * 100_000, b'["default", [["a", {}, -1]]]']


@pytest.mark.parametrize("topic", ["registry", "parts", "devices", "records", "twin/default/pump-7"])
def test_what_nobody_understands_harms_nobody(site, topic):
    client = hostile(site)
    for payload in PAYLOADS:
        client.publish(f"$link/{topic}", payload, qos=0)
    answers(client)
    client.disconnect()
