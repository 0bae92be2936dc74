"""Images come from a real registry (Debian's docker-registry), and nothing that is wrong with one does harm."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from applications import Host, apply, deployment, ending, runs
from brokers import BINARY, PORTS, Selvedge
from credentials import Authority
from sites import wait_until
from test_images import SLEEPS, build, images, of_image

pytestmark = [pytest.mark.contract, pytest.mark.needs("logs")]

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
# As `htpasswd -nbB plant secret` has it.
USERS = "plant:$2b$05$XFBo2.GuugELa8jyza1vNuS5rdEZZJKjhHd1JpMPMEd7lMoIO7DXu\n"


class Tokens:
    """Gives tokens for a registry to `plant`, as servers of tokens do that stand before public ones."""

    def __init__(self, directory: Path):
        self.key, self.certificate = directory / "token.key", directory / "token.pem"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=tokens", "-days", "2"]
        subprocess.run(
            [*make, "-keyout", str(self.key), "-out", str(self.certificate)], check=True, capture_output=True
        )
        self.scopes: list[str] = []
        tokens = self

        class Handler(http.server.BaseHTTPRequestHandler):
            """One request for a token."""

            def do_GET(self) -> None:
                """Only with the password."""
                asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                tokens.scopes.append(asked["scope"][0])
                known = self.headers["Authorization"] == "Basic " + base64.b64encode(b"plant:secret").decode()
                self.send_response(200 if known else 401)
                self.end_headers()
                if known:
                    self.wfile.write(json.dumps({"token": tokens.token(asked["scope"][0])}).encode())

            def log_message(self, *_words: object) -> None:
                """Not to the terminal."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def settings(self) -> dict[str, str]:
        """Of a registry that believes it."""
        realm = f"http://127.0.0.1:{self.server.server_port}/token"
        return {"realm": realm, "service": "plant", "issuer": "tokens", "rootcertbundle": str(self.certificate)}

    def token(self, scope: str) -> str:
        """A JWT of RFC 7519 that this registry's documentation describes."""
        kind, name, actions = scope.split(":")
        pem = self.certificate.read_text().split("-----")[2]
        header = {"typ": "JWT", "alg": "RS256", "x5c": ["".join(pem.split())]}
        now = int(time.time())
        access = [{"type": kind, "name": name, "actions": actions.split(",")}]
        claims = {"iss": "tokens", "sub": "plant", "aud": "plant", "exp": now + 600, "nbf": now - 10, "iat": now}
        parts = [base64url(json.dumps(part).encode()) for part in (header, {**claims, "jti": "1", "access": access})]
        sign = ["openssl", "dgst", "-sha256", "-sign", str(self.key)]
        signed = subprocess.run(sign, input=".".join(parts).encode(), check=True, capture_output=True)
        return ".".join([*parts, base64url(signed.stdout)])


