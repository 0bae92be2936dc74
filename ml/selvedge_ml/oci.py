"""An exported model into a registry, as an OCI artifact: its description is the config, its graph the one layer."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from .export import DESCRIPTION_FILE, GRAPH_FILE
from .model import ModelError, read_json, sha256

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARTIFACT = "application/vnd.selvedge.model.v1"
CONFIG = "application/vnd.selvedge.model.config.v1+json"
LAYER = "application/vnd.selvedge.model.onnx.v1"
TIMEOUT_S = 30.0
LONGEST_ANSWER_BYTES = 10_000


def push(folder: Path, url: str) -> str:
    """Puts the model of `folder` at http://HOST:PORT/models/NAME:VERSION; gives its name by digest."""
    parts = urlsplit(url)
    repository, _, tag = parts.path.lstrip("/").rpartition(":")
    if parts.scheme not in ("http", "https") or not parts.netloc or not repository or "/" in tag:
        raise ModelError(f"{url}: is to be http://HOST:PORT/models/NAME:VERSION")
    described = read_json(folder / DESCRIPTION_FILE)
    config, layer = ((folder / name).read_bytes() for name in (DESCRIPTION_FILE, GRAPH_FILE))
    if described.get("onnx_sha256") != sha256(layer):
        raise ModelError(f"{folder / GRAPH_FILE}: is not the graph that {DESCRIPTION_FILE} tells of; export it again")
    says = f"{described.get('name')}:{described.get('version')}"
    if f"{repository.rpartition('/')[2]}:{tag}" != says:
        raise ModelError(f"{url}: {DESCRIPTION_FILE} says {says}, and the address is to end so")
    base = f"{parts.scheme}://{parts.netloc}/v2/{repository}"
    for blob in (config, layer):
        _put_blob(base, blob)
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": ARTIFACT,
            "config": _descriptor(CONFIG, config),
            "layers": [{**_descriptor(LAYER, layer), "annotations": {"org.opencontainers.image.title": GRAPH_FILE}}],
        }
    ).encode()
    digest = _digest(manifest)
    headers = _ask("PUT", f"{base}/manifests/{tag}", (201,), manifest, MANIFEST)
    kept = headers.get("Docker-Content-Digest", digest)
    if kept != digest:
        raise ModelError(f"{url}: the registry keeps {kept}, and {digest} was put there")
    return f"{parts.netloc}/{repository}@{digest}"


def _put_blob(base: str, blob: bytes) -> None:
    digest = _digest(blob)
    if _ask("HEAD", f"{base}/blobs/{digest}", (200, 404)).get("Docker-Content-Digest") == digest:
        return
    started = _ask("POST", f"{base}/blobs/uploads/", (202,), b"")
    if "Location" not in started:
        raise ModelError(f"{base}: the registry does not say where to upload to")
    upload = urljoin(base, started["Location"])
    mark = "&" if "?" in upload else "?"
    _ask("PUT", f"{upload}{mark}digest={digest}", (201,), blob)


def _ask(
    method: str, url: str, wanted: tuple[int, ...], body: bytes | None = None, kind: str = "application/octet-stream"
) -> http.client.HTTPMessage:
    """The headers of an answer that has one of the statuses `wanted`."""
    request = urllib.request.Request(url, data=body, method=method, headers={"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            status, headers, words = answer.status, answer.headers, b""
    except urllib.error.HTTPError as error:
        status, headers, words = error.code, error.headers, error.read(LONGEST_ANSWER_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise ModelError(f"{method} {url}: {error}; is a registry there?") from None
    if status not in wanted:
        raise ModelError(f"{method} {url}: the registry answers {status} {words.decode(errors='replace').strip()}")
    found: http.client.HTTPMessage = headers
    return found


def _descriptor(kind: str, blob: bytes) -> dict[str, str | int]:
    return {"mediaType": kind, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{sha256(blob)}"
