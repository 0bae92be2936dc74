"""What is served by either runtime is what the model says, and a line that is no window ends nothing."""

import io
import json

import pytest
from conftest import Trained, office

from selvedge_ml.predictors import KINDS, WINDOW_READINGS
from selvedge_ml.series import windows
from selvedge_ml.serve import serve


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("runtime", ["keras", "onnxruntime"])
def test_a_window_is_answered_by_its_score(kind: str, runtime: str, trained: dict[str, Trained]) -> None:
    model = trained[kind]
    cut = windows(office(1_000, seed=6), WINDOW_READINGS)[0][::200]
    lines = [json.dumps(window.tolist()) for window in cut]
    bad = ["window", "[[1, 2, 3, 4]]", json.dumps([[1e999] * 4] * WINDOW_READINGS), '{"a": 1}', "[[[]]]"]
    answers = io.StringIO()
    folder = model.folder if runtime == "keras" else model.exported
    serve(runtime, folder, io.StringIO("\n".join([*bad, *lines]) + "\n"), answers)
    said = [json.loads(line) for line in answers.getvalue().splitlines()]
    assert all("it is to be 30 readings of 4 numbers" in answer["error"] for answer in said[: len(bad)])
    scores = [answer["score"] for answer in said[len(bad) :]]
    assert scores == pytest.approx(model.model.predict(cut)[1].tolist(), abs=1e-4)
    assert all(answer["predict_us"] > 0 for answer in said[len(bad) :])
