"""Applications that do harm: each costs itself a clear word, nobody else anything: a neighbour goes on answering."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import json
import re
import tarfile
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from applications import SLEEPS, Host, application, apply, deployment, ending, runs
from brokers import PORTS, Selvedge
from raw import SLOWNESS
from sites import wait_until
from test_disk import on
from test_docker import in_docker
from test_images import answers, build, of_image
from test_networks import pod

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

MANIFEST = {"process": application, "oci": of_image, "docker": in_docker}
LOG_BYTES_MAX = 13 << 20


class Neighbour:
    """Another application of the edge, which is asked ten times a second, and what was not answered."""

    def __init__(self, edge: Selvedge):
        self.port = PORTS.take()
        self.failures: list[str] = []
        self.answers = 0
        self.is_over = threading.Event()
        build(edge, "neighbour:1", "/bin/httpd", "-f", "-p", str(self.port), "-h", "/www", files={"www/a": "here\n"})
        text = of_image("neighbour", "", image="neighbour:1")
        apply(edge, text.replace('command: [/bin/sh, -c], args: [ ""]', "args: []"))
        wait_until(lambda: answers(self.port))
        self.asking = threading.Thread(target=self.ask)
        self.asking.start()

    def ask(self) -> None:
        """Until it is over."""
        while not self.is_over.wait(0.1):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/a", timeout=10 * SLOWNESS) as answer:
                    assert answer.read() == b"here\n"
                self.answers += 1
            except Exception as error:
                self.failures.append(repr(error))

    def stop(self) -> None:
        """It was answered each time."""
        before = self.answers
        wait_until(lambda: self.answers > before or self.failures)
        self.is_over.set()
        self.asking.join()
        assert not self.failures


@pytest.fixture
def own(start, engine) -> Iterator[Selvedge]:
    """An edge of the test's own, with an image that has a shell, an engine, and somebody who must not be disturbed."""
    with ending(start(environment={"DOCKER_HOST": f"unix://{engine.socket}"})) as edge:
        neighbour = Neighbour(edge)
        build(edge, "box:1")
        yield edge
        neighbour.stop()
        assert deployment(edge, "neighbour")["restarts"] == 0
    engine.clear()


def state(edge: Selvedge, name: str) -> str:
    """What is said of an application."""
    lines = edge.run("get", "deployments").stdout.splitlines()
    return next(line for line in lines if line.split()[0] == name)


def events(edge: Selvedge, name: str) -> list[dict]:
    """What has happened to it."""
    return json.loads(edge.run("events", name, "--output", "json").stdout)


def in_any_runtime(test):
    """A test for each of them."""
    return pytest.mark.parametrize("runtime", ["process", "oci", "docker"])(test)


def test_a_file_of_mistakes_is_refused_with_all_of_them_by_their_lines_and_nothing_of_it_is_applied(own):
    wrong = [
        application("types", SLEEPS).replace("replicas: 1", "replicas: many"),
        application("fields", SLEEPS, ", comand: [a]"),
        application("twice", SLEEPS),
        application("twice", SLEEPS),
        application("selector", SLEEPS).replace("labels: {app: selector}", "labels: {app: other}"),
        application("later", SLEEPS, ", volumeDevices: []"),
    ]
    said = apply(own, "---\n".join(wrong), check=False)
    assert said.returncode == 1
    for words in (
        'app.yaml:5: spec.replicas: expected a whole number, found the string "many"',
        "app.yaml:27: spec.template.spec.containers[0].comand",
        'did you mean "command"?',
        "app.yaml:45: metadata.name: Deployment/twice stands in line 29 already",
        "app.yaml:62: spec.selector.matchLabels.app: the template has no label app: selector",
        "app.yaml:83: spec.template.spec.containers[0].volumeDevices",
        "nothing was applied",
    ):
        assert words in said.stderr, f"{words}\n{said.stderr}"
    names = {line.split()[0] for line in own.run("get", "deployments").stdout.splitlines()[1:]}
    assert names == {"neighbour"}


