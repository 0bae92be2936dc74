"""Models as `anomaly` takes them: two files, and the artifact that a registry has of them."""

from __future__ import annotations

import hashlib
import json

import onnx_by_hand as onnx
from onnx_by_hand import BOOL, INT64
from test_registries import MANIFEST, Registry

FEATURES = ["level", "flow"]
ARTIFACT = "application/vnd.selvedge.model.v1"
CONFIG = "application/vnd.selvedge.model.config.v1+json"
LAYER = "application/vnd.selvedge.model.onnx.v1"

Graph = tuple[list[bytes], list[bytes]]


def distance(factor: float = 1.0, name: str = "score") -> Graph:
    """Nodes and constants of a model whose score is `factor` times the mean of a window."""
    nodes = [
        onnx.node("ReduceMean", ["window", "axes"], ["mean"], onnx.integer("keepdims", 0)),
        onnx.node("Mul", ["mean", "factor"], [name]),
        onnx.node("Identity", ["window"], ["prediction"]),
    ]
    return nodes, [onnx.tensor("axes", [1, 2], [2], INT64), onnx.tensor("factor", [factor], [])]


def counts_for_ever(needs: list[bytes], condition: str) -> Graph:
    """One that ends when it has counted to 2^63; `needs` are the nodes that `condition` takes."""
    body = onnx.graph(
        [onnx.node("Identity", ["go"], ["goes"]), onnx.node("Add", ["at", "step"], ["next"])],
        [],
        [onnx.value("turn", [], INT64), onnx.value("go", [], BOOL), onnx.value("at", [])],
        [onnx.value("goes", [], BOOL), onnx.value("next", [])],
    )
    nodes, constants = distance(name="first")
    nodes += [
        *needs,
        onnx.node("Loop", ["turns", condition, "nothing"], ["counted"], onnx.subgraph("body", body)),
        onnx.node("Add", ["first", "counted"], ["score"]),
    ]
    numbers = [onnx.tensor("turns", [(1 << 63) - 1], [], INT64), onnx.tensor("true", [True], [], BOOL)]
    return nodes, [*constants, *numbers, onnx.tensor("nothing", [0.0], []), onnx.tensor("step", [1.0], [])]


def never_returns() -> Graph:
    """Whatever it is given."""
    return counts_for_ever([], "true")


def returns_for_ordinary_readings_alone() -> Graph:
    """It never returns where the mean of a window is above 90."""
    nodes, constants = counts_for_ever([onnx.node("Greater", ["mean", "ninety"], ["is-high"])], "first-high")
    of = [onnx.node("Squeeze", ["is-high"], ["first-high"])]
    at = next(at for at, one in enumerate(nodes) if b"Loop" in one)
    return [*nodes[:at], *of, *nodes[at:]], [*constants, onnx.tensor("ninety", [90.0], [])]


def eats_memory() -> Graph:
    """It asks for 64 GB, by steps of the graph that each look harmless."""
    nodes, constants = distance(name="first")
    nodes += [
        onnx.node("Expand", ["mean", "shape"], ["large"]),
        onnx.node("ReduceMax", ["large"], ["largest"], onnx.integer("keepdims", 0)),
        onnx.node("Add", ["first", "largest"], ["score"]),
    ]
    return nodes, [*constants, onnx.tensor("shape", [16_000_000_000, 1], [2], INT64)]


def has_an_operator_that_nobody_knows() -> Graph:
    """As a newer exporter would have it."""
    nodes, constants = distance(name="first")
    return [*nodes, onnx.node("Telepathy", ["first"], ["score"])], constants


def written(of: Graph, opset: int = 18, readings: int = 2, inputs: int = 2) -> bytes:
    """The file."""
    window = onnx.value("window", ["batch", readings, inputs])
    outputs = [onnx.value("prediction", ["batch", readings, inputs]), onnx.value("score", ["batch"])]
    return onnx.model(onnx.graph(*of, [window], outputs), opset)


def description(content: bytes, version: str, **other: object) -> dict:
    """Of that file."""
    return {
        "name": "pumps",
        "version": version,
        "kind": "autoencoder",
        "features": FEATURES,
        "window_readings": 2,
        "interval_s": 60.0,
        "threshold": 50.0,
        "opset": 18,
        "onnx_sha256": hashlib.sha256(content).hexdigest(),
        "ranges": [[0, 100], [0, 100]],
        "trained": {"seed": 1, "data": [], "continued_from": None},
    } | other


def digest(content: bytes) -> str:
    """As registries name it."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def artifact(version: str, content: bytes, size: int | None = None, **other: object) -> tuple[bytes, bytes]:
    """The description and the manifest of a model; `size` is what it says of the file, `other` what is described."""
    config = json.dumps(description(content, version, **other)).encode()
    layer = {"mediaType": LAYER, "digest": digest(content), "size": len(content) if size is None else size}
    layer["annotations"] = {"org.opencontainers.image.title": "model.onnx"}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": ARTIFACT,
        "config": {"mediaType": CONFIG, "digest": digest(config), "size": len(config)},
        "layers": [layer],
    }
    return config, json.dumps(manifest).encode()


def push(registry: Registry, version: str, content: bytes | None = None, **other: object) -> str:
    """A model into a registry; its name there. What is `other` is as in `artifact`."""
    content = written(distance()) if content is None else content
    config, manifest = artifact(version, content, **other)
    for blob in (config, content):
        registry.put_blob("models/pumps", blob)
    registry.put_manifest("models/pumps", version, manifest)
    return f"{registry.name}/models/pumps:{version}"
