"""Snapshots of applications: consistent though they write, small where little has changed, whole elsewhere."""

from __future__ import annotations

import hashlib
import io
import json
import os
import socket
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from applications import Host, application, apply, deployment, ending, runs, runs_now
from brokers import Selvedge
from engines import IMAGE
from http_api import Api
from raw import SLOWNESS
from sites import PASSWORD, wait_until
from test_disk import on
from test_docker import in_docker
from test_images import SLEEPS, build, images, of_image

pytestmark = [pytest.mark.contract, pytest.mark.needs("snapshot")]

# Two files that are never further apart than one line. Where it finds them it leaves them as they are.
WRITES = "[ -e $D/one ] && exec sleep 1000; i=0; while :; do i=$((i+1)); echo $i >> $D/one; echo $i >> $D/two; done"
CLAIM = "volumes: [{name: files, persistentVolumeClaim: {claimName: history}}]"


@pytest.fixture
def edge(start, request) -> Iterator[Callable[[], Selvedge]]:
    """Makes edges whose applications end with the test; with a Docker Engine where the test wants one."""
    made: list[Selvedge] = []
    words: dict = {}
    if "docker" in request.node.name:
        words["environment"] = {"DOCKER_HOST": f"unix://{request.getfixturevalue('engine').socket}"}

    def make(**settings: object) -> Selvedge:
        made.append(start(**words, **settings))
        return made[-1]

    yield make
    for one in made:
        with ending(one):
            pass
    if words:
        request.getfixturevalue("engine").clear()


def annotated(text: str, annotations: str) -> str:
    """With annotations of its own."""
    name = text.split("{name: ", 1)[1].split("}", 1)[0]
    return text.replace(f"{{name: {name}}}", f"{{name: {name}, annotations: {{{annotations}}}}}", 1)


def keeping(name: str, script: str, runtime: str = "oci", annotations: str = "") -> str:
    """An application that has the claim `history` at /data."""
    more = ", volumeMounts: [{name: files, mountPath: /data}]"
    text = in_docker(name, script, more) if runtime == "docker" else of_image(name, script, more)
    text = text.replace("      containers:", f"      {CLAIM}\n      containers:")
    return annotated(text, annotations) if annotations else text


def kept(edge: Selvedge, claim: str = "history", tenant: str = "default") -> Path:
    """Where a volume is."""
    return edge.data / "volumes/kept" / tenant / claim


def taken(edge: Selvedge, application: str, *words: str) -> dict:
    """A new snapshot."""
    return json.loads(edge.run("snapshot", "create", application, *words, "--output", "json").stdout)


def listed(edge: Selvedge, *words: str) -> list[dict]:
    """Those that are here."""
    return json.loads(edge.run("snapshot", "list", *words, "--output", "json").stdout)


def stored(edge: Selvedge) -> int:
    """Bytes that all of them take."""
    return sum(path.stat().st_size for path in (edge.data / "snapshots/blobs").rglob("*") if path.is_file())