def test_a_port_of_the_edge_that_another_application_has_is_said(own):
    port = PORTS.take()
    ports = f", ports: [{{containerPort: 8080, hostPort: {port}}}]"
    apply(own, pod("first", "mkdir /www; echo 1 > /www/index.html; exec httpd -f -p 8080 -h /www", ports))
    runs(own, "first")
    page = lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5 * SLOWNESS).read()  # noqa: E731
    wait_until(lambda: answers(port))
    assert page() == b"1\n"
    apply(own, pod("second", "mkdir /www; echo 2 > /www/index.html; exec httpd -f -p 8080 -h /www", ports))
    wait_until(lambda: f"port {port} is that of first, which had it first" in state(own, "second"))
    assert page() == b"1\n"
    own.run("delete", "deployment", "first")
    runs(own, "second")
    wait_until(lambda: "runs" in state(own, "second"))
    assert page() == b"2\n"


@in_any_runtime
def test_one_that_forks_for_ever_has_as_many_processes_as_it_may_and_says_so(own, runtime):
    limits = ", resources: {limits: {selvedge.dev/pids: 24}}"
    apply(own, MANIFEST[runtime]("bad", "while :; do sleep 1000 & done", limits))
    wait_until(lambda: deployment(own, "bad")["restarts"] >= 1)
    assert "fork" in own.run("logs", "bad", "--previous").stdout
    for _ in range(10):
        used = json.loads(own.run("top", "--output", "json").stdout)
        assert all(one["pids"] <= 24 for one in used if one["deployment"] == "bad")
    assert "exited with" in own.run("describe", "deployment", "bad").stdout


@in_any_runtime
def test_one_that_does_not_end_when_it_is_asked_to_is_made_to_with_all_that_it_started(own, runtime):
    script = "trap '' TERM INT; (trap '' TERM INT; while :; do sleep 0.1; done) & while :; do sleep 0.1; done"
    apply(own, MANIFEST[runtime]("bad", script))
    runs(own, "bad")
    own.run("delete", "deployment", "bad")
    wait_until(lambda: len(list((own.data / "containers").iterdir())) == 1)
    assert len(Host(own).pids()) == 1


@in_any_runtime
def test_one_that_floods_its_log_has_as_much_of_it_kept_as_it_may(own, engine, runtime):
    line = "x" * 4_000
    apply(own, MANIFEST[runtime]("bad", f"while :; do echo {line}; done"))
    place = engine.place / "data/containers" if runtime == "docker" else own.data / "containers"

    def kept() -> int:
        total = 0
        for path in place.rglob("*log*"):
            with contextlib.suppress(FileNotFoundError):
                total += path.stat().st_size if path.is_file() else 0
        return total

    wait_until(lambda: kept() > 9 << 20, patience_s=60)
    for _ in range(10):
        assert kept() <= LOG_BYTES_MAX
        time.sleep(0.1)
    assert own.run("logs", "bad", "--tail", "1").stdout.rstrip().endswith("xxx")
    assert deployment(own, "bad")["restarts"] == 0


@in_any_runtime
def test_one_that_exits_at_once_is_started_again_after_longer_and_longer_pauses_and_named(own, runtime):
    apply(own, MANIFEST[runtime]("bad", "echo nothing to do; exit 7"))
    wait_until(lambda: deployment(own, "bad")["restarts"] >= 2)
    wait_until(lambda: "exited with 7" in state(own, "bad"))
    time.sleep(3)  # By then it would have been started twenty times.
    assert deployment(own, "bad")["restarts"] <= 5
    # One that has just been started has not said it yet.
    wait_until(lambda: "nothing to do" in own.run("logs", "bad").stdout)
    assert next(one for one in events(own, "bad") if one["what"] == "ended")["message"] == "exited with 7"
    wait_until(lambda: re.search(r"(?m)^#   .* F nothing to do$", own.run("describe", "deployment", "bad").stdout))


