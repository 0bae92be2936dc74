"""Twins over MQTT: desired state of the operators, reported state of the device, versions and conflicts."""

import json

import pytest

from credentials import add
from test_operation import get
from wire import Kind

pytestmark = pytest.mark.contract


class Twin:
    """A client that asks for one device's twin."""

    def __init__(self, client, device: str):
        self.client = client
        self.base = f"devices/{device}/twin"
        for answers in ("get/result", "desired/set/result"):
            client.subscribe(f"{self.base}/{answers}")

    def _ask(self, what: str, payload: object) -> dict:
        self.client.publish(f"{self.base}/{what}", payload if isinstance(payload, bytes) else json.dumps(payload))
        answer = self.client.receive()
        assert answer.topic == f"{self.base}/{what}/result"
        return json.loads(answer.payload)

    def get(self) -> dict:
        """Both states."""
        return self._ask("get", b"")

    def set(self, patch: object) -> dict:
        """A patch of the desired state."""
        return self._ask("desired/set", patch)

    def report(self, patch: object) -> None:
        """A patch of the reported state."""
        self.client.publish(f"{self.base}/reported", json.dumps(patch))


@pytest.fixture
def twin(client, name):
    """The twin of a device that nobody has spoken of."""
    return Twin(client(), name)


def plain(state: dict) -> dict:
    """A state without its version."""
    return {key: value for key, value in state.items() if key != "$version"}


def test_a_new_twin_is_empty(twin):
    """Contract of `twin/get`."""
    got = twin.get()
    assert plain(got["desired"]) == {} and plain(got["reported"]) == {}


def test_desired_state_is_merged_as_rfc_7396_says(twin):
    """RFC 7396: null removes, objects merge, everything else replaces."""
    twin.set({"interval_s": 10, "limits": {"low": 1, "high": 9}, "modes": [1, 2]})
    answer = twin.set({"interval_s": 20, "limits": {"low": None}, "modes": [3]})
    assert answer["status"] == 200
    assert plain(twin.get()["desired"]) == {"interval_s": 20, "limits": {"high": 9}, "modes": [3]}


def test_every_change_raises_the_version_and_nothing_else_does(twin):
    """Contract of `$version`."""
    first = twin.set({"a": 1})["version"]
    assert twin.set({"a": 1})["version"] == first
    assert twin.set({"a": 2})["version"] == first + 1
    assert twin.get()["desired"]["$version"] == first + 1


def test_a_change_based_on_the_present_version_is_accepted(twin):
    """Contract of `desired/set`."""
    version = twin.set({"a": 1})["version"]
    assert twin.set({"$version": version, "a": 2})["status"] == 200


def test_a_change_based_on_an_old_version_is_a_conflict_with_the_present_state(twin):
    """Contract of `desired/set`: 409, and nothing changed."""
    version = twin.set({"a": 1})["version"]
    twin.set({"a": 2})
    answer = twin.set({"$version": version, "a": 3})
    assert answer["status"] == 409
    assert answer["desired"] == {"$version": version + 1, "a": 2}
    assert plain(twin.get()["desired"]) == {"a": 2}


@pytest.mark.parametrize("patch", [b"", b"not json", b"[1]", b"7", b'{"a": 1', b'{"$version": "x", "a": 1}', b"\xff"])
def test_what_is_no_merge_patch_is_refused_with_400(twin, patch):
    """Contract of `desired/set`."""
    assert twin.set(patch)["status"] == 400


def test_a_state_that_grows_too_large_is_refused_with_413(twin):
    """A twin has a limit; nothing of the patch is applied."""
    assert twin.set({"a": "x" * 100_000})["status"] == 413
    assert plain(twin.get()["desired"]) == {}


def test_reported_state_is_the_devices_own(twin):
    """Contract of `twin/reported`."""
    twin.report({"level": 0.5, "firmware": {"version": "1.2"}})
    twin.report({"level": 0.6})
    got = twin.get()
    assert plain(got["reported"]) == {"level": 0.6, "firmware": {"version": "1.2"}}
    assert plain(got["desired"]) == {}


def test_the_desired_state_is_retained_whole_with_its_version(twin, client, name):
    """Contract of `twin/desired`: a device that comes gets it by subscribing."""
    version = twin.set({"a": 1, "b": {"c": 2}})["version"]
    device = client(name)
    device.subscribe(f"devices/{name}/twin/desired")
    got = device.receive()
    assert got.retain and json.loads(got.payload) == {"$version": version, "a": 1, "b": {"c": 2}}


def test_a_device_that_is_there_hears_of_a_change(twin, client, name):
    """Contract of `twin/desired`."""
    device = client(name)
    device.subscribe(f"devices/{name}/twin/desired", retainHandling=2)
    version = twin.set({"a": 1})["version"]
    assert json.loads(device.receive().payload) == {"$version": version, "a": 1}


