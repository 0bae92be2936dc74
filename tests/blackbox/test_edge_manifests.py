"""Manifests that are applied at the cloud for an edge: they get there, take effect, and what became of each is told."""

from __future__ import annotations

import contextlib
import http.client
import json
import random

import pytest

from http_api import Api
from paho_client import Client
from raw import PATIENCE_S
from sites import PASSWORD, Edge, Site, wait_until

pytestmark = [pytest.mark.contract, pytest.mark.needs("cloud")]

OF_EDGE = "/v1/tenants/default/edges/hall-1/manifests"


@pytest.fixture
def site(site):
    """A cloud and an edge."""
    return site()


def route(name: str, to: str = "alarms/{device}", when: str = "payload.level < 0.1", tenant: str = "default") -> str:
    """A route of the edge's; its condition stands in line 7."""
    return f"""\
# For hall 1.
apiVersion: selvedge.dev/v1
kind: Route
metadata: {{name: {name}, namespace: {tenant}}}
spec:
  from: devices/+/telemetry
  when: {when}
  to:
    - topic: {to}
"""


def device(name: str, desired: str = "{interval_s: 10}") -> str:
    """What a device is to be."""
    return f"""\
apiVersion: selvedge.dev/v1
kind: Device
metadata: {{name: {name}}}
spec:
  labels: {{kind: pump}}
  desired: {desired}
"""


def apply(side, text: str, *words: str, check: bool = True):
    """`selvedge apply -f FILE`, at a cloud for the edge."""
    path = side.directory / "hall.yaml"
    path.write_text(text)
    words = words if isinstance(side, Edge) else ("--edge", "hall-1", *words)
    return side.run("apply", "-f", str(path), *words, check=check)


def manifests(site: Site) -> dict[str, dict]:
    """What `selvedge get manifests --edge hall-1` says, by name."""
    said = json.loads(site.cloud.run("get", "manifests", "--edge", "hall-1", "--output", "json").stdout)
    return {manifest["name"]: manifest for manifest in said}


def is_at(site: Site, name: str, state: str) -> bool:
    """Whether a manifest is in this state."""
    return name in manifests(site) and manifests(site)[name]["state"] == state


def routes(edge) -> str:
    """The routes that were applied there."""
    return edge.run("get", "routes").stdout


def pump(site: Site) -> Client:
    """The device at the edge."""
    return Client(site.edge.port, "pump-7", user="pump-7", password=PASSWORD).opened()


def dash(site: Site) -> Client:
    """An application at the edge."""
    site.edge.run("app", "add", "dash", "--password", PASSWORD)
    return Client(site.edge.port, "dash", user="dash", password=PASSWORD).opened()


def test_a_route_that_is_applied_at_the_cloud_routes_at_the_edge(site):
    """At once, since the edge is connected."""
    app, device = dash(site), pump(site)
    app.subscribe("alarms/+")
    said = apply(site.cloud, route("water-alarm")).stdout
    assert said.startswith("+ Route/water-alarm\n") and "selvedge get manifests --edge hall-1" in said
    wait_until(lambda: is_at(site, "water-alarm", "applied"), 5)
    for level in (0.5, 0.05):
        device.publish("devices/pump-7/telemetry", json.dumps({"level": level}))
    assert json.loads(app.receive().payload) == {"level": 0.05}
    told = manifests(site)["water-alarm"]
    assert (told["wanted"], told["on_edge"], told["error"]) == (1, 1, None)
    shown = site.cloud.run("get", "manifests", "--edge", "hall-1").stdout
    assert shown.split()[-4:] == ["Route/water-alarm", "applied", "1", "1"]
    assert "=" in apply(site.cloud, route("water-alarm")).stdout and manifests(site)["water-alarm"]["wanted"] == 1
    apply(site.cloud, route("water-alarm", when="payload.level < 0.9"))
    wait_until(lambda: manifests(site)["water-alarm"]["on_edge"] == 2, 5)
    device.publish("devices/pump-7/telemetry", json.dumps({"level": 0.5}))
    assert json.loads(app.receive().payload) == {"level": 0.5}
    for client in (app, device):
        client.disconnect()


def test_a_folder_is_applied_at_the_cloud_for_the_edge(site):
    """All of it, or where one is wrong nothing."""
    path = site.cloud.directory / "hall"
    path.mkdir()
    for name in ("high", "low"):
        (path / f"{name}.yaml").write_text(route(name))
    (path / "wrong.yaml").write_text(route("wrong", when="payload.level <"))
    words = ("apply", "-f", str(path), "--edge", "hall-1")
    refused = site.cloud.run(*words, check=False)
    assert refused.returncode == 1 and f"{path}/wrong.yaml:7" in refused.stderr and manifests(site) == {}
    (path / "wrong.yaml").unlink()
    assert site.cloud.run(*words).stdout.startswith("+ Route/high\n+ Route/low\n")
    wait_until(lambda: is_at(site, "high", "applied") and is_at(site, "low", "applied"), 5)