@in_any_runtime
def test_one_that_is_never_ready_is_said_why_and_left_alone(own, runtime):
    probe = ", readinessProbe: {periodSeconds: 1, exec: {command: [test, -e, /never]}}"
    apply(own, MANIFEST[runtime]("bad", "while :; do sleep 0.1; done", probe))
    wait_until(lambda: "runs, and is not ready: " in state(own, "bad"))
    time.sleep(2)
    assert (deployment(own, "bad")["ready"], deployment(own, "bad")["restarts"]) == (0, 0)


def test_values_that_are_immutable_stay_as_they_are_until_they_are_deleted(own):
    values = {
        "configmap": "kind: ConfigMap\nmetadata: {name: v}\nimmutable: true\ndata: {LOW: '7'}\n",
        "secret": "kind: Secret\nmetadata: {name: v}\nimmutable: true\nstringData: {LOW: '7'}\n",
    }
    for kind, text in values.items():
        text = f"apiVersion: v1\n{text}"
        apply(own, text)
        apply(own, text)
        for other in (text.replace("'7'", "'8'"), text.replace("immutable: true\n", "")):
            refused = apply(own, other, check=False)
            assert refused.returncode == 1, refused.stdout
            assert "metadata.name: is there with immutable: true, and says something else" in refused.stderr
        own.run("delete", kind, "v")
        apply(own, text.replace("'7'", "'8'"))


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: v, annotations: {selvedge.dev/activation: on-demand}}\n",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: v, annotations: {selvedge.dev/activation: on-demand}}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: v, annotations: {selvedge.dev/activation: on-demand}}\n"
        "spec: {selector: {app: v}, ports: [{port: 80}]}\n",
    ],
)
def test_an_annotation_where_nobody_reads_it_is_refused_by_name(own, text):
    refused = apply(own, text, check=False)
    assert refused.returncode == 1
    assert "metadata.annotations.selvedge.dev/activation: is nothing that is read here" in refused.stderr


FILLS = "while cat /bin/busybox >> {place}/fill; do sleep 0.05; done; sleep 1000"


@pytest.mark.parametrize("runtime", ["oci", "docker"])
@pytest.mark.parametrize("where", ["own", "volume"])
def test_one_that_fills_the_disk_is_replaced_once_it_has_more_than_it_may(own, runtime, where):
    if where == "own":
        text = MANIFEST[runtime]("bad", FILLS.format(place=""), ", resources: {limits: {ephemeral-storage: 8Mi}}")
        said = "what it has written (limits.ephemeral-storage) takes"
    else:
        text = MANIFEST[runtime]("bad", FILLS.format(place="/data"), ", volumeMounts: [{name: data, mountPath: /data}]")
        text = text.replace(
            "      containers:", "      volumes: [{name: data, emptyDir: {sizeLimit: 8Mi}}]\n      containers:"
        )
        said = "its volume data (emptyDir.sizeLimit) takes"
    apply(own, text)
    wait_until(lambda: any(event["what"] == "evicted" for event in events(own, "bad")), patience_s=30)
    evicted = next(event for event in events(own, "bad") if event["what"] == "evicted")["message"]
    assert said in evicted
    assert evicted.endswith("MB of the disk; it may take 8.4 MB")
    wait_until(lambda: deployment(own, "bad")["restarts"] >= 1)
    apply(own, MANIFEST[runtime]("bad", SLEEPS))
    runs(own, "bad")
    scratch = list((own.data / "volumes").rglob("fill"))
    assert scratch == []