def test_twins_of_two_devices_are_apart(client, name):
    """Names are whole levels."""
    one, other = Twin(client(), f"{name}-1"), Twin(client(), f"{name}-11")
    one.set({"a": 1})
    assert plain(other.get()["desired"]) == {}


@pytest.mark.parametrize("durability", ["os", "disk"])
def test_a_twin_survives_a_kill(start, client, name, durability):
    """Promise 3: its acknowledgements promise it."""
    own = start(durability=durability)
    twin = Twin(client(to=own), name)
    version = twin.set({"a": 1})["version"]
    twin.report({"b": 2})
    own.kill()
    own.start()
    got = Twin(client(to=own), name).get()
    assert got["desired"] == {"$version": version, "a": 1}
    assert plain(got["reported"]) == {"b": 2}


def test_a_result_cannot_be_kept_as_if_it_were_the_state(dial, twin, name):
    """What the hub alone publishes is not written by others: desired state changes through `desired/set`."""
    twin.set({"a": 1})
    one = dial().open("")
    one.publish(f"devices/{name}/twin/desired", b'{"a": 666}', qos=1, packet_id=1, retain=True)
    one.expect(Kind.PUBACK)
    assert plain(twin.get()["desired"]) == {"a": 1}


def test_an_answer_comes_on_the_response_topic_as_well(client, name):
    """Section 4.10, for both requests."""
    asking = client()
    asking.subscribe(f"apps/{name}/answers")
    wanted = {"ResponseTopic": f"apps/{name}/answers", "CorrelationData": b"\x07"}
    asking.publish(f"devices/{name}/twin/desired/set", b'{"a": 1}', **wanted)
    asking.publish(f"devices/{name}/twin/get", b"", **wanted)
    for expected in ("version", "desired"):
        answer = asking.receive()
        assert answer.properties.CorrelationData == b"\x07" and expected in json.loads(answer.payload)


def test_the_desired_state_is_up_to_date_where_no_client_may_retain_any_more(start, client, name):
    """A bound on what clients retain is not one on the state that a device finds."""
    own = start(configuration="[limits]\nretained_messages = 2\n")
    twin, writer = Twin(client(to=own), name), client(to=own)
    twin.set({"a": 1})
    for number in range(4):
        writer.publish(f"full/{number}", b"x", retain=True)
    version = twin.set({"a": 2})["version"]
    device = client(name, to=own)
    device.subscribe(f"devices/{name}/twin/desired")
    assert json.loads(device.receive().payload) == {"$version": version, "a": 2}
    device.subscribe("full/#")
    assert device.payloads(2) == [b"x", b"x"]
    device.nothing_arrives()


def gauge(own, name: str) -> int:
    """A figure of the default tenant."""
    start = f'selvedge_{name}{{tenant="default"}} '
    return next(int(line.split()[-1]) for line in get(own, "/metrics")[1].splitlines() if line.startswith(start))


@pytest.fixture
def guarded(start):
    """A broker that lets nobody in without credentials."""
    return start(anonymous=False, http=True)


@pytest.fixture
def app(guarded, client):
    """An app of it."""
    return client(to=guarded, **add(guarded, "app", "dash").login())


def test_a_device_that_is_not_registered_gets_no_twin(guarded, app):
    """404, and nothing is kept that nobody would remove."""
    ghost = Twin(app, "ghost").set({"a": 1})
    assert ghost["status"] == 404 and "ghost" in ghost["message"]
    assert (gauge(guarded, "twins"), gauge(guarded, "twin_bytes")) == (0, 0)
    add(guarded, "device", "pump-7")
    assert Twin(app, "pump-7").set({"a": 1})["status"] == 200
    assert gauge(guarded, "twins") == 1 and gauge(guarded, "twin_bytes") > 100
    guarded.run("device", "remove", "pump-7")
    assert (gauge(guarded, "twins"), gauge(guarded, "twin_bytes")) == (0, 0)


def test_twins_count_into_what_a_tenant_may_store(guarded, app):
    """429 with what is the matter; a smaller state is always taken, and room that was made is room."""
    for name in ("pump-1", "pump-2"):
        add(guarded, "device", name)
    guarded.run("tenant", "set", "default", "--bytes", "60000")
    one, other = Twin(app, "pump-1"), Twin(app, "pump-2")
    assert one.set({"a": "x" * 20_000})["status"] == 200
    refused = other.set({"a": "x" * 30_000})
    assert refused["status"] == 429 and "store" in refused["message"]
    assert one.set({"a": 1})["status"] == 200
    assert other.set({"a": "x" * 20_000})["status"] == 200
    said = guarded.run("twin", "set", "pump-1", json.dumps({"a": "y" * 30_000}), check=False)
    assert said.returncode == 1 and "store" in said.stderr
    guarded.kill()
    guarded.start()
    assert gauge(guarded, "twins") == 2 and gauge(guarded, "twin_bytes") > 20_000
