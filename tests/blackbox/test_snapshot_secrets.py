"""Secrets of an application in its snapshot, sealed; and snapshots where nothing of it runs."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from applications import Host, application, apply, runs
from brokers import PORTS, Selvedge
from http_api import Api
from sites import PASSWORD, wait_until
from test_images import SLEEPS, build
from test_networks import SERVES, ask
from test_on_demand import sleeper, sleeps
from test_snapshots import CLAIM, checked, edge, hostile, keeping, kept, listed, taken

__all__ = ["edge"]

pytestmark = [pytest.mark.contract, pytest.mark.needs("snapshot")]

TOKEN = "a-token-that-nobody-sees"
SEALED = "application/vnd.selvedge.secrets.v1+sealed"
SHOWS = "echo token is $TOKEN, low is $LOW; exec sleep 1000"
HAS_TOKEN = ", env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: keys, key: token}}}]"
GIVEN = HAS_TOKEN + ", envFrom: [{configMapRef: {name: limits}}]"


@pytest.fixture
def passphrase(tmp_path) -> Path:
    """A file with one, not all of which is text."""
    path = tmp_path / "passphrase"
    path.write_bytes(bytes(range(200, 232)) + b"\n")
    return path


def values(token: str, low: int) -> str:
    """A Secret and a ConfigMap."""
    return (
        f"apiVersion: v1\nkind: Secret\nmetadata: {{name: keys}}\nstringData: {{token: {token}}}\n---\n"
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: limits}}\ndata: {{LOW: '{low}'}}\n"
    )


def given(token: str = TOKEN, low: int = 7) -> str:
    """An application that says what it is given."""
    return application("site", SHOWS, GIVEN) + "---\n" + values(token, low)


def says(edge: Selvedge, name: str, words: str) -> None:
    """Waits until an application has said this."""
    wait_until(lambda: words in edge.run("logs", name, check=False).stdout)


def known(edge: Selvedge) -> list[str]:
    """Names of all that is applied."""
    kinds = ("deployments", "configmaps", "secrets")
    found = [json.loads(edge.run("get", kind, "--output", "json").stdout) for kind in kinds]
    return sorted(one["name"] for of_kind in found for one in of_kind)


def exported(edge: Selvedge, name: str, file: Path) -> Path:
    """The file of a snapshot."""
    edge.run("snapshot", "export", name, str(file))
    return file


def test_an_application_has_its_secret_on_another_edge_and_nobody_reads_it_on_the_way(edge, tmp_path, passphrase):
    here, there = edge(), edge()
    apply(here, given())
    runs(here, "site")
    without = taken(here, "site", "--name", "without")
    assert without["secrets"] == []
    assert "Secret keys, as there is no passphrase to seal it by" in without["left_out"]
    said = here.run("snapshot", "create", "site", "--name", "s", "--passphrase-file", str(passphrase))
    assert "sealed in it: Secret keys" in said.stdout and "not in it: Secret" not in said.stdout
    file = exported(here, "s", tmp_path / "s.tar")
    text = file.read_bytes()
    for secret in (TOKEN.encode(), passphrase.read_bytes().strip()):
        for shape in (secret, base64.b64encode(secret), secret.hex().encode()):
            assert shape not in text
            assert shape not in here.log.read_bytes()
    # An import that is told the passphrase says at once whether it is the right one.
    there.run("snapshot", "import", str(file), "--passphrase-file", str(passphrase))
    there.run("snapshot", "restore", "s", "--passphrase-file", str(passphrase))
    says(there, "site", f"token is {TOKEN}, low is 7")
    assert listed(there)[0]["secrets"] == ["keys"]


def damaged(good: Path, bad: Path, change: Callable[[bytes], bytes]) -> Path:
    """An archive in which the Secrets are something else, with all digests right."""
    manifest, blobs = checked(good)

    def put(files: dict[str, bytes], content: bytes) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        files[f"blobs/sha256/{digest}"] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    def replaced(files: dict[str, bytes], _more: list[tarfile.TarInfo]) -> None:
        layers = [
            {**layer, **put(files, change(blobs[layer["digest"]]))} if layer["mediaType"] == SEALED else layer
            for layer in manifest["layers"]
        ]
        index = json.loads(files["index.json"])
        index["manifests"][0] |= put(files, json.dumps({**manifest, "layers": layers}).encode())
        files["index.json"] = json.dumps(index).encode()

    return hostile(good, bad, replaced)


def test_without_its_passphrase_or_damaged_nothing_of_it_comes_back(edge, tmp_path, passphrase):
    here, there = edge(), edge()
    apply(here, given())
    runs(here, "site")
    taken(here, "site", "--name", "s", "--passphrase-file", str(passphrase))
    file = exported(here, "s", tmp_path / "s.tar")
    other, short = tmp_path / "other", tmp_path / "short"
    other.write_text("some other passphrase")
    short.write_text("short")
    shut = "its Secrets: it cannot be opened: the passphrase is another one, or it is damaged"
    refused = there.run("snapshot", "import", str(file), "--passphrase-file", str(other), check=False)
    assert refused.returncode == 1 and shut in refused.stderr and listed(there) == []
    there.run("snapshot", "import", str(file))
    for words, said in (
        ([], "comes back only with the passphrase that it was taken with (--passphrase-file FILE)"),
        (["--passphrase-file", str(other)], shut),
        (["--passphrase-file", str(short)], "has less than 12 bytes"),
        (["--passphrase-file", str(tmp_path / "absent")], "absent: No such file"),
    ):
        refused = there.run("snapshot", "restore", "s", *words, check=False)
        assert refused.returncode == 1 and said in refused.stderr, refused.stderr
        assert known(there) == []
    flipped = lambda at: lambda sealed: sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]  # noqa: E731
    for number, (change, said) in enumerate(
        (
            (lambda sealed: sealed[:-1], shut),
            (lambda sealed: sealed[:20], "it was not sealed by selvedge"),
            (flipped(12), shut),
            (flipped(59), shut),
            # 2 GiB of memory to make the key.
            (lambda sealed: sealed[:24] + b"\x00\x20\x00\x00" + sealed[28:], "it was not sealed by selvedge"),
            (lambda sealed: sealed + bytes(5 << 20), "has more than"),
        )
    ):
        bad = damaged(file, tmp_path / "bad.tar", change)
        name = f"bad{number}"
        done = there.run("snapshot", "import", str(bad), "--name", name, check=False)
        if done.returncode == 0:
            done = there.run("snapshot", "restore", name, "--passphrase-file", str(passphrase), check=False)
        assert done.returncode == 1 and said in done.stderr, (number, done.stderr)
        assert known(there) == []
    there.run("snapshot", "restore", "s", "--passphrase-file", str(passphrase))
    assert known(there) == ["keys", "limits", "site"]


def test_by_schedule_they_are_sealed_by_the_edges_passphrase_and_a_failure_is_an_event(edge, tmp_path, passphrase):
    absent = tmp_path / "later"
    here = edge(configuration=f"[snapshots]\npassphrase_file = '{absent}'\n")
    every = "metadata: {name: site, annotations: {selvedge.dev/snapshot-every: 10s}}"
    apply(here, given().replace("metadata: {name: site}", every, 1))
    failures = lambda: [  # noqa: E731
        one for one in json.loads(here.run("events", "--output", "json").stdout) if one["what"] == "snapshot-failed"
    ]
    wait_until(lambda: failures() != [], patience_s=30)
    (failed,) = failures()
    assert failed["deployment"] == "site" and failed["container"] == ""
    assert f"[snapshots] passphrase_file {absent}: No such file" in failed["message"]
    assert "snapshot-failed" in here.run("events", "site").stdout and listed(here) == []
    os.link(passphrase, absent)
    wait_until(lambda: listed(here) != [], patience_s=30)
    snapshot = listed(here)[0]
    assert snapshot["is_scheduled"] and snapshot["secrets"] == ["keys"] and len(failures()) == 1
    here.run("snapshot", "restore", snapshot["name"], "--as", "copy", "--passphrase-file", str(passphrase))
    says(here, "copy", f"token is {TOKEN}")


def test_a_copy_beside_has_secrets_and_config_maps_of_its_own(edge, passphrase):
    here = edge()
    apply(here, given())
    runs(here, "site")
    taken(here, "site", "--name", "s", "--passphrase-file", str(passphrase))
    taken(here, "site", "--name", "without")
    apply(here, given("another-one", 9))
    says(here, "site", "token is another-one, low is 9")
    here.run("snapshot", "restore", "s", "--as", "copy", "--passphrase-file", str(passphrase))
    says(here, "copy", f"token is {TOKEN}, low is 7")
    assert known(here) == ["copy", "copy-keys", "copy-limits", "keys", "limits", "site"]
    said = apply(here, given("another-one", 9), "--dry-run").stdout.splitlines()
    assert len(said) == 3 and all(line.endswith(" unchanged") for line in said), said
    # A Secret that is not in the snapshot is the one that is there.
    here.run("snapshot", "restore", "without", "--as", "other")
    says(here, "other", "token is another-one, low is 7")
    long = "x" * 60
    refused = here.run("snapshot", "restore", "without", "--as", long, check=False)
    assert refused.returncode == 1 and f'"{long}-limits" is no name here' in refused.stderr, refused.stderr


def test_what_sleeps_or_has_no_replica_is_taken_without_a_pause(edge, tmp_path):
    here, there = edge(), edge()
    build(here, "box:1")
    port = PORTS.take()
    text = sleeper("site", f"echo awake >> /data/note; {SERVES}", port)
    mounts = ", volumeMounts: [{name: files, mountPath: /data}]}"
    text = text.replace("      containers:", f"      {CLAIM}\n      containers:").replace("}]}\n", "}]" + mounts + "\n")
    apply(here, text)
    assert ask("127.0.0.1", port) == "it is site-0"
    wait_until(lambda: sleeps(here, "site"))
    asleep = taken(here, "site", "--name", "asleep")
    assert asleep["paused_ms"] is None and asleep["volumes"][0]["entries"] == 1
    apply(here, keeping("none", SLEEPS).replace("replicas: 1", "replicas: 0"))
    none = taken(here, "none", "--name", "none")
    assert none["paused_ms"] is None and none["images"][0]["digest"] is not None
    assert sleeps(here, "site")
    assert ask("127.0.0.1", port) == "it is site-0"  # It wakes as before.
    for name in ("asleep", "none"):
        there.run("snapshot", "import", str(exported(here, name, tmp_path / f"{name}.tar")))
        there.run("snapshot", "restore", name, "--as", name)
        assert (kept(there, f"{name}-history") / "note").read_text().startswith("awake\n")


def test_an_edge_that_is_stopped_takes_and_restores_unless_what_it_keeps_is_in_use(edge, tmp_path, passphrase):
    here = edge()
    build(here, "box:1")
    text = keeping("site", f"echo token is $TOKEN; {SLEEPS}").replace(", volumeMounts", HAS_TOKEN + ", volumeMounts")
    apply(here, text + "---\n" + values(TOKEN, 7))
    runs(here, "site")
    (kept(here) / "note").write_text("first")
    taken(here, "site", "--name", "first", "--passphrase-file", str(passphrase))
    here.stop()
    by = ["--passphrase-file", str(passphrase)]
    # Its containers run on without it.
    refused = here.run("snapshot", "create", "site", check=False)
    assert refused.returncode == 1 and "a container that still does has volume history" in refused.stderr
    refused = here.run("snapshot", "restore", "first", "--force", *by, check=False)
    assert refused.returncode == 1 and "containers have its volumes, and run on" in refused.stderr
    for pid in Host(here).pids():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all((one / "ended.json").exists() for one in Host(here).containers.iterdir()))
    (kept(here) / "note").write_text("second")
    second = taken(here, "site", "--name", "second", *by)
    assert second["paused_ms"] is None and second["secrets"] == ["keys"]
    here.run("delete", "secret", "keys")
    assert "comes back only with the passphrase" in here.run("snapshot", "restore", "first", check=False).stderr
    here.run("snapshot", "restore", "first", "--force", *by)
    assert (kept(here) / "note").read_text() == "first"
    assert [one["name"] for one in listed(here)] == ["first", "second"]
    exported(here, "second", tmp_path / "second.tar")
    here.start()
    runs(here, "site")
    says(here, "site", f"token is {TOKEN}")
    assert (kept(here) / "note").read_text() == "first"


def test_who_may_not_apply_has_no_secret_sealed_by_a_passphrase_of_its_own(edge, passphrase):
    here = edge(http=True)
    apply(here, given())
    runs(here, "site")
    for user in ("default/olga", "oscar"):
        here.run("user", "add", user, "--role", "operator", "--password", PASSWORD)
    olga, oscar = (Api(here).log_in(user, PASSWORD) for user in ("default/olga", "oscar"))
    path = "/v1/tenants/default/deployments/site/snapshots"
    text = base64.b64encode(passphrase.read_bytes().strip()).decode()
    assert olga.ask("POST", path, {"passphrase": text})[0] == 403
    status, said = olga.ask("POST", path, {})
    assert status == 200 and said["secrets"] == []
    for wrong, words in (("no Base64!", "passphrase is no Base64"), ("c2hvcnQ=", "less than 12 bytes")):
        status, said = oscar.ask("POST", path, {"passphrase": wrong})
        assert status == 422 and words in said["error"], said
    status, said = oscar.ask("POST", path, {"passphrase": text, "name": "s"})
    assert status == 200 and said["secrets"] == ["keys"]
    here.run("delete", "secret", "keys")
    where = "/v1/tenants/default/snapshots/s/restore"
    status, said = oscar.ask("POST", where, {})
    assert status == 422 and "comes back only with the passphrase" in said["error"], said
    status, said = oscar.ask("POST", where, {"passphrase": text})
    assert status == 200 and "+ Secret/keys" in said["changes"], said