def test_a_device_that_is_applied_at_the_cloud_logs_in_at_the_edge_and_is_told_what_is_desired(site):
    """With the labels of the manifest, which a route of the edge's sees."""
    apply(site.cloud, device("pump-7"))
    wait_until(lambda: is_at(site, "pump-7", "applied"), 5)
    client = pump(site)
    client.subscribe("devices/pump-7/twin/desired")
    assert json.loads(client.receive().payload)["interval_s"] == 10
    client.disconnect()
    assert "kind=pump" in site.edge.run("describe", "device", "pump-7").stdout


def test_what_was_applied_while_the_edge_was_away_is_there_once_it_is_back(site):
    """The last of what was wanted of each, and nothing of what was taken back meanwhile."""
    site.edge.stop()
    apply(site.cloud, route("water-alarm", to="old/{device}"))
    apply(site.cloud, route("water-alarm", to="new/{device}") + "---\n" + route("gone"))
    site.cloud.run("delete", "route", "gone", "--edge", "hall-1")
    assert {name: one["state"] for name, one in manifests(site).items()} == {
        "water-alarm": "waiting",
        "gone": "removing",
    }
    site.edge.start()
    wait_until(lambda: list(manifests(site)) == ["water-alarm"] and is_at(site, "water-alarm", "applied"))
    assert "new/{device}" in site.edge.run("describe", "route", "water-alarm").stdout
    assert "gone" not in routes(site.edge)


def test_what_was_applied_during_a_cut_is_there_once_the_line_is_mended(site):
    site.line.cut()
    apply(site.cloud, route("water-alarm"))
    assert is_at(site, "water-alarm", "waiting")
    site.line.mend()
    wait_until(lambda: is_at(site, "water-alarm", "applied"), 60)
    assert "water-alarm" in routes(site.edge)


def test_what_is_removed_at_the_cloud_is_removed_at_the_edge(site):
    """A device stays, without the labels of the manifest."""
    apply(site.cloud, route("water-alarm") + "---\n" + device("pump-7"))
    wait_until(lambda: is_at(site, "water-alarm", "applied") and is_at(site, "pump-7", "applied"))
    site.cloud.run("delete", "route", "water-alarm", "--edge", "hall-1")
    site.cloud.run("delete", "device", "pump-7", "--edge", "hall-1")
    wait_until(lambda: manifests(site) == {}, 5)
    assert "water-alarm" not in routes(site.edge)
    described = site.edge.run("describe", "device", "pump-7").stdout
    assert "kind=pump" not in described and "interval_s" in described
    pump(site).disconnect()
    again = site.cloud.run("delete", "route", "water-alarm", "--edge", "hall-1", check=False)
    assert "no Route/water-alarm was applied for the edge hall-1" in again.stderr


def test_kills_of_both_sides_lose_nothing_that_was_applied_or_said_of_it(site):
    """Whatever they were doing."""
    for number in range(6):
        apply(site.cloud, route(f"alarm-{number}"))
        side = (site.cloud, site.edge)[number % 2]
        side.kill()
        side.start()
    site.edge.is_connected()
    wait_until(lambda: all(is_at(site, f"alarm-{number}", "applied") for number in range(6)))
    site.cloud.kill()
    site.edge.kill()
    site.cloud.start()
    told = manifests(site)
    assert {one["state"] for one in told.values()} == {"applied"} and len(told) == 6
    site.edge.start()
    assert all(f"alarm-{number}" in routes(site.edge) for number in range(6))
    # Nothing of it is sent again: a route that were new would count anew.
    site.edge.is_connected()
    assert manifests(site) == told


def test_through_random_applies_removals_cuts_and_kills_the_edge_ends_with_what_is_wanted(site):
    """No more, no less, and the last of each."""
    dice, wanted = random.Random(17), {}
    for step in range(40):
        name = f"alarm-{dice.choice('abcd')}"
        match dice.randrange(7):
            case 0:
                site.line.hang_up()
            case 1:
                side = dice.choice([site.cloud, site.edge])
                side.kill()
                side.start()
            case 2 | 3 if name in wanted:
                site.cloud.run("delete", "route", name, "--edge", "hall-1")
                del wanted[name]
            case _:
                wanted[name] = f"step-{step}/{{device}}"
                apply(site.cloud, route(name, to=wanted[name]))
    wait_until(lambda: set(manifests(site)) == set(wanted) and all(is_at(site, name, "applied") for name in wanted), 60)
    there = json.loads(site.edge.run("get", "routes", "--output", "json").stdout)
    assert {one["name"] for one in there if one["name"].startswith("alarm-")} == set(wanted)
    for name, to in wanted.items():
        assert to in site.edge.run("describe", "route", name).stdout