def base64url(content: bytes) -> str:
    """Base64 as JWTs have it."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


class Registry:
    """Debian's docker-registry on loopback, with its files in a directory."""

    def __init__(self, directory: Path, users: Path | None = None, tokens: Tokens | None = None):
        self.directory, self.users, self.tokens, self.port = directory, users, tokens, PORTS.take()
        self.tls: tuple[Path, Path] | None = None
        self.process: subprocess.Popen | None = None
        directory.mkdir(exist_ok=True)
        self.start()

    @property
    def name(self) -> str:
        """As names of images have it."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns once it answers."""
        config = {
            "version": 0.1,
            "log": {"level": "error"},
            "storage": {"filesystem": {"rootdirectory": str(self.directory / "files")}},
            "http": {"addr": self.name},
        }
        if self.users:
            config["auth"] = {"htpasswd": {"realm": "plant", "path": str(self.users)}}
        if self.tokens:
            config["auth"] = {"token": self.tokens.settings()}
        if self.tls:
            certificate, key = self.tls
            config["http"] = {"addr": f":{self.port}", "tls": {"certificate": str(certificate), "key": str(key)}}
        path = self.directory / "config.yml"
        path.write_text(json.dumps(config))
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(["docker-registry", "serve", str(path)], stdout=log, stderr=log)
        wait_until(self.answers)

    def answers(self) -> bool:
        """Whether it takes connections."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        """Ends it; what it has stays."""
        self.process.kill()
        self.process.wait()

    def ask(self, method: str, url: str, body: bytes = b"", kind: str = "application/octet-stream"):
        """One request, as the user of these tests where users are known."""
        request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind})
        if self.users:
            request.add_header("Authorization", "Basic " + base64.b64encode(b"plant:secret").decode())
        if self.tokens:
            request.add_header("Authorization", f"Bearer {self.tokens.token('repository:site:pull,push')}")
        return urllib.request.urlopen(request, timeout=10)

    def put_blob(self, repository: str, content: bytes) -> None:
        """Keeps a blob."""
        started = self.ask("POST", f"http://{self.name}/v2/{repository}/blobs/uploads/")
        digest = "sha256:" + hashlib.sha256(content).hexdigest()
        location = started.headers["Location"]
        self.ask("PUT", f"{location}{'&' if '?' in location else '?'}digest={digest}", content)

    def put_manifest(self, repository: str, tag: str, content: bytes, kind: str = MANIFEST) -> None:
        """Keeps a manifest by a tag or its digest."""
        self.ask("PUT", f"http://{self.name}/v2/{repository}/manifests/{tag}", content, kind)

    def push(self, edge: Selvedge, image: str, repository: str, tag: str) -> bytes:
        """An image that an edge has; its manifest."""
        blobs = edge.data / "images/blobs/sha256"
        listed = json.loads(edge.run("image", "list", "--output", "json").stdout)
        digest = next(one["digest"] for one in listed if one["name"].endswith(image))
        manifest = (blobs / digest.removeprefix("sha256:")).read_bytes()
        described = json.loads(manifest)
        for blob in [described["config"], *described["layers"]]:
            self.put_blob(repository, (blobs / blob["digest"].removeprefix("sha256:")).read_bytes())
        self.put_manifest(repository, tag, manifest)
        return manifest


@pytest.fixture
def registry(tmp_path) -> Iterator[Registry]:
    """One that knows no users."""
    registry = Registry(tmp_path / "registry")
    yield registry
    registry.stop()


@pytest.fixture
def own(start):
    """An edge of the test's own; `box:1` was built and taken away again once it was pushed."""
    with ending(start()) as edge:
        build(edge, "box:1")
        yield edge


def forget(edge: Selvedge, image: str = "box:1") -> None:
    """Nothing of it is here any more."""
    edge.run("image", "remove", image)
    assert not list((edge.data / "images/blobs/sha256").iterdir())


def pull(edge: Selvedge, name: str, *words: str) -> str:
    """What `selvedge image pull` says that fails."""
    done = edge.run("image", "pull", name, *words, check=False)
    assert done.returncode == 1, done.stderr
    return done.stderr


def test_an_application_brings_its_image_from_the_registry_and_later_does_without_it(own, registry):
    registry.push(own, "box:1", "plant/site", "7")
    forget(own)
    name = f"{registry.name}/plant/site:7"
    apply(own, of_image("site", SLEEPS, image=name))
    runs(own, "site")
    assert images(own) == [name]
    registry.stop()
    own.stop()
    Host(own).kill_all()
    own.start()
    runs(own, "site")


def test_a_registry_that_is_away_is_said_and_asked_again(own, registry):
    registry.push(own, "box:1", "site", "1")
    forget(own)
    registry.stop()
    apply(own, of_image("site", SLEEPS, image=f"{registry.name}/site:1"))
    wait_until(lambda: "cannot be asked" in own.run("get", "deployments").stdout, patience_s=30)
    registry.start()
    runs(own, "site")


def test_a_registry_of_another_machine_is_asked_by_https_and_believed_as_the_system_believes(own, registry, tmp_path):
    registry.push(own, "box:1", "site", "1")
    forget(own)
    registry.stop()
    host = socket.gethostname()
    authority = Authority(tmp_path / "authority")
    registry.tls = authority.issue("registry", f"/CN={host}", host=host)
    registry.start()
    name = f"{host}:{registry.port}/site:1"
    assert "certificate" in pull(own, name)
    believing = {**os.environ, "SSL_CERT_FILE": str(authority.certificate)}
    words = [BINARY, "image", "pull", name, "--data", str(own.data)]
    pulled = subprocess.run(words, env=believing, capture_output=True, text=True, timeout=30)
    assert pulled.returncode == 0, pulled.stderr
    assert images(own) == [name]


def test_an_image_or_a_tag_that_the_registry_does_not_have_is_said(own, registry):
    registry.push(own, "box:1", "site", "1")
    assert f"{registry.name} says 404 Not Found: manifest unknown" in pull(own, f"{registry.name}/site:2")
    assert f"{registry.name} says 404 Not Found" in pull(own, f"{registry.name}/other:1")


