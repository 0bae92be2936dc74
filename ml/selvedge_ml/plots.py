"""Plots of trainings and evaluations."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402

from .model import Description  # noqa: E402
from .training import THRESHOLD_QUANTILE, Course  # noqa: E402

# Okabe and Ito's, which those who see no red or no green tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#999999", "#CCCCCC")
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