MISTAKES = [
    ("kind: Route", "kind: Alarm", "hall.yaml:3: kind: ", 'unknown kind "Alarm"; there are Device, Route'),
    ("when:", "whne:", "hall.yaml:7: spec.whne: ", "when"),
    ("payload.level < 0.1", "payload.level <", "hall.yaml:7: spec.when: ", ""),
    ("namespace: default", "namespace: acme", "hall.yaml:4: metadata.namespace: ", "does not speak for"),
]


@pytest.mark.parametrize(("right", "wrong", "place", "hint"), MISTAKES)
def test_what_is_wrong_in_a_manifest_is_named_with_its_place_at_the_cloud(site, right, wrong, place, hint):
    """And nothing of its file is applied."""
    text = route("water-alarm").replace(right, wrong) + "---\n" + route("fine")
    refused = apply(site.cloud, text, check=False)
    assert refused.returncode == 1
    assert place in refused.stderr and hint in refused.stderr and "nothing was applied" in refused.stderr
    assert manifests(site) == {}


def test_a_dry_run_changes_nothing(site):
    assert apply(site.cloud, route("water-alarm"), "--dry-run").stdout == "+ Route/water-alarm\n"
    assert manifests(site) == {}


def test_what_the_edge_refuses_is_shown_at_the_cloud_as_the_edge_would_print_it(site):
    """And is applied once the edge can."""
    text = route("water-alarm") + "---\n" + device("pump-9")
    apply(site.cloud, text)
    wait_until(lambda: is_at(site, "pump-9", "refused") and is_at(site, "water-alarm", "applied"), 5)
    here = apply(site.edge, text, "--take-over", check=False).stderr.strip()
    told = manifests(site)["pump-9"]
    assert 'hall.yaml:13: metadata.name: no device "pump-9"' in told["error"]
    assert told["error"].split("hall.yaml")[1] == here.split("hall.yaml")[1]
    assert (told["wanted"], told["on_edge"]) == (1, None)
    assert "no device" in site.cloud.run("get", "manifests", "--edge", "hall-1").stdout
    site.edge.run("device", "add", "pump-9", "--password", PASSWORD)
    said = apply(site.cloud, text).stdout
    assert "~ Device/pump-9: again, the edge refused it" in said and "= Route/water-alarm unchanged" in said
    wait_until(lambda: is_at(site, "pump-9", "applied"), 5)


def test_what_the_edge_refused_takes_effect_by_itself_once_it_can(site):
    apply(site.cloud, device("pump-9"))
    wait_until(lambda: is_at(site, "pump-9", "refused"), 5)
    site.edge.run("device", "add", "pump-9", "--password", PASSWORD)
    wait_until(lambda: is_at(site, "pump-9", "applied"), 60)
    site.edge.run("device", "remove", "pump-9")
    wait_until(lambda: is_at(site, "pump-9", "refused"), 5)


def test_a_device_that_is_added_at_the_cloud_after_its_manifest_logs_in_at_the_edge(site):
    """The record comes by itself, and then the manifest takes effect."""
    apply(site.cloud, device("pump-9"))
    wait_until(lambda: is_at(site, "pump-9", "refused"), 5)
    site.cloud.run("device", "add", "pump-9", "--edge", "hall-1", "--password", PASSWORD)
    wait_until(lambda: is_at(site, "pump-9", "applied"), 10)
    client = Client(site.edge.port, "pump-9", user="pump-9", password=PASSWORD).opened()
    client.subscribe("devices/pump-9/twin/desired")
    assert json.loads(client.receive().payload)["interval_s"] == 10
    client.disconnect()
    assert "kind=pump" in site.cloud.run("describe", "device", "pump-9").stdout
    site.cloud.run("device", "remove", "pump-9")
    wait_until(lambda: is_at(site, "pump-9", "refused"), 10)


def test_a_revision_that_is_refused_leaves_the_one_before_in_effect(site):
    apply(site.cloud, device("pump-7"))
    wait_until(lambda: is_at(site, "pump-7", "applied"), 5)
    apply(site.cloud, device("pump-7", "{$meta: 1}"))
    wait_until(lambda: is_at(site, "pump-7", "refused"), 5)
    told = manifests(site)["pump-7"]
    assert (told["wanted"], told["on_edge"]) == (2, 1) and "hall.yaml:6: spec.desired" in told["error"]


