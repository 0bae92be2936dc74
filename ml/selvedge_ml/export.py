"""A trained model as an ONNX graph from windows in the units of the sensors to predictions and scores.

Keras exports through TensorFlow alone; the graphs are small enough to be written here.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .model import Model, sha256
from .predictors import WINDOW_READINGS
from .score import RECENT_READINGS, VARIATION_FLOOR

OPSET = 18
# The oldest that has this opset, so that older runtimes read it too.
IR_VERSION = 8
GRAPH_FILE = "model.onnx"
DESCRIPTION_FILE = "model.json"


def export(model: Model, folder: Path) -> None:
    """Writes `model.onnx` and `model.json` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = to_onnx(model).SerializeToString()
    (folder / GRAPH_FILE).write_bytes(graph)
    said = asdict(model.description)
    data = [{{"since": "from", "until": "to"}.get(key, key): value for key, value in d.items()} for d in said["data"]]
    trained = {"seed": said.pop("seed"), "data": data, "continued_from": said.pop("continued_from")}
    del said["data"]
    whole = {
        **said,
        "window_readings": WINDOW_READINGS,
        "opset": OPSET,
        "onnx_sha256": sha256(graph),
        "trained": trained,
    }
    (folder / DESCRIPTION_FILE).write_text(json.dumps(whole, indent=2) + "\n")


def to_onnx(model: Model) -> onnx.ModelProto:
    """The graph: input `window`, outputs `prediction` and `score`."""
    features = len(model.description.features)
    graph = _Graph()
    scaled = graph.add("Sub", "window", graph.constant(model.scaling.mean))
    scaled = graph.add("Div", scaled, graph.constant(model.scaling.deviation))
    write = {"regression": _regression, "autoencoder": _autoencoder, "lstm-ed": _lstm_encoder_decoder}
    predicted = write[model.description.kind](graph, scaled, model.predictor.weights(), features)
    unscaled = graph.add("Mul", predicted, graph.constant(model.scaling.deviation))
    graph.add("Add", unscaled, graph.constant(model.scaling.mean), output="prediction")
    is_forecast = model.description.kind == "regression"
    last = predicted if is_forecast else graph.reading(predicted, -1)
    _score(graph, model, scaled, last)
    shape = [features] if is_forecast else [WINDOW_READINGS, features]
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            model.description.kind,
            [helper.make_tensor_value_info("window", TensorProto.FLOAT, ["batch", WINDOW_READINGS, features])],
            [
                helper.make_tensor_value_info("prediction", TensorProto.FLOAT, ["batch", *shape]),
                helper.make_tensor_value_info("score", TensorProto.FLOAT, ["batch"]),
            ],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="selvedge",
    )
    onnx.checker.check_model(made, full_check=True)
    return made


class _Graph:
    """Nodes and constants, each named by its number."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        """The name of a constant, float32 but for integers."""
        array = np.asarray(value)
        kept = array if array.dtype == np.int64 else array.astype(np.float32)
        self.constants.append(numpy_helper.from_array(kept, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def add(
        self, operator: str, *inputs: str, output: str = "", outputs: int = 1, at: int = 0, **attributes: Any
    ) -> str:
        """The name of what `operator` makes of `inputs`: of `outputs` that which is `at`."""
        names = ["" if n != at else output or f"n{len(self.nodes)}" for n in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[at]

    def readings(self, windows: str, start: int, end: int) -> str:
        """Of windows [batch, readings, features] the readings `start` to before `end`."""
        return self.add("Slice", windows, *(self.constant(np.array([n], dtype=np.int64)) for n in (start, end, 1)))

    def reading(self, windows: str, at: int) -> str:
        """Of windows [batch, readings, features] one reading: [batch, features]."""
        end = at + 1 if at != -1 else np.iinfo(np.int64).max
        return self.add("Squeeze", self.readings(windows, at, end), self.constant(np.array([1], dtype=np.int64)))

    def reshape(self, value: str, *shape: int) -> str:
        return self.add("Reshape", value, self.constant(np.array(shape, dtype=np.int64)))

    def dense(self, value: str, weights: np.ndarray, bias: np.ndarray) -> str:
        return self.add("Add", self.add("MatMul", value, self.constant(weights)), self.constant(bias))

    def lstm(self, value: str, weights: list[np.ndarray], at: int) -> str:
        """Of [readings, batch, inputs] by Keras's weights; its output `at`: all states, or the last."""
        units = weights[1].shape[0]
        kernel, recurrent = (_gates(array).T[None] for array in weights[:2])
        bias = np.concatenate((_gates(weights[2]), np.zeros(4 * units, dtype=np.float32)))[None]
        inputs = [self.constant(array) for array in (kernel, recurrent, bias)]
        return self.add("LSTM", value, *inputs, outputs=at + 1, at=at, hidden_size=units)