def test_a_registry_that_wants_to_know_who_asks_is_told_by_a_secret(own, tmp_path):
    users = tmp_path / "users"
    users.write_text(USERS)
    registry = Registry(tmp_path / "registry", users)
    try:
        registry.push(own, "box:1", "site", "1")
        forget(own)
        name = f"{registry.name}/site:1"
        assert "it wants a user and a password" in pull(own, name)
        secret = tmp_path / "password"
        secret.write_text("wrong\n")
        assert 'it does not know "plant" by that password' in pull(
            own, name, "--user", "plant", "--password-file", str(secret)
        )
        logins = json.dumps({"auths": {registry.name: {"username": "plant", "password": "secret"}}})
        text = of_image("site", SLEEPS, image=name).replace(
            "      containers:", "      imagePullSecrets: [{name: pull}]\n      containers:"
        )
        apply(own, text)
        wait_until(lambda: "there is no Secret pull; apply one" in own.run("get", "deployments").stdout)
        apply(
            own,
            "apiVersion: v1\nkind: Secret\nmetadata: {name: pull}\ntype: kubernetes.io/dockerconfigjson\n"
            f"stringData: {{.dockerconfigjson: {json.dumps(logins)}}}\n",
        )
        runs(own, "site")
    finally:
        registry.stop()


def test_a_registry_that_sends_elsewhere_for_a_token_is_shown_one(own, tmp_path):
    tokens = Tokens(tmp_path)
    registry = Registry(tmp_path / "registry", tokens=tokens)
    try:
        registry.push(own, "box:1", "site", "1")
        forget(own)
        name, secret = f"{registry.name}/site:1", tmp_path / "password"
        assert "it wants a user and a password" in pull(own, name)
        secret.write_text("secret\n")
        own.run("image", "pull", name, "--user", "plant", "--password-file", str(secret))
        assert set(tokens.scopes) == {"repository:site:pull"}
        assert images(own) == [name]
    finally:
        registry.stop()
        tokens.server.shutdown()


def test_of_an_image_for_several_machines_the_one_for_this_is_taken(own, registry):
    manifest = registry.push(own, "box:1", "site", "amd64")
    forget(own)
    described = json.loads(manifest)
    other = json.dumps({**described, "annotations": {"for": "another machine"}}).encode()
    registry.put_manifest("site", "sha256:" + hashlib.sha256(other).hexdigest(), other)
    machines = {"x86_64": "amd64", "aarch64": "arm64"}
    here = machines[subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()]
    entries = [
        {
            "mediaType": MANIFEST,
            "digest": "sha256:" + hashlib.sha256(text).hexdigest(),
            "size": len(text),
            "platform": {"os": "linux", "architecture": machine},
        }
        for text, machine in ((other, "s390x"), (manifest, here))
    ]
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
    registry.put_manifest("site", "all", index, INDEX)
    own.run("image", "pull", f"{registry.name}/site:all")
    pinned = f"{registry.name}/site@sha256:{hashlib.sha256(index).hexdigest()}"
    apply(own, of_image("site", SLEEPS, image=pinned))
    runs(own, "site")
    listed = json.loads(own.run("image", "list", "--output", "json").stdout)
    assert {one["digest"] for one in listed} == {"sha256:" + hashlib.sha256(manifest).hexdigest()}
    entries.pop()
    index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
    registry.put_manifest("site", "other", index, INDEX)
    assert f"it has no image for linux/{here}" in pull(own, f"{registry.name}/site:other")


def test_an_image_that_is_always_to_be_asked_for_is_renewed_and_does_without_the_registry(own, registry):
    registry.push(own, "box:1", "site", "1")
    name = f"{registry.name}/site:1"
    text = of_image("site", "cat /version; " + SLEEPS, ", imagePullPolicy: Always", image=name)
    build(own, "box:2", files={"version": "two\n"})
    apply(own, text)
    runs(own, "site")
    registry.push(own, "box:2", "site", "1")
    own.run("delete", "deployment", "site")
    wait_until(lambda: not Host(own).pids())
    apply(own, text)
    runs(own, "site")
    wait_until(lambda: "stdout F two" in own.run("logs", "site").stdout)
    registry.stop()
    own.run("delete", "deployment", "site")
    wait_until(lambda: not Host(own).pids())
    apply(own, text)
    wait_until(lambda: deployment(own, "site")["ready"] == 1, patience_s=60)