def test_the_edge_refuses_to_change_what_is_the_clouds_unless_it_is_taken_over(site):
    """What is taken over stays so, through restarts, until it is applied at the cloud again."""
    apply(site.cloud, route("water-alarm"))
    wait_until(lambda: is_at(site, "water-alarm", "applied"), 5)
    own = route("water-alarm", to="own/{device}")
    refused = apply(site.edge, own, check=False).stderr
    assert "hall.yaml:4: metadata.name: Route/water-alarm is the cloud's" in refused and "--take-over" in refused
    refused = site.edge.run("delete", "route", "water-alarm", check=False).stderr
    assert "Route/water-alarm is the cloud's" in refused
    assert "alarms/{device}" in site.edge.run("describe", "route", "water-alarm").stdout
    apply(site.edge, own, "--take-over")
    wait_until(lambda: is_at(site, "water-alarm", "taken-over"), 5)
    apply(site.edge, own)
    for side in (site.edge, site.cloud):
        side.stop()
        side.start()
    site.edge.is_connected()
    assert is_at(site, "water-alarm", "taken-over")
    assert "own/{device}" in site.edge.run("describe", "route", "water-alarm").stdout
    assert "again" in apply(site.cloud, route("water-alarm")).stdout
    wait_until(lambda: is_at(site, "water-alarm", "applied"), 5)
    assert "alarms/{device}" in site.edge.run("describe", "route", "water-alarm").stdout
    site.edge.run("delete", "route", "water-alarm", "--take-over")
    wait_until(lambda: is_at(site, "water-alarm", "taken-over"), 5)
    apply(site.edge, own)
    site.cloud.run("delete", "route", "water-alarm", "--edge", "hall-1")
    wait_until(lambda: manifests(site) == {}, 5)
    assert "own/{device}" in site.edge.run("describe", "route", "water-alarm").stdout


def test_what_was_applied_at_the_edge_before_becomes_the_clouds(site):
    apply(site.edge, route("water-alarm", to="own/{device}"))
    apply(site.cloud, route("water-alarm"))
    wait_until(lambda: is_at(site, "water-alarm", "applied"), 5)
    assert "alarms/{device}" in site.edge.run("describe", "route", "water-alarm").stdout


def test_a_cloud_that_was_restored_from_a_backup_takes_nothing_from_the_edge(site):
    """What it does not know is shown, and is the operator's to apply or remove."""
    apply(site.cloud, route("old"))
    wait_until(lambda: is_at(site, "old", "applied"), 5)
    site.cloud.stop()
    kept = site.cloud.data / "manifests-of-edges"
    backup = {path: path.read_bytes() for path in kept.rglob("*.json")}
    site.cloud.start()
    names = ("young", "younger")
    apply(site.cloud, "---\n".join([route("old", to="newer/{device}"), *map(route, names)]))
    site.edge.is_connected()
    wait_until(lambda: all(is_at(site, name, "applied") for name in ("old", *names)))
    site.cloud.stop()
    for path in kept.rglob("*.json"):
        path.unlink()
    for path, content in backup.items():
        path.write_bytes(content)
    # It gets the number of the revision that the edge has.
    apply(site.cloud, route("younger", to="other/{device}"))
    assert manifests(site)["younger"]["wanted"] == 2
    site.cloud.start()
    wait_until(lambda: all(is_at(site, name, "applied") for name in ("old", "younger")))
    wait_until(lambda: is_at(site, "young", "unknown"))
    assert "alarms/{device}" in site.edge.run("describe", "route", "old").stdout
    assert "other/{device}" in site.edge.run("describe", "route", "younger").stdout
    assert "young " in routes(site.edge)
    site.cloud.run("delete", "route", "young", "--edge", "hall-1")
    wait_until(lambda: "young" not in manifests(site), 5)
    assert "young " not in routes(site.edge)