def _gates(weights: np.ndarray) -> np.ndarray:
    """Keras has its gates as input, forget, cell, output; ONNX as input, output, forget, cell."""
    i, f, c, o = np.split(weights, 4, axis=-1)
    return np.concatenate((i, o, f, c), axis=-1)


def _regression(graph: _Graph, scaled: str, weights: list[np.ndarray], features: int) -> str:
    last_but_one = graph.readings(scaled, WINDOW_READINGS - 2, WINDOW_READINGS - 1)
    before = graph.readings(scaled, 0, WINDOW_READINGS - 2)
    differences = graph.reshape(graph.add("Sub", before, last_but_one), -1, (WINDOW_READINGS - 2) * features)
    step = graph.dense(differences, weights[0], weights[1])
    return graph.add("Add", graph.reshape(last_but_one, -1, features), step)


def _autoencoder(graph: _Graph, scaled: str, weights: list[np.ndarray], features: int) -> str:
    value = graph.reshape(scaled, -1, WINDOW_READINGS * features)
    for at in range(0, len(weights), 2):
        value = graph.dense(value, weights[at], weights[at + 1])
        if at < len(weights) - 2:
            value = graph.add("Relu", value)
    return graph.reshape(value, -1, WINDOW_READINGS, features)


def _lstm_encoder_decoder(graph: _Graph, scaled: str, weights: list[np.ndarray], features: int) -> str:
    by_reading = graph.add("Transpose", scaled, perm=[1, 0, 2])
    code = graph.lstm(by_reading, weights[0:3], at=1)
    repeated = graph.add("Mul", code, graph.constant(np.ones((WINDOW_READINGS, 1, 1))))
    states = graph.lstm(repeated, weights[3:6], at=0)
    states = graph.add("Squeeze", states, graph.constant(np.array([1], dtype=np.int64)))
    return graph.add("Transpose", graph.dense(states, weights[6], weights[7]), perm=[1, 0, 2])


def _score(graph: _Graph, model: Model, scaled: str, last_predicted: str) -> None:
    score = model.score
    axis = graph.constant(np.array([1], dtype=np.int64))
    error = graph.add("Abs", graph.add("Sub", last_predicted, graph.reading(scaled, -1)))
    error = graph.add("Div", graph.add("ReduceMax", error, axis, keepdims=0), graph.constant(score.error_scale))
    start = WINDOW_READINGS - RECENT_READINGS
    recent = graph.readings(scaled, start, WINDOW_READINGS)
    level = graph.add("Abs", graph.add("ReduceMean", recent, axis, keepdims=0))
    level = graph.add("ReduceMax", graph.add("Div", level, graph.constant(score.level_scale)), axis, keepdims=0)
    after, before = (graph.readings(scaled, start + 1 - n, WINDOW_READINGS - n) for n in (0, 1))
    steps = graph.add("ReduceMean", graph.add("Abs", graph.add("Sub", after, before)), axis, keepdims=0)
    log = graph.add("Log", graph.add("Add", steps, graph.constant(VARIATION_FLOOR)))
    variation = graph.add("Abs", graph.add("Sub", log, graph.constant(score.variation_median)))
    variation = graph.add("Div", variation, graph.constant(score.variation_scale))
    variation = graph.add("ReduceMax", variation, axis, keepdims=0)
    squares = [graph.add("Mul", term, term) for term in (error, level, variation)]
    graph.add("Sqrt", graph.add("Add", graph.add("Add", squares[0], squares[1]), squares[2]), output="score")