def saved(layer: bytes, architecture: str = "amd64", content: bytes | None = None) -> bytes:
    """An archive of `docker save` with one layer; `content`: what its configuration says that is in it."""
    digest = hashlib.sha256(layer if content is None else content).hexdigest()
    configuration = {
        "architecture": architecture,
        "os": "linux",
        "config": {"Cmd": ["/bin/sh"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    listed = [{"Config": "config.json", "RepoTags": ["bad:1"], "Layers": ["layer.tar"]}]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, text in (
            ("manifest.json", json.dumps(listed).encode()),
            ("config.json", json.dumps(configuration).encode()),
            ("layer.tar", layer),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    return packed.getvalue()


def layer_of(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> bytes:
    """A layer with one entry."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname, entry.devmajor, entry.devminor = kind, link, 8, 0
        archive.addfile(entry)
    return packed.getvalue()


def bomb() -> bytes:
    """A layer of a file of 500 MB, which is half a MB."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6) as squeezed:
        entry = tarfile.TarInfo("zeros")
        entry.size = 500 << 20
        squeezed.write(entry.tobuf())
        for _ in range(500):
            squeezed.write(bytes(1 << 20))
    return packed.getvalue()


@pytest.mark.parametrize(
    ("archive", "said"),
    [
        (lambda: saved(layer_of("../../evil")), "../../evil: leads out of the layer"),
        (lambda: saved(layer_of("etc/disk", tarfile.BLKTYPE)), "etc/disk: is a device, which no layer may have"),
        (
            lambda: saved(layer_of("hole", tarfile.LNKTYPE, "../../etc/shadow")),
            "hole: links to what is not in the layer",
        ),
        (lambda: saved(layer_of("a"), content=b"something else"), "has the digest"),
        (lambda: saved(b"no archive at all" * 100), "layer sha256:"),
        (lambda: saved(bomb()), "the layer has more than 3"),
    ],
    ids=["above", "device", "link", "digest", "no-archive", "bomb"],
)
def test_an_image_with_a_bad_layer_is_said_and_leaves_nothing_behind(own, archive, said):
    path = own.directory / "bad.tar"
    path.write_bytes(archive())
    own.run("image", "import", str(path))
    apply(own, of_image("bad", SLEEPS, image="bad:1"))
    wait_until(lambda: said in state(own, "bad"), patience_s=60)
    layers = own.data / "images/layers"
    wait_until(lambda: not [path for path in layers.iterdir() if path.name.startswith(".")])
    assert len(list(layers.iterdir())) <= 2
    own.run("image", "remove", "bad:1", check=False)
    apply(own, of_image("bad", SLEEPS))
    runs(own, "bad")


def large() -> bytes:
    """A layer of a file of 60 MB, which is small once it is packed, and no bomb."""
    entry = tarfile.TarInfo("large")
    entry.size = 60 << 20
    return entry.tobuf() + b"selvedge" * (entry.size // 8) + bytes(2 * tarfile.BLOCKSIZE)


def test_a_disk_that_fills_while_a_layer_is_unpacked_is_said_and_has_its_room_again(start, small_disk):
    with ending(on(small_disk, start)) as edge:
        build(edge, "box:1")
        apply(edge, of_image("neighbour", SLEEPS))
        runs(edge, "neighbour")
        path = edge.directory / "large.tar"
        path.write_bytes(saved(gzip.compress(large(), compresslevel=1), content=large()))
        edge.run("image", "import", str(path))
        apply(edge, of_image("large", SLEEPS, image="bad:1"))
        wait_until(lambda: "No space left on device" in state(edge, "large"), patience_s=60)
        edge.run("delete", "deployment", "large")
        layers = edge.data / "images/layers"
        wait_until(lambda: not [path for path in layers.iterdir() if path.name.startswith(".")])
        edge.run("image", "remove", "bad:1")
        apply(edge, of_image("small", SLEEPS))
        runs(edge, "small")
        assert deployment(edge, "neighbour")["restarts"] == 0


def test_an_image_of_another_machine_is_refused_when_it_is_taken_in(own):
    path = own.directory / "bad.tar"
    path.write_bytes(saved(layer_of("a"), architecture="s390x"))
    said = own.run("image", "import", str(path), check=False)
    assert said.returncode == 1
    assert "there is no image for this machine in it" in said.stderr