def is_frozen(pid: int) -> bool:
    """By its control group, or that above."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        group = line.split(":", 2)[2].strip("/")
        for place in (
            Path("/sys/fs/cgroup", group, "cgroup.freeze"),
            Path("/sys/fs/cgroup/freezer", group, "freezer.state"),
        ):
            if place.exists() and place.read_text().strip() in ("1", "FROZEN", "FREEZING"):
                return True
    return False


def is_consistent(directory: Path) -> int:
    """Whether the two files are as one moment had them; how far they had come."""
    one, two = ((directory / name).read_text() for name in ("one", "two"))
    assert one.startswith(two) and len(one) - len(two) <= 8, (one[-30:], two[-30:])
    assert one.split() == [str(number + 1) for number in range(one.count("\n"))]
    return one.count("\n")


@pytest.mark.parametrize("runtime", ["oci", "docker"])
def test_what_writes_all_the_time_is_of_one_moment_on_another_edge(edge, tmp_path, runtime):
    here, there = edge(), edge()
    if runtime == "oci":
        build(here, "box:1")
    text = keeping("counter", WRITES.replace("$D", "/data"), runtime)
    apply(here, text)
    runs(here, "counter")
    wait_until((kept(here) / "two").exists)
    for number in range(5):
        time.sleep(0.1)
        snapshot = taken(here, "counter", "--name", f"s{number}")
        assert snapshot["paused_ms"] is not None and snapshot["paused_ms"] < 5_000, snapshot
    before = (kept(here) / "one").stat().st_size
    wait_until(lambda: (kept(here) / "one").stat().st_size > before)  # It goes on.
    reached = []
    for number in range(5):
        archive = tmp_path / f"s{number}.tar"
        here.run("snapshot", "export", f"s{number}", str(archive))
        there.run("snapshot", "import", str(archive))
        there.run("snapshot", "restore", f"s{number}", "--as", f"copy{number}")
        reached.append(is_consistent(kept(there, f"copy{number}-history")))
    assert reached == sorted(set(reached)), reached
    runs(there, "copy4")
    assert [listed(there)[number]["name"] for number in range(5)] == [f"s{number}" for number in range(5)]
    if runtime == "oci":
        assert images(there) == images(here)


def test_an_image_of_a_docker_engine_is_in_it_and_comes_back_to_an_engine_that_has_it_not(edge, engine, tmp_path):
    here, there = edge(), edge()
    files = ["tar", "-C", str(engine.place / "box"), "--mtime=2001-01-01", "-c", "."]
    packed = subprocess.run(files, capture_output=True, check=True).stdout
    engine.docker("import", "-", "box:mine", stdin=packed)
    apply(here, keeping("site", SLEEPS, "docker").replace(IMAGE, "box:mine"))
    runs(here, "site")
    first = taken(here, "site", "--name", "s")
    assert (first["left_out"], first["images"][0]["name"]) == ([], "box:mine")
    assert first["images"][0]["digest"].startswith("sha256:") and first["bytes"] > 1_000_000
    assert taken(here, "site", "--name", "t")["own_bytes"] < 100_000
    here.run("snapshot", "export", "s", str(tmp_path / "s.tar"))
    here.run("delete", "deployment", "site")
    engine.clear()
    engine.docker("rmi", "--force", "box:mine")
    there.run("snapshot", "import", str(tmp_path / "s.tar"))
    there.run("snapshot", "restore", "s")
    runs(there, "site")
    engine.docker("rmi", "--force", "box:mine", check=False)


def test_a_program_of_the_host_is_paused_and_comes_back_by_its_manifests_alone(edge, tmp_path):
    here, there = edge(), edge()
    limits = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata: {LOW: '7'}\n"
    given = ", envFrom: [{configMapRef: {name: limits}}]"
    apply(here, application("site", "echo low is $LOW; exec sleep 1000", given) + "---\n" + limits)
    runs(here, "site")
    snapshot = taken(here, "site", "--name", "s")
    assert snapshot["paused_ms"] is not None and snapshot["left_out"] == ["program /bin/sh, which the host has"]
    here.run("snapshot", "export", "s", str(tmp_path / "s.tar"))
    there.run("snapshot", "import", str(tmp_path / "s.tar"), "--name", "other")
    there.run("snapshot", "restore", "other")
    runs(there, "site")
    wait_until(lambda: "low is 7" in there.run("logs", "site").stdout)


def test_two_files_are_as_one_moment_had_them(edge, tmp_path):
    here = edge()
    build(here, "box:1")
    apply(here, keeping("counter", WRITES.replace("$D", "/data")))
    runs(here, "counter")
    wait_until((kept(here) / "two").exists)
    # What is read between the two takes its time.
    for number in range(500):
        (kept(here) / f"p{number}").write_bytes(os.urandom(20_000))
    here.run("snapshot", "create", "counter", "--name", "a")
    here.run("snapshot", "create", "counter", "--name", "b")
    here.run("delete", "deployment", "counter")
    reached = []
    for name in ("a", "b"):
        reached.append(is_consistent(unpacked(here, name, tmp_path / name)))
    assert 0 < reached[0] < reached[1]


def unpacked(edge: Selvedge, name: str, place: Path) -> Path:
    """The only volume of a snapshot, as somebody has it who has tar, zstd and the archive, and not us."""
    place.mkdir()
    edge.run("snapshot", "export", name, str(place / "archive.tar"))
    manifest, blobs = checked(place / "archive.tar")
    archive = b""
    for layer in manifest["layers"]:
        if layer["mediaType"] == "application/vnd.selvedge.volume.v1.tar+zstd":
            archive += subprocess.run(
                ["zstd", "-dc"], input=blobs[layer["digest"]], capture_output=True, check=True
            ).stdout
    (place / "files").mkdir()
    subprocess.run(["tar", "-x", "-p", "-C", str(place / "files")], input=archive, check=True)
    return place / "files"


def checked(path: Path) -> tuple[dict, dict[str, bytes]]:
    """The manifest of an archive that is a valid OCI image layout, and its blobs."""
    with tarfile.open(path) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    blobs = {
        "sha256:" + name.rsplit("/", 1)[1]: content for name, content in files.items() if name.startswith("blobs/")
    }
    for digest, content in blobs.items():
        assert digest == "sha256:" + hashlib.sha256(content).hexdigest()
    manifest = json.loads(blobs[entry["digest"]])
    for described in [entry, manifest["config"], *manifest["layers"]]:
        assert len(blobs[described["digest"]]) == described["size"], described
    assert entry["artifactType"] == manifest["artifactType"] == "application/vnd.selvedge.snapshot.v1"
    return manifest, blobs


def test_of_unchanged_files_the_second_takes_next_to_nothing_and_stands_still_briefly(edge):
    here = edge()
    build(here, "box:1")
    apply(here, keeping("site", SLEEPS))
    runs(here, "site")
    big = kept(here) / "big"
    big.write_bytes(os.urandom(100 << 20))
    time.sleep(0.2)
    first = taken(here, "site", "--name", "first")
    assert first["bytes"] > 100 << 20
    before = stored(here)
    second = taken(here, "site", "--name", "second")
    assert stored(here) - before < 64 << 10
    assert second["own_bytes"] < 64 << 10 and second["paused_ms"] < 1_000, second
    # A page of a database is one piece of it.
    with big.open("r+b") as file:
        file.seek(50 << 20)
        file.write(os.urandom(4096))
    time.sleep(0.2)
    before = stored(here)
    taken(here, "site", "--name", "third")
    assert stored(here) - before < 3 << 20
    # Each is whole without the others.
    here.run("snapshot", "remove", "first", "second")
    expected = hashlib.sha256(big.read_bytes()).digest()
    here.run("snapshot", "restore", "third", "--force")
    assert hashlib.sha256(big.read_bytes()).digest() == expected
    runs(here, "site")


def test_files_come_back_as_they_were_and_what_cannot_is_named(edge):
    here = edge()
    build(here, "box:1")
    apply(here, keeping("site", SLEEPS))
    runs(here, "site")
    place = kept(here)
    (place / "deep/er").mkdir(parents=True)
    (place / "deep/er").chmod(0o2750)
    (place / "deep/file").write_text("text\n")
    os.chown(place / "deep/file", 1234, 4321)
    (place / "deep/file").chmod(0o4711)
    os.utime(place / "deep/file", (1_000_000_000, 1_000_000_000))
    os.link(place / "deep/file", place / "linked")
    os.symlink("/etc/passwd", place / "points")
    os.mkfifo(place / "pipe")
    os.setxattr(place / "linked", "user.note", b"seen\n=1")
    (place / ".wh.kept").write_text("a name like any other")
    (place / ("x" * 200)).write_text("long")
    with (place / "sparse").open("wb") as file:
        file.truncate(50 << 20)
        file.seek(20 << 20)
        file.write(b"here")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(place / "socket"))
    snapshot = taken(here, "site", "--name", "whole")
    assert "socket socket in volume history" in snapshot["left_out"]
    subprocess.run(f"rm -rf {place}/* {place}/.wh*", shell=True, check=True)
    here.run("snapshot", "restore", "whole", "--force")
    file = (place / "deep/file").stat()
    assert (file.st_mode & 0o7777, file.st_uid, file.st_gid, file.st_nlink) == (0o4711, 1234, 4321, 2)
    assert file.st_mtime == 1_000_000_000 and (place / "linked").samefile(place / "deep/file")
    assert (place / "deep/er").stat().st_mode & 0o7777 == 0o2750
    assert os.readlink(place / "points") == "/etc/passwd"
    assert (place / "pipe").is_fifo() and os.getxattr(place / "linked", "user.note") == b"seen\n=1"
    assert (place / ".wh.kept").exists() and (place / ("x" * 200)).read_text() == "long"
    assert (place / "sparse").stat().st_size == 50 << 20 and (place / "sparse").stat().st_blocks < 1_000
    assert (place / "sparse").read_bytes()[20 << 20 :][:4] == b"here"
    assert not (place / "socket").exists()
    for make, words in (
        (lambda: os.mknod(place / "device", 0o600 | 0o020000, os.makedev(1, 3)), "device is a device"),
        ((place / b"\xff".decode(errors="surrogateescape")).touch, "is not UTF-8"),
    ):
        make()
        refused = here.run("snapshot", "create", "site", check=False)
        assert refused.returncode == 1 and words in refused.stderr, refused.stderr
        for path in place.iterdir():
            if path.name not in ("deep", "linked"):
                path.unlink()
    assert [one["name"] for one in listed(here)] == ["whole"]
    wait_until(lambda: not any(is_frozen(pid) for pid in Host(here).pids()))


def test_a_hook_runs_before_and_its_failure_is_the_snapshots(edge):
    here = edge()
    build(here, "box:1")
    hook = 'selvedge.dev/snapshot-hook: \'["sh", "-c", "echo done > /data/hooked; test ! -e /data/bad"]\''
    apply(here, keeping("site", SLEEPS, annotations=hook))
    runs(here, "site")
    taken(here, "site", "--name", "good")
    assert (kept(here) / "hooked").read_text() == "done\n"
    (kept(here) / "bad").touch()
    refused = here.run("snapshot", "create", "site", check=False)
    assert refused.returncode == 1 and "snapshot-hook failed" in refused.stderr
    assert [one["name"] for one in listed(here)] == ["good"]
    (pid,) = Host(here).pids()
    assert not is_frozen(pid)


def test_killed_in_the_middle_nothing_stays_frozen_and_nothing_half_is_there(edge):
    here = edge()
    build(here, "box:1")
    apply(here, keeping("site", "i=0; while :; do i=$((i+1)); echo $i > /data/i; done"))
    runs(here, "site")
    for number in range(3_000):
        (kept(here) / f"f{number}").write_bytes(os.urandom(40_000))
    (pid,) = Host(here).pids()
    command = [*here.command()[:1], "snapshot", "create", "site", "--data", str(here.data)]
    asking = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: is_frozen(pid), patience_s=60)
    here.kill()
    asking.wait(timeout=30 * SLOWNESS)
    assert is_frozen(pid)
    here.start()
    wait_until(lambda: not is_frozen(pid))
    assert runs_now(pid)
    number = (kept(here) / "i").read_text()
    wait_until(lambda: (kept(here) / "i").read_text() != number)
    assert listed(here) == []
    left = [path.name for path in (here.data / "snapshots").iterdir() if path.name.startswith(".new-")]
    assert not left and stored(here) == 0
    runs(here, "site")
    assert taken(here, "site")["volumes"][0]["entries"] >= 3_000


def test_a_restore_that_is_killed_leaves_the_old_or_the_new(edge):
    here = edge()
    build(here, "box:1")
    apply(here, keeping("site", SLEEPS))
    runs(here, "site")
    for number in range(2_000):
        (kept(here) / f"f{number}").write_text("old")
    taken(here, "site", "--name", "old")
    for number in range(2_000):
        (kept(here) / f"f{number}").write_text("new")
    command = [*here.command()[:1], "snapshot", "restore", "old", "--force", "--data", str(here.data)]
    for pause_s in (0.05, 0.4, 0.8, 1.2):
        asking = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(pause_s)
        here.kill()
        asking.wait(timeout=30 * SLOWNESS)
        here.start()
        found = {(kept(here) / f"f{number}").read_text() for number in range(2_000)}
        assert found in ({"old"}, {"new"})
        runs(here, "site")
    assert [path.name for path in kept(here).parent.iterdir()] == ["history"]
    here.run("snapshot", "restore", "old", "--force")
    assert (kept(here) / "f7").read_text() == "old"


def test_content_is_not_overwritten_unasked_and_a_copy_stands_beside(edge):
    here = edge()
    build(here, "box:1")
    apply(here, keeping("site", SLEEPS))
    runs(here, "site")
    (kept(here) / "note").write_text("first")
    taken(here, "site", "--name", "first")
    (kept(here) / "note").write_text("second")
    refused = here.run("snapshot", "restore", "first", check=False)
    assert refused.returncode == 1 and "--force replaces it" in refused.stderr
    assert (kept(here) / "note").read_text() == "second"
    here.run("snapshot", "restore", "first", "--as", "other")
    runs(here, "other")
    assert (kept(here, "other-history") / "note").read_text() == "first"
    assert (kept(here) / "note").read_text() == "second" and deployment(here, "site")["ready"] == 1
    here.run("snapshot", "restore", "first", "--force")
    assert (kept(here) / "note").read_text() == "first"
    runs(here, "site")


def test_they_are_taken_by_schedule_and_the_oldest_go(edge):
    here = edge()
    build(here, "box:1")
    plan = "selvedge.dev/snapshot-every: 10s, selvedge.dev/snapshot-keep: '2'"
    refused = apply(here, keeping("site", SLEEPS, annotations=plan.replace("10s", "1s")), check=False)
    assert "is no time of 10s or more" in refused.stderr
    apply(here, keeping("site", SLEEPS, annotations=plan))
    runs(here, "site")
    by_hand = taken(here, "site", "--name", "by-hand")
    seen: set[str] = set()

    def four() -> bool:
        seen.update(one["name"] for one in listed(here) if one["is_scheduled"])
        return len(seen) >= 4

    wait_until(four, patience_s=80)
    wait_until(lambda: len(listed(here)) == 3)
    left = [one["name"] for one in listed(here)]
    assert by_hand["name"] in left and set(left) - {by_hand["name"]} == set(sorted(seen)[-2:])


def test_of_too_many_bytes_the_oldest_scheduled_go_and_by_hand_it_is_said(edge):
    here = edge(configuration="[snapshots]\nbytes = 3000000\n")
    build(here, "box:1")
    apply(here, keeping("site", SLEEPS))
    runs(here, "site")
    (kept(here) / "big").write_bytes(os.urandom(4_000_000))
    taken(here, "site")
    refused = here.run("snapshot", "create", "site", "--name", "other", check=False)
    assert refused.returncode == 1 and "and may take 3.0 MB" in refused.stderr
    # What one tenant has takes nothing from another.
    here.run("tenant", "add", "acme")
    apply(here, keeping("site", SLEEPS).replace("{name: site}", "{name: site, namespace: acme}", 1))
    assert taken(here, "site", "--tenant", "acme")["tenant"] == "acme"


def test_a_full_disk_is_said_and_what_was_taken_goes_on(start, small_disk):
    with ending(on(small_disk, start)) as here:
        build(here, "box:1")
        apply(here, keeping("site", SLEEPS))
        runs(here, "site")
        kept(here).mkdir(parents=True, exist_ok=True)
        (kept(here) / "small").write_bytes(os.urandom(100_000))
        taken(here, "site", "--name", "small")
        before = stored(here)
        (kept(here) / "big").write_bytes(os.urandom(12_000_000))
        refused = here.run("snapshot", "create", "site", check=False)
        assert refused.returncode == 1 and "No space left on device" in refused.stderr, refused.stderr
        assert [one["name"] for one in listed(here)] == ["small"]
        assert stored(here) == before
        wait_until(lambda: not any(is_frozen(pid) for pid in Host(here).pids()))


def hostile(good: Path, bad: Path, change: Callable[[dict[str, bytes], list[tarfile.TarInfo]], None]) -> Path:
    """An archive as the good one, but for what `change` does to its files, and with further entries."""
    with tarfile.open(good) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
    more: list[tarfile.TarInfo] = []
    change(files, more)
    with tarfile.open(bad, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for member in more:
            archive.addfile(member)
    return bad


def entry(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    """Of an archive, without content."""
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made


def test_a_hostile_archive_is_refused_in_words_and_changes_nothing(edge, tmp_path):
    here = edge()
    build(here, "box:1")
    apply(here, keeping("site", SLEEPS))
    runs(here, "site")
    (kept(here) / "note").write_text("note" * 1000)
    taken(here, "site", "--name", "good")
    good = tmp_path / "good.tar"
    here.run("snapshot", "export", "good", str(good))
    here.run("snapshot", "remove", "good")
    manifest, blobs = checked(good)
    piece = next(layer for layer in manifest["layers"] if "volume" in layer["mediaType"])["digest"]
    path_of = lambda digest: "blobs/sha256/" + digest.split(":")[1]  # noqa: E731

    def replaced(files, change) -> None:
        """Another configuration, with all digests right."""
        index, about = json.loads(files["index.json"]), json.loads(blobs[manifest["config"]["digest"]])
        change(about)
        text = json.dumps(about).encode()
        config = {**manifest["config"], "digest": "sha256:" + hashlib.sha256(text).hexdigest(), "size": len(text)}
        files[path_of(config["digest"])] = text
        whole = json.dumps({**manifest, "config": config}).encode()
        digest = "sha256:" + hashlib.sha256(whole).hexdigest()
        files[path_of(digest)] = whole
        index["manifests"][0] |= {"digest": digest, "size": len(whole)}
        files["index.json"] = json.dumps(index).encode()

    def renamed(files, name: str) -> None:
        index = json.loads(files["index.json"])
        index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] = name
        files["index.json"] = json.dumps(index).encode()

    device = entry("device", tarfile.CHRTYPE)
    cases = {
        "leads out": lambda files, more: more.append(entry("../../escaped", tarfile.DIRTYPE)),
        "device": lambda files, more: more.append(device),
        "something else": lambda files, more: files.update({path_of(piece): b"x" * len(blobs[piece])}),
        "cannot be read": lambda files, more: files.pop(path_of(piece)),
        "no snapshot in it": lambda files, more: files.update({"index.json": b'{"schemaVersion":2,"manifests":[]}'}),
        "index.json": lambda files, more: files.pop("index.json"),
        "cannot have": lambda files, more: replaced(files, lambda about: about["volumes"][0].update(bytes=1 << 50)),
        "there are": lambda files, more: replaced(files, lambda about: about["volumes"][0].update(pieces=77)),
        "is no name": lambda files, more: renamed(files, "../../x"),
        "no name; one": lambda files, more: replaced(files, lambda about: about["volumes"][0].update(name="../x")),
    }
    for words, change in cases.items():
        refused = here.run("snapshot", "import", str(hostile(good, tmp_path / "bad.tar", change)), check=False)
        assert refused.returncode == 1 and words in refused.stderr, (words, refused.stderr)
        assert listed(here) == []
    cut = tmp_path / "cut.tar"
    cut.write_bytes(good.read_bytes()[: good.stat().st_size * 2 // 3])
    assert here.run("snapshot", "import", str(cut), check=False).returncode == 1
    # Compressed it could become anything.
    packed = subprocess.run(["gzip", "-c", str(good)], capture_output=True, check=True).stdout
    cut.write_bytes(packed)
    assert here.run("snapshot", "import", str(cut), check=False).returncode == 1
    assert listed(here) == [] and not (here.data / "escaped").exists()
    left = [path for path in (here.data / "snapshots").iterdir() if path.name.startswith(".new-")]
    assert not left
    here.run("snapshot", "import", str(good))
    here.run("snapshot", "import", str(good))
    assert [one["name"] for one in listed(here)] == ["good"]


def test_a_user_downloads_the_latest_and_another_tenant_gets_nothing(edge, tmp_path):
    here = edge(http=True)
    build(here, "box:1")
    apply(here, keeping("site", SLEEPS))
    runs(here, "site")
    here.run("tenant", "add", "beta")
    here.run("user", "add", "default/olga", "--role", "operator", "--password", PASSWORD)
    here.run("user", "add", "default/vera", "--role", "viewer", "--password", PASSWORD)
    here.run("user", "add", "beta/berta", "--role", "admin", "--password", PASSWORD)
    api = Api(here)
    olga, vera, berta = (api.log_in(user, PASSWORD) for user in ("default/olga", "default/vera", "beta/berta"))
    (kept(here) / "note").write_text("one")
    status, first = olga.ask("POST", "/v1/tenants/default/deployments/site/snapshots", {})
    assert status == 200, first
    (kept(here) / "note").write_text("two")
    status, second = olga.ask("POST", "/v1/tenants/default/deployments/site/snapshots", {"name": "second"})
    assert status == 200, second
    where = f"http://127.0.0.1:{here.http_port}/v1/tenants/default"
    for path, expected in (
        ("deployments/site/snapshots/latest/archive", second),
        (f"snapshots/{first['name']}/archive", first),
    ):
        file = tmp_path / "got.tar"
        curl = ["curl", "-sSf", "-H", f"Authorization: {olga.authorization}", "-o", str(file), f"{where}/{path}"]
        subprocess.run(curl, check=True, timeout=60)
        manifest, _ = checked(file)
        with tarfile.open(file) as archive:
            index = json.loads(archive.extractfile("index.json").read())
        assert index["manifests"][0]["digest"] == expected["digest"]
    assert [one["name"] for one in vera.ask("GET", "/v1/tenants/default/snapshots")[1]["items"]] == [
        first["name"],
        "second",
    ]
    assert vera.ask("GET", "/v1/tenants/default/snapshots/second/archive")[0] == 403
    assert vera.ask("POST", "/v1/tenants/default/deployments/site/snapshots", {})[0] == 403
    for path in ("snapshots", "snapshots/second/archive", "deployments/site/snapshots/latest/archive"):
        assert berta.ask("GET", f"/v1/tenants/default/{path}")[0] == 404
        assert api.ask("GET", f"/v1/tenants/default/{path}")[0] == 401
    assert berta.ask("GET", "/v1/tenants/beta/snapshots")[1]["items"] == []
    assert berta.ask("GET", "/v1/tenants/beta/snapshots/second/archive")[0] == 404
    assert berta.ask("DELETE", "/v1/tenants/beta/snapshots/second")[0] == 404