def test_who_may_apply_and_see_what(site):
    """Operators of the whole cloud apply; a tenant's viewers see; another tenant sees that there is nothing."""
    site.cloud.run("tenant", "add", "acme")
    site.edge.run("tenant", "add", "acme")
    users = {"root": "operator", "vera": "viewer", "default/olga": "operator", "acme/anna": "admin"}
    for name, role in users.items():
        site.cloud.run("user", "add", name, "--role", role, "--password", PASSWORD)
    apis = {name: Api(site.cloud).log_in(name, PASSWORD) for name in users}
    body = {"file": "hall.yaml", "text": route("water-alarm")}
    statuses = {name: api.ask("POST", OF_EDGE, body)[0] for name, api in apis.items()}
    assert statuses == {"root": 200, "vera": 403, "default/olga": 403, "acme/anna": 404}
    listed = {name: api.ask("GET", OF_EDGE) for name, api in apis.items()}
    assert {name: status for name, (status, _) in listed.items()} == {
        "root": 200,
        "vera": 200,
        "default/olga": 200,
        "acme/anna": 404,
    }
    assert [one["name"] for one in listed["default/olga"][1]["items"]] == ["water-alarm"]
    one = f"{OF_EDGE}/default/Route/water-alarm"
    assert [api.ask("DELETE", one)[0] for api in apis.values()] == [204, 403, 403, 404]
    assert apis["root"].ask("POST", OF_EDGE.replace("hall-1", "hall-2"), body)[0] == 404
    wrong = apis["root"].ask("POST", OF_EDGE, body | {"text": route("x", tenant="acme")})
    assert wrong[0] == 422 and "does not speak for" in wrong[1]["error"]


def text_of(site: Site, user: Api, path: str) -> str:
    """A manifest as it was applied."""
    connection = http.client.HTTPConnection("127.0.0.1", site.cloud.http_port, timeout=PATIENCE_S)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={"authorization": user.authorization})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (200, "application/yaml")
        return answer.read().decode()


def test_an_edge_applies_only_for_the_tenants_that_it_speaks_for(site):
    """Of those, a tenant's user sees its own, and what is not the edge's to apply any more is not sent."""
    for side in (site.cloud, site.edge):
        side.run("tenant", "add", "acme")
    site.cloud.run("edge", "label", "hall-1", "tenants=acme")
    site.edge.stop()
    site.edge.start()
    apply(site.cloud, route("water-alarm", tenant="acme") + "---\n" + route("own"))
    wait_until(lambda: is_at(site, "water-alarm", "applied") and is_at(site, "own", "applied"))
    assert "water-alarm" in site.edge.run("get", "routes", "--tenant", "acme").stdout
    site.cloud.run("user", "add", "default/vera", "--role", "viewer", "--password", PASSWORD)
    vera = Api(site.cloud).log_in("default/vera", PASSWORD)
    assert [one["name"] for one in vera.ask("GET", OF_EDGE)[1]["items"]] == ["own"]
    assert vera.ask("GET", f"{OF_EDGE}/acme/Route/water-alarm")[0] == 404
    assert text_of(site, vera, f"{OF_EDGE}/default/Route/own") == route("own").removeprefix("# For hall 1.\n")
    site.edge.stop()
    apply(site.cloud, route("water-alarm", tenant="acme", to="late/{device}"))
    site.cloud.run("edge", "label", "hall-1", "tenants-")
    site.edge.start()
    apply(site.cloud, route("later"))
    wait_until(lambda: is_at(site, "later", "applied"))
    held_back = manifests(site)["water-alarm"]
    assert held_back["state"] == "waiting" and 'does not speak for "acme"' in held_back["error"]
    assert "alarms/{device}" in site.edge.run("describe", "route", "water-alarm", "--tenant", "acme").stdout


def test_manifests_of_an_edge_are_bounded_in_number_and_bytes(site):
    """What would be too much is refused at once."""
    long = route("long") + f"# {'x' * (64 << 10)}\n"
    refused = apply(site.cloud, long, check=False).stderr
    assert "a manifest for an edge has at most 65536" in refused
    many = "---\n".join(route(f"alarm-{number}") for number in range(1001))
    refused = apply(site.cloud, many, check=False).stderr
    assert "1001 manifests" in refused and "it may have 1000" in refused
    assert manifests(site) == {}


def test_many_manifests_get_there_beside_live_messages(site):
    """More than an edge has routes: the last ones are refused there, and none is lost."""
    apply(site.cloud, "---\n".join(route(f"alarm-{number:03}") for number in range(300)))
    wait_until(lambda: not any(one["state"] == "waiting" for one in manifests(site).values()), 120)
    states = [one["state"] for one in manifests(site).values()]
    assert states.count("applied") == 256 and states.count("refused") == 44
    assert "more than 256 routes" in manifests(site)["alarm-299"]["error"]
    assert site.edge.link()["is_connected"]


def test_an_edge_that_was_removed_leaves_nothing_behind(site):
    apply(site.cloud, route("water-alarm"))
    site.cloud.run("edge", "remove", "hall-1")
    assert "no edge" in site.cloud.run("get", "manifests", "--edge", "hall-1", check=False).stderr
    site.cloud.run("edge", "add", "hall-1")
    assert manifests(site) == {}
