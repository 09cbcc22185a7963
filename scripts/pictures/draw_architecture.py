"""Draw the path of one batch from a CoNLL-U file to its gradient, with the module that does each step.

python scripts/pictures/draw_architecture.py docs/architecture.svg
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

WIDTH, HEIGHT, COLUMN = 1.86, 0.62, 2.12
FOLDER_COLOURS = {
    "treebank": "#d9e2ee",
    "transitions": "#dcebd5",
    "networks": "#f6d3d8",
    "batching": "#e4d9ee",
    "training": "#f4f0d0",
}
Point = tuple[float, float]


class Box(NamedTuple):
    """The output of a step, the module that makes it, and the position of the box: its column and height."""

    text: str
    module: str
    column: int
    y: float
    optional: bool = False

    @property
    def x(self) -> float:
        return COLUMN * self.column

    @property
    def left(self) -> Point:
        return self.x - WIDTH / 2, self.y

    @property
    def right(self) -> Point:
        return self.x + WIDTH / 2, self.y

    @property
    def top(self) -> Point:
        return self.x, self.y + HEIGHT / 2

    @property
    def bottom(self) -> Point:
        return self.x, self.y - HEIGHT / 2


ONCE = [
    Box("CoNLL-U file", "", 0, 5.0),
    Box("sentences", "treebank/conllu.py", 1, 5.0),
    Box("projective trees", "treebank/projectivity.py", 2, 5.0),
    Box("integer ids", "treebank/vocabulary.py", 3, 5.0),
    Box("gold trajectories", "transitions/oracle.py", 4, 5.0),
    Box("stack forests", "networks/replay/examples.py", 5, 5.0),
]
BATCH = [
    Box("similar lengths", "treebank/batches.py", 0, 3.4),
    Box("batch, by levels", "networks/replay/making.py", 1, 3.4),
]
KNOWN_WORDS = Box("word dropout", "training/word_dropout.py", 0, 1.45)
WORDS = Box("word vectors", "networks/token_encoder.py", 1, 1.45)
COMPOSED = Box("composed vectors", "networks/stack_parser.py", 2, 1.45, optional=True)
TRANSITIONS = Box("transition vectors", "networks/stack_parser.py", 0, 0.1)
STACK = Box("stack LSTM, by level", "batching/forest_lstm.py", 3, 1.9)
BUFFER = Box("buffer LSTM", "networks/stack_parser.py", 3, 1.0)
HISTORY = Box("history LSTM", "networks/stack_parser.py", 3, 0.1)
SCORES = Box("scores of all steps", "networks/stack_parser.py", 4, 1.0)
LOSS = Box("loss", "networks/loss.py", 5, 1.0)
UPDATE = Box("gradients, update", "training/training_step.py", 5, 0.1)
LSTMS = [STACK, BUFFER, HISTORY]
BOXES = [*ONCE, *BATCH, KNOWN_WORDS, WORDS, COMPOSED, TRANSITIONS, *LSTMS, SCORES, LOSS, UPDATE]
MARGIN = -1.28
"""The horizontal position of lines between bands."""
BANDS = {
    "once for a treebank, on the host": 5.6,
    "once for a batch, on the host (a GPU that holds the examples makes the batch itself)": 4.0,
    "once for a batch, on the device": 2.5,
}


def main(path: str) -> None:
    plt.rcParams["svg.hashsalt"] = "the same file at every run"
    figure, axes = plt.subplots(figsize=(12, 6.0), layout="constrained")
    for box in BOXES:
        draw_box(axes, box)
    for text, y in BANDS.items():
        axes.text(-WIDTH / 2, y, text, fontsize=10, va="center", color="0.35")
    for first, second in [*pairwise(ONCE), *pairwise(BATCH)]:
        draw_arrow(axes, first.right, second.left)
    draw_arrow(axes, ONCE[-1].bottom, (ONCE[-1].x, 4.25), (MARGIN, 4.25), (MARGIN, 3.4), BATCH[0].left)
    for box in (KNOWN_WORDS, TRANSITIONS):
        draw_arrow(axes, BATCH[-1].bottom, (BATCH[-1].x, 2.75), (MARGIN, 2.75), (MARGIN, box.y), box.left)
    for first, second in pairwise([KNOWN_WORDS, WORDS, COMPOSED]):
        draw_arrow(axes, first.right, second.left)
    for lstm, source, up in zip(LSTMS, (COMPOSED, COMPOSED, TRANSITIONS), (0.18, 0, -0.18), strict=True):
        draw_arrow(axes, source.right, lstm.left)
        draw_arrow(axes, lstm.right, (SCORES.left[0], SCORES.y + up))
    draw_arrow(axes, SCORES.right, LOSS.left)
    draw_arrow(axes, LOSS.bottom, UPDATE.top)
    axes.set_xlim(MARGIN - 0.1, UPDATE.x + WIDTH / 2 + 0.1)
    axes.set_ylim(-0.35, 5.8)
    axes.set_axis_off()
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None, dpi=110)


def draw_box(axes: Axes, box: Box) -> None:
    colour = FOLDER_COLOURS[box.module.partition("/")[0]] if box.module else "#ffffff"
    corner = box.x - WIDTH / 2 + 0.05, box.y - HEIGHT / 2 + 0.05
    patch = FancyBboxPatch(
        corner,
        WIDTH - 0.1,
        HEIGHT - 0.1,
        boxstyle="round,pad=0.05",
        facecolor=colour,
        edgecolor="0.3",
        linestyle="--" if box.optional else "-",
    )
    axes.add_patch(patch)
    axes.text(box.x, box.y + (0.11 if box.module else 0), box.text, ha="center", va="center", fontsize=10)
    axes.text(box.x, box.y - 0.15, box.module, ha="center", va="center", fontsize=6.3, family="monospace")


def draw_arrow(axes: Axes, *points: Point) -> None:
    """Draw straight lines from point to point, with an arrowhead at the last point."""
    *line, start, end = points
    xs, ys = zip(*line, start, strict=True)
    axes.plot(xs, ys, color="0.3", linewidth=1.2, zorder=0)
    style = {"arrowstyle": "-|>", "color": "0.3", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops={**style, "mutation_scale": 12}, zorder=0)


if __name__ == "__main__":
    main(sys.argv[1])