class Between(http.server.BaseHTTPRequestHandler):
    """Stands before a registry and is not honest with what it gives."""

    protocol_version = "HTTP/1.0"
    registry: Registry
    twist: str
    asked: list[tuple[str, str | None]]

    def do_GET(self) -> None:
        """Of the registry, twisted."""
        part = self.headers["Range"]
        self.asked.append((self.path, part))
        request = urllib.request.Request(f"http://{self.registry.name}{self.path}")
        for name in ("Accept", "Range"):
            if self.headers[name]:
                request.add_header(name, self.headers[name])
        with contextlib.suppress(urllib.error.HTTPError, ConnectionError, BrokenPipeError):
            answer = urllib.request.urlopen(request, timeout=10)
            self.twisted(answer.status, answer.read(), "/blobs/" in self.path)

    def twisted(self, status: int, body: bytes, is_blob: bool) -> None:
        """Sends what is left of the truth."""
        is_layer = is_blob and len(body) > 100_000
        length = len(body)
        if self.twist == "cut" and is_layer:
            body = body[:300_000]
        elif self.twist == "short" and is_layer:
            body = body[:1_000] if status == 200 else b""
            length = len(body)
        elif self.twist == "changed" and is_layer:
            body = bytes(len(body))
        elif self.twist == "changed-config" and is_blob:
            body = body.replace(b"linux", b"Linux")
        elif is_layer if self.twist == "endless" else self.twist == "endless-manifest" and not is_blob:
            length = 1 << 40
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.twist == "drip" and is_layer:
            for byte in body[:1_000]:
                self.wfile.write(bytes([byte]))
                time.sleep(0.2)
        self.wfile.write(body)
        while length == 1 << 40:
            self.wfile.write(bytes(1 << 20))

    def log_message(self, *_words: object) -> None:
        """Not to the terminal."""


@contextlib.contextmanager
def between(registry: Registry, twist: str) -> Iterator[tuple[str, list]]:
    """Its name as a registry, and what it was asked."""
    asked: list[tuple[str, str | None]] = []
    handler = type("Handler", (Between,), {"registry": registry, "twist": twist, "asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("twist", "said"),
    [
        ("changed", "has the digest"),
        ("changed-config", "has the digest"),
        ("short", "ends after"),
        ("endless", "has more than"),
        ("endless-manifest", "has more than"),
    ],
)
def test_what_a_registry_lies_about_is_refused_and_nothing_of_it_kept(own, registry, twist, said):
    registry.push(own, "box:1", "site", "1")
    forget(own)
    with between(registry, twist) as (name, _):
        began = time.monotonic()
        assert said in pull(own, f"{name}/site:1")
        assert time.monotonic() - began < 60
    assert images(own) == []
    names = [path.name for path in (own.data / "images/blobs/sha256").iterdir()]
    assert all(re.fullmatch("[0-9a-f]{64}", name) for name in names)


def test_a_registry_that_says_nothing_or_drips_is_given_up_and_holds_up_nobody(own, registry):
    registry.push(own, "box:1", "site", "1")
    with socket.socket() as silent, between(registry, "drip") as (drips, _):
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        says_nothing = f"127.0.0.1:{silent.getsockname()[1]}"
        for name, registry_name in (("drips", drips), ("silent", says_nothing)):
            build(own, "twin:1", files={"other": name})
            registry.push(own, "twin:1", "site", name)
            own.run("image", "remove", "twin:1")
            apply(own, of_image(name, SLEEPS, image=f"{registry_name}/site:{name}"))
        apply(own, of_image("neighbour", SLEEPS))
        runs(own, "neighbour")
        state = lambda: own.run("get", "deployments").stdout  # noqa: E731
        wait_until(lambda: f"{drips} cannot be asked: it has brought less than 16384 bytes of layer" in state(), 120)
        wait_until(lambda: f"{says_nothing} cannot be asked: it says nothing" in state(), patience_s=120)
        assert deployment(own, "neighbour")["restarts"] == 0
        own.run("delete", "deployment", "drips")
        own.run("delete", "deployment", "silent")


def test_a_layer_that_is_cut_off_goes_on_where_it_ended(own, registry):
    registry.push(own, "box:1", "site", "1")
    forget(own)
    with between(registry, "cut") as (name, asked):
        own.run("image", "pull", f"{name}/site:1")
    parts = [part for _, part in asked if part]
    assert parts[0] == "bytes=300000-"
    assert len(parts) >= 2
    assert images(own) == [f"{name}/site:1"]
