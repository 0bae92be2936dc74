"""What is trained is better than guessing, goes on from newer readings, and says the same as a graph."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import FEATURES, Trained, office, write_office

from selvedge_ml import faults, metrics
from selvedge_ml.__main__ import main
from selvedge_ml.model import load, sha256
from selvedge_ml.predictors import KINDS, WINDOW_READINGS, Regression
from selvedge_ml.score import RECENT_READINGS, Scaling, Score
from selvedge_ml.series import windows
from selvedge_ml.training import THRESHOLD_QUANTILE, apart, held_out

each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="session")
def unseen() -> np.ndarray:
    return windows(office(1_500, seed=2), WINDOW_READINGS)[0]


@each_kind
def test_a_graph_predicts_and_scores_as_what_was_trained(kind: str, trained: dict[str, Trained], unseen) -> None:
    model = trained[kind].model
    predictions, scores = model.predict(unseen)
    session = onnxruntime.InferenceSession(trained[kind].exported / "model.onnx")
    exported, exported_scores = session.run(["prediction", "score"], {"window": unseen.astype(np.float32)})
    assert exported.shape == (len(unseen), 4) if kind == "regression" else unseen.shape
    assert np.abs((exported - predictions) / model.scaling.deviation).max() <= 1e-4
    assert exported == pytest.approx(predictions, rel=1e-4, abs=1e-3)
    assert np.abs(exported_scores - scores).max() <= 1e-4
    one, one_score = session.run(["prediction", "score"], {"window": unseen[:1].astype(np.float32)})
    assert one == pytest.approx(exported[:1], rel=1e-5)
    assert one_score.shape == (1,)


@each_kind
def test_a_graph_is_described(kind: str, trained: dict[str, Trained], office_file: Path) -> None:
    said = json.loads((trained[kind].exported / "model.json").read_text())
    threshold, ranges = said.pop("threshold"), said.pop("ranges")
    graph = (trained[kind].exported / "model.onnx").read_bytes()
    assert said == {
        "name": "office-climate",
        "version": "1",
        "kind": kind,
        "features": list(FEATURES),
        "window_readings": 30,
        "interval_s": 60.0,
        "opset": 18,
        "onnx_sha256": sha256(graph),
        "trained": {
            "seed": 1,
            "data": [
                {
                    "name": "office.txt",
                    "sha256": sha256(office_file.read_bytes()),
                    "readings": 1_500,
                    "from": "2026-02-04T17:51:00",
                    "to": "2026-02-05T18:50:00",
                }
            ],
            "continued_from": None,
        },
    }
    assert threshold == trained[kind].model.description.threshold
    assert [len(r) for r in ranges] == [2] * 4
    read = onnx.load_from_string(graph)
    assert [value.name for value in read.graph.input] == ["window"]
    assert [value.name for value in read.graph.output] == ["prediction", "score"]
    assert read.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"


@each_kind
def test_faults_have_higher_scores(kind: str, trained: dict[str, Trained]) -> None:
    whole = office(1_500, seed=3)
    for fault in ("spike", "dropout"):
        faulty = faults.inject(whole, fault, 8, seed=4)
        cut, ends = windows(faulty, WINDOW_READINGS)
        assert metrics.auc(trained[kind].model.predict(cut)[1], faulty.anomalous[ends]) > 0.75


@each_kind
def test_most_of_what_is_normal_is_below_the_threshold(kind: str, trained: dict[str, Trained], office_file) -> None:
    cut, _ = windows(office(1_500, seed=1), WINDOW_READINGS)
    held = held_out(len(cut))
    above = trained[kind].model.predict(cut[held & apart(held)])[1] > trained[kind].model.description.threshold
    assert above.mean() <= 2 * (1 - THRESHOLD_QUANTILE)
    assert (trained[kind].folder / "loss.png").read_bytes().startswith(b"\x89PNG")


@each_kind
def test_online_learning_goes_on_from_the_model_that_is_there(kind, trained: dict[str, Trained], tmp_path) -> None:
    newer = write_office(tmp_path / "newer.txt", office(1_500, seed=5))
    before = trained[kind]
    command = ["train", "--kind", kind, "--data", str(newer), "--seed", "2", "--epochs", "1", "--version", "2"]
    assert main([*command, "--from", str(before.folder), "--out", str(tmp_path / "next")]) == 0
    after = load(tmp_path / "next")
    assert after.description.continued_from == "office-climate:1"
    assert [data.name for data in after.description.data] == ["office.txt", "newer.txt"]
    assert after.scaling.mean.tolist() == before.model.scaling.mean.tolist()
    assert after.score.error_scale == before.model.score.error_scale
    assert after.description.threshold != before.model.description.threshold
    pairs = list(zip(after.predictor.weights(), before.model.predictor.weights(), strict=True))
    assert all((a != b).any() for a, b in pairs)
    moved = sum(float(((a - b) ** 2).sum()) for a, b in pairs)
    assert moved < sum(float((b**2).sum()) for _, b in pairs)


def test_a_regression_keeps_what_a_few_windows_do_not_speak_against(unseen) -> None:
    scaled = Scaling.of(unseen).scaled(unseen)
    learnt, few = Regression(4), scaled[::100]
    learnt.fit(scaled, scaled, 1, lambda *_: None)
    went_on, fresh = Regression(4), Regression(4)
    went_on.set_weights(learnt.weights())
    for model in (went_on, fresh):
        model.fit(few, few, 1, lambda *_: None)
    moved, other = (np.linalg.norm(m.weights()[0] - learnt.weights()[0]) for m in (went_on, fresh))
    assert 0 < moved < other / 2


def test_a_regression_is_better_than_persistence(trained: dict[str, Trained], unseen) -> None:
    model = trained["regression"].model
    forecast = (model.predict(unseen)[0] - unseen[:, -1]) / model.scaling.deviation
    persistence = (unseen[:, -2] - unseen[:, -1]) / model.scaling.deviation
    assert (forecast**2).mean() < (persistence**2).mean()


def test_a_sensor_that_is_stuck_is_unlike_training_though_each_reading_is_usual() -> None:
    rng = np.random.default_rng(1)
    lively = rng.normal(0, 1, (400, WINDOW_READINGS, 2)).astype(np.float32)
    score = Score.of(lively, lively)
    stuck = lively[:1].copy()
    stuck[:, -RECENT_READINGS:, 1] = 0.1
    shaking = lively[:1].copy()
    shaking[:, ::2, 0] += 20
    usual = score(lively, lively)
    assert score(stuck, stuck)[0] > 3 * np.quantile(usual, 0.99)
    assert score(shaking, shaking)[0] > 3 * np.quantile(usual, 0.99)
    assert score(lively + 5, lively + 5).min() > 3 * np.quantile(usual, 0.99)


def test_scaling_goes_there_and_back() -> None:
    values = np.random.default_rng(1).normal((20, 700), (1, 90), (50, WINDOW_READINGS, 2))
    scaling = Scaling.of(values)
    assert scaling.scaled(values).std(axis=(0, 1)) == pytest.approx(1, abs=1e-3)
    assert scaling.unscaled(scaling.scaled(values)) == pytest.approx(values, rel=1e-5)


def test_held_out_windows_share_no_reading_with_training() -> None:
    for count in (300, 371, 8_114):
        held = held_out(count)
        used = apart(held)
        first = np.arange(count)
        training = {r for w in first[used & ~held] for r in range(w, w + WINDOW_READINGS)}
        unseen = {r for w in first[used & held] for r in range(w, w + WINDOW_READINGS)}
        assert unseen
        assert not training & unseen
