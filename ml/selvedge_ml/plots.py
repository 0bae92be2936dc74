"""Plots of trainings and evaluations."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from .intervals import Figure  # noqa: E402
from .model import Description  # noqa: E402
from .training import THRESHOLD_QUANTILE, Course  # noqa: E402

# Okabe and Ito's, which those who see no red or no green tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#F0E442", "#888888", "#BBBBBB")
STYLE = {
    "figure.dpi": 140,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
}


def course_plot(description: Description, course: Course, path: Path) -> None:
    """Loss by epoch, where there is more than one, and the scores of held-out windows with the threshold."""
    with plt.rc_context(STYLE):
        has_epochs = len(course.training_loss) > 1
        figure, axes = plt.subplots(1, 1 + has_epochs, figsize=(4.5 * (1 + has_epochs), 3), layout="constrained")
        scores = np.atleast_1d(axes)[-1]
        if has_epochs:
            epochs = np.arange(1, len(course.training_loss) + 1)
            axes[0].plot(epochs, course.training_loss, color=COLOURS[0], label="training")
            axes[0].plot(epochs, course.held_out_loss, color=COLOURS[1], label="held out")
            axes[0].set(yscale="log", xlabel="epoch", ylabel="mean squared error (deviations²)", title="Loss")
            axes[0].legend()
        scores.hist(course.held_out_scores, bins=60, color=COLOURS[0])
        label = f"threshold {description.threshold:.2f} ({THRESHOLD_QUANTILE:.1%})"
        scores.axvline(description.threshold, color=COLOURS[1], linestyle="--", label=label)
        scores.set(yscale="log", xlabel="score", ylabel="windows", title="Held-out windows")
        scores.legend()
        figure.suptitle(f"{description.name}:{description.version}, {description.kind}, seed {description.seed}")
        figure.savefig(path)
        plt.close(figure)


def auc_plot(title: str, table: dict[str, dict[str, Figure]], path: Path) -> None:
    """Bars of each detector by row, from 0.5, which is guessing; whiskers are intervals or ranges."""
    detectors = list(next(iter(table.values())))
    width = 0.8 / len(detectors)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(max(7.0, 1.5 + 1.25 * len(table)), 3.4), layout="constrained")
        for at, detector in enumerate(detectors):
            found = [line[detector] for line in table.values()]
            x = np.arange(len(found)) + (at - (len(detectors) - 1) / 2) * width
            means = np.array([f.mean for f in found])
            whiskers = [means - [f.low for f in found], [f.high for f in found] - means]
            axes.bar(x, means - 0.5, width * 0.92, bottom=0.5, color=COLOURS[at], label=detector)
            axes.errorbar(x, means, np.maximum(whiskers, 0), fmt="none", ecolor="#333333", elinewidth=0.8)
        axes.axhline(0.5, color="#333333", linewidth=0.8)
        axes.grid(visible=False, axis="x")
        axes.set_xticks(np.arange(len(table)), [row.replace("_", "\n") for row in table])
        of = " or ".join(sorted({f"{f.of}s" for line in table.values() for f in line.values()}))
        axes.set(ylabel="AUC (0.5 is guessing)", title=f"{title}, with {of}", ylim=(None, 1.02))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(detectors))
        figure.savefig(path)
        plt.close(figure)
