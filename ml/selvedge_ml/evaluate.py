"""How good the models are on published data, beside what is naive; each figure with its uncertainty."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from . import faults, sources
from .baselines import BASELINES
from .intervals import Case, Figure, figures
from .metrics import auc
from .model import Model, sha256
from .plots import auc_plot
from .predictors import EPOCHS, KINDS, WINDOW_READINGS, Kind
from .series import Series, Values, windows
from .training import LEAST_WINDOWS, Order, train

# What is scored without any model's prediction: what is left of a score, and so what the model is to add to.
WITHOUT_MODEL = "no model"
DETECTORS = (*KINDS, WITHOUT_MODEL, *BASELINES)

FAULTS_OF_A_KIND = 12
# Added to the seed of a run. Scores were chosen on faults of seeds below 200.
FAULT_SEEDS_FROM = 1000
# The levels of the water loop differ between its files: each is learnt from its own first readings.
SKAB_TRAINING_READINGS = 400
SKAB_QUICK = ("other-1.csv", "valve1-0.csv", "valve1-1.csv")
# As the benchmark itself does, up to the first labelled anomaly.
NAB_TRAINING_PART = 0.15
NAB_INTERVALS_S = {"machine_temperature_system_failure.csv": 300.0, "ambient_temperature_system_failure.csv": 3600.0}
NAB_QUICK = ("ambient_temperature_system_failure.csv",)
NAB_WINDOWS = "combined_windows.json"
QUICK_SEEDS = 2
QUICK_EPOCHS_PART = 0.25


@dataclass(frozen=True)
class Scored:
    """One labelled series, and what each detector says of its windows."""

    run: str
    row: str
    anomalous: np.ndarray
    scores: dict[str, Values]


@dataclass(frozen=True)
class Effort:
    """How much is run."""

    seeds: int
    quick: bool

    def epochs(self, kind: Kind) -> int:
        return max(1, round(EPOCHS[kind] * (QUICK_EPOCHS_PART if self.quick else 1.0)))


def evaluate(data: Path, out: Path, seeds: int, quick: bool) -> None:
    """Prints the table, and writes `results.json` and plots into `out`."""
    effort = Effort(QUICK_SEEDS if quick else seeds, quick)
    training = sources.occupancy(data / "occupancy" / "datatraining.txt")
    test = sources.occupancy(data / "occupancy" / "datatest.txt")
    skab, nab = _skab(data / "skab", quick), _nab(data / "nab", quick)
    out.mkdir(parents=True, exist_ok=True)
    office, forecast, alarms = _office(training, test, effort)
    groups = {
        "Occupancy, injected faults": office,
        "SKAB": list(_labelled(skab, effort)),
        "NAB": list(_labelled(nab, effort)),
    }
    aucs: dict[str, Any] = {}
    verdicts: dict[str, Any] = {}
    results = {
        "date": date.today().isoformat(),
        "quick": quick,
        "seeds": list(range(1, effort.seeds + 1)),
        "epochs": {kind: effort.epochs(kind) for kind in KINDS},
        "versions": {name: version(name) for name in ("keras", "jax", "scikit-learn", "numpy")},
        "machine": f"{platform.machine()}, {platform.platform()}, Python {platform.python_version()}",
        "data_sha256": {p.relative_to(data).as_posix(): sha256(p.read_bytes()) for p in _files(data, skab, nab)},
        "forecast": {name: asdict(figure) for name, figure in forecast.items()},
        "alarms_on_normal_windows": alarms,
        "auc": aucs,
        "better_than_naive": verdicts,
    }
    print(_forecast_words(forecast))
    print("Windows of normal test data above the threshold:", _listed({k: f"{v:.1%}" for k, v in alarms.items()}))
    for group, scored in groups.items():
        _progress(f"{group}: intervals")
        table = {row: _aucs([s for s in scored if s.row == row]) for row in dict.fromkeys(s.row for s in scored)}
        table["all"] = _aucs(scored)
        better = _better(scored, table["all"])
        aucs[group] = {row: {d: asdict(f) for d, f in line.items()} for row, line in table.items()}
        verdicts[group] = better
        print(_table(group, table, better))
        auc_plot(group, table, out / f"{group.split(',')[0].lower()}.png")
    (out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    print(f"{out}: results.json and plots", file=sys.stderr)


def _office(training: Series, test: Series, effort: Effort) -> tuple[list[Scored], dict[str, Figure], dict[str, float]]:
    """Faults of each kind by seed; the forecast beside persistence; the part of normal windows above the threshold."""
    scored: list[Scored] = []
    above: dict[str, list[float]] = {kind: [] for kind in KINDS}
    cut, _ = windows(test, WINDOW_READINGS)
    for seed in range(1, effort.seeds + 1):
        models = _models(training, seed, effort)
        for kind, model in models.items():
            above[kind].append(float((model.predict(cut)[1] > model.description.threshold).mean()))
        for fault in faults.KINDS:
            faulty = faults.inject(test, fault, FAULTS_OF_A_KIND, FAULT_SEEDS_FROM + seed)
            scored.append(_scored(f"seed {seed}", fault, models, training, faulty, 0))
    forecast = _forecast(models["regression"], cut)
    return scored, forecast, {kind: float(np.mean(parts)) for kind, parts in above.items()}


def _forecast(model: Model, cut: Values) -> dict[str, Figure]:
    """Root mean square errors of the last reading, in deviations of training, and their ratio."""
    said: dict[str, Values] = {"regression": model.predict(cut)[0].astype(np.float64), "persistence": cut[:, -2]}
    squares = [(((s - cut[:, -1]) / model.scaling.deviation) ** 2).mean(axis=1) for s in said.values()]

    def statistic(_: int, drawn: np.ndarray) -> list[float]:
        regression, persistence = (float(np.sqrt(s[drawn].mean())) for s in squares)
        return [regression, persistence, regression / persistence]

    return dict(zip((*said, "ratio"), figures([Case("test", len(cut))], statistic), strict=True))


def _labelled(parts: list[tuple[Series, int]], effort: Effort) -> Iterator[Scored]:
    """Each series learnt from its first readings, by seed, and scored on those after them."""
    for series, readings in parts:
        training = series.part(slice(0, readings))
        for seed in range(1, effort.seeds + 1):
            models = _models(training, seed, effort)
            yield _scored(series.name, series.name.partition(".")[0], models, training, series, readings)


def _models(training: Series, seed: int, effort: Effort) -> dict[str, Model]:
    made: dict[str, Model] = {}
    for kind in KINDS:
        _progress(f"{training.name}: seed {seed} of {effort.seeds}, {kind}")
        order = Order(kind, "evaluated", "1", seed, effort.epochs(kind))
        made[kind], _ = train(order, training, (), None, lambda *_: None)
    return made


def _scored(run: str, row: str, models: dict[str, Model], training: Series, series: Series, start: int) -> Scored:
    """Windows that end at reading `start` or later; labelled as their last reading is."""
    cut, ends = windows(series, WINDOW_READINGS)
    cut, ends = cut[ends >= start], ends[ends >= start]
    assert series.anomalous is not None
    scores = {kind: model.predict(cut)[1].astype(np.float64) for kind, model in models.items()}
    any_model = models["regression"]
    scores[WITHOUT_MODEL] = any_model.score.without_model(any_model.scaling.scaled(cut)).astype(np.float64)
    scores |= {name: baseline(training, series)[ends] for name, baseline in BASELINES.items()}
    return Scored(run, row, series.anomalous[ends], scores)


def _aucs(scored: list[Scored]) -> dict[str, Figure]:
    def statistic(at: int, drawn: np.ndarray) -> list[float]:
        return [auc(scored[at].scores[name][drawn], scored[at].anomalous[drawn]) for name in DETECTORS]

    return dict(zip(DETECTORS, figures(_cases(scored), statistic), strict=True))


def _better(scored: list[Scored], means: dict[str, Figure]) -> dict[str, Any]:
    """Of each model, its AUC less that of the better baseline."""
    naive = max(BASELINES, key=lambda name: means[name].mean)

    def statistic(at: int, drawn: np.ndarray) -> list[float]:
        case, labels = scored[at], scored[at].anomalous[drawn]
        floor = auc(case.scores[naive][drawn], labels)
        return [auc(case.scores[kind][drawn], labels) - floor for kind in KINDS]

    found = dict(zip(KINDS, figures(_cases(scored), statistic), strict=True))
    return {kind: {"than": naive, "verdict": _verdict(figure), **asdict(figure)} for kind, figure in found.items()}


def _cases(scored: list[Scored]) -> list[Case]:
    return [Case(s.run, len(s.anomalous)) for s in scored]


def _verdict(difference: Figure) -> str:
    if difference.of == "range":
        return "too few runs to say"
    if difference.low > 0:
        return "yes"
    return "no" if difference.high < 0 else "undecided"


def _skab(folder: Path, quick: bool) -> list[tuple[Series, int]]:
    """Files with labels and enough readings before the first of them, and how many are learnt from."""
    parts = []
    for path in sorted(folder.glob("*.csv")):
        series = sources.skab(path)
        if series.anomalous is None or (quick and path.name not in SKAB_QUICK):
            continue
        readings = min(SKAB_TRAINING_READINGS, int(series.anomalous.argmax()))
        if readings < LEAST_WINDOWS + WINDOW_READINGS:
            _progress(f"{path.name}: left out, as only {readings} readings are before its first anomaly")
            continue
        parts.append((series, readings))
    if not parts:
        raise FileNotFoundError(f"{folder}: no file of SKAB with labels is there")
    return parts


def _nab(folder: Path, quick: bool) -> list[tuple[Series, int]]:
    parts = []
    for name, interval_s in NAB_INTERVALS_S.items():
        if quick and name not in NAB_QUICK:
            continue
        series = sources.nab(folder / name, folder / NAB_WINDOWS, interval_s)
        assert series.anomalous is not None
        parts.append((series, min(int(NAB_TRAINING_PART * len(series.values)), int(series.anomalous.argmax()))))
    return parts


def _files(data: Path, skab: list[tuple[Series, int]], nab: list[tuple[Series, int]]) -> list[Path]:
    office = [data / "occupancy" / name for name in ("datatraining.txt", "datatest.txt")]
    named = [(data / folder / s.name) for folder, parts in (("skab", skab), ("nab", nab)) for s, _ in parts]
    return [*office, *named, data / "nab" / NAB_WINDOWS]


def _forecast_words(forecast: dict[str, Figure]) -> str:
    words = _listed({name: f"{f.mean:.4f} ({f.low:.4f} to {f.high:.4f})" for name, f in forecast.items()})
    better = "yes" if forecast["ratio"].high < 1 else "no" if forecast["ratio"].low > 1 else "undecided"
    return f"RMSE of the next reading in deviations: {words}\n  regression better than persistence: {better}"


def _table(group: str, table: dict[str, dict[str, Figure]], better: dict[str, Any]) -> str:
    lines = [f"\n{group}: AUC", f"{'':15}" + "".join(f"{d:>14}" for d in DETECTORS)]
    for row, found in table.items():
        short = row if len(row) < 15 else row[:13] + "…"
        lines.append(f"{short:15}" + "".join(f"{found[d].mean:>14.3f}" for d in DETECTORS))
        spread = "".join(f"{f'{found[d].low:.2f} to {found[d].high:.2f}':>14}" for d in DETECTORS)
        lines.append(f"  {found[KINDS[0]].of:13}{spread}")
    for kind, found in better.items():
        difference = f"{found['mean']:+.3f} ({found['low']:+.3f} to {found['high']:+.3f})"
        lines.append(f"  {kind} better than {found['than']}: {found['verdict']}, by {difference}")
    return "\n".join(lines)


def _listed(words: dict[str, str]) -> str:
    return ", ".join(f"{name} {word}" for name, word in words.items())


def _progress(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
