"""A pushed model is in a real registry as the contract says, and what cannot be pushed is refused."""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Trained
from test_bad_input import cut, refused, say

from selvedge_ml.__main__ import main
from selvedge_ml.model import sha256

STARTED_WITHIN_S = 20.0
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
NAMED = "models/office-climate"


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a registry that is there for these tests alone."""
    program = shutil.which("docker-registry")
    assert program, "there is no docker-registry in the path: apt-get install docker-registry"
    folder = tmp_path_factory.mktemp("registry")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = folder / "config.yml"
    storage = f"storage: {{filesystem: {{rootdirectory: {folder / 'kept'}}}}}\n"
    config.write_text(f"version: 0.1\nlog: {{level: error}}\n{storage}http: {{addr: 127.0.0.1:{port}}}\n")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", config], stdout=log, stderr=log)
    try:
        until = time.monotonic() + STARTED_WITHIN_S
        while not answers(port):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, "the registry does not listen"
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(STARTED_WITHIN_S)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def fetch(address: str) -> bytes:
    request = urllib.request.Request(f"http://{address}", headers={"Accept": MANIFEST})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def test_a_pushed_model_is_there_by_tag_and_by_digest(registry, trained: dict[str, Trained], capsys) -> None:
    exported = trained["autoencoder"].exported
    for _ in range(2):
        assert main(["push", str(exported), f"http://{registry}/{NAMED}:1"]) == 0
    name, again = capsys.readouterr().out.split()
    assert name == again
    manifest = fetch(f"{registry}/v2/{NAMED}/manifests/1")
    assert name == f"{registry}/{NAMED}@sha256:{sha256(manifest)}"
    config, layer = (exported / "model.json").read_bytes(), (exported / "model.onnx").read_bytes()
    assert json.loads(manifest) == {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": "application/vnd.selvedge.model.v1",
        "config": {
            "mediaType": "application/vnd.selvedge.model.config.v1+json",
            "digest": f"sha256:{sha256(config)}",
            "size": len(config),
        },
        "layers": [
            {
                "mediaType": "application/vnd.selvedge.model.onnx.v1",
                "digest": f"sha256:{sha256(layer)}",
                "size": len(layer),
                "annotations": {"org.opencontainers.image.title": "model.onnx"},
            }
        ],
    }
    for blob in (config, layer):
        assert fetch(f"{registry}/v2/{NAMED}/blobs/sha256:{sha256(blob)}") == blob


def test_a_registry_that_refuses_is_quoted(registry, trained: dict[str, Trained], capsys) -> None:
    url = f"http://{registry}/-models/office-climate:1"
    said = refused(capsys, "push", trained["regression"].exported, url)
    assert "the registry answers 404" in said


@pytest.mark.parametrize(
    ("harm", "url", "words"),
    [
        (lambda f: None, "ftp://127.0.0.1:1/models/office-climate:1", "is to be http://HOST:PORT/models/NAME:VERSION"),
        (lambda f: None, "http://127.0.0.1:1/models/office-climate", "is to be http://HOST:PORT/models/NAME:VERSION"),
        (lambda f: None, "http://127.0.0.1:1/models/office-climate:2", "model.json says office-climate:1"),
        (lambda f: None, "http://127.0.0.1:1/models/office-climate:1", "is a registry there?"),
        (lambda f: cut(f / "model.onnx"), "http://127.0.0.1:1/models/office-climate:1", "is not the graph"),
        (lambda f: cut(f / "model.json"), "http://127.0.0.1:1/models/office-climate:1", "is not the JSON"),
        (lambda f: say(f / "model.json", name=7), "http://127.0.0.1:1/models/office-climate:1", "says 7:1"),
        (lambda f: (f / "model.onnx").unlink(), "http://127.0.0.1:1/models/office-climate:1", "No such file"),
    ],
)
def test_what_cannot_be_pushed_is_refused(tmp_path: Path, capsys, trained, harm, url: str, words: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(trained["regression"].exported, folder)
    harm(folder)
    assert words in refused(capsys, "push", folder, url)
