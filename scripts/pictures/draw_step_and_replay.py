"""Draw the picture of docs/architecture.md: the LSTM calls of a small batch by step and by replay.

The trajectories are real ones.

python scripts/pictures/draw_step_and_replay.py docs/step-and-replay.svg
"""

from __future__ import annotations

import sys

import matplotlib

from parser.treebank.tokens import encode_heads, encode_labels

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from parser.batching.forest_lstm import StackForest
from parser.transitions import SYSTEMS
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import Trajectory, oracle_trajectory
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import is_projective
from parser.treebank.vocabulary import Vocabulary

LENGTHS = (10, 7, 4)
PUSH, POP, WAIT = "#3b6fb6", "#d9e2ee", "#f4f0e6"


def main(path: str) -> None:
    treebank = [s for s in read_treebank("data/quickstart/dev.conllu") if is_projective(s.heads)]
    sentences = [next(s for s in treebank if len(s) == length) for length in LENGTHS]
    vocabulary = Vocabulary.build(sentences, ["form"])
    inventory = Inventory.of(SYSTEMS["arc-hybrid"], vocabulary)
    trajectory = oracle_trajectory(inventory, encode_heads(sentences), encode_labels(vocabulary, sentences))
    forest = StackForest.of(trajectory.stack_read, trajectory.stack_move)

    plt.rcParams["svg.hashsalt"] = "the same file at every run"
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 3.6), width_ratios=[1.7, 1], layout="constrained")
    draw_steps(left, trajectory, inventory.no_op)
    for row, sentence in enumerate(sentences):
        stored = forest.is_node[row]
        pushed = trajectory.top[row][stored[1:]].tolist()
        draw_levels(
            right, row, forest.depth[row][stored].tolist(), ["ROOT", *(sentence.forms[w - 1] for w in pushed)]
        )
    levels = int(forest.depth[forest.is_node].max()) + 1
    steps = trajectory.transitions.shape[1] + 1
    finish(left, steps, "step", f"step: {steps} LSTM calls, one after the other")
    finish(right, levels, "height in the stack", f"replay: {levels} LSTM calls, one for each level")
    meanings = (
        (PUSH, "push: a new state"),
        (POP, "pop: computed, never read"),
        (WAIT, "waiting for the longest"),
    )
    left.legend(
        handles=[Patch(color=colour, label=meaning) for colour, meaning in meanings],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.22),
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None, dpi=110)


def draw_steps(axes: Axes, trajectory: Trajectory, wait: int) -> None:
    """Draw a column for ROOT's push and one for each transition."""
    for row, (moves, transitions) in enumerate(
        zip(trajectory.stack_move, trajectory.transitions, strict=True)
    ):
        pairs = zip(moves, transitions, strict=True)
        taken = [WAIT if transition == wait else PUSH if move > 0 else POP for move, transition in pairs]
        for step, colour in enumerate([PUSH, *taken]):
            axes.add_patch(Rectangle((step, -row), 0.9, 0.8, color=colour))


def draw_levels(axes: Axes, row: int, depths: list[int], words: list[str]) -> None:
    """Draw a column for each height in the stack, with the words that are ever at that height."""
    for level in set(depths):
        here = [word for word, depth in zip(words, depths, strict=True) if depth == level]
        height = 0.8 / len(here)
        for position, word in enumerate(reversed(here)):
            bottom = -row + position * height
            axes.add_patch(Rectangle((level, bottom), 0.93, height - 0.03, color=PUSH))
            axes.text(
                level + 0.46,
                bottom + height / 2 - 0.02,
                word,
                ha="center",
                va="center",
                fontsize=7,
                color="white",
            )


def finish(axes: Axes, columns: int, name: str, title: str) -> None:
    axes.autoscale_view()
    axes.set_title(title, fontsize=12)
    axes.set_yticks([0.4 - row for row in range(len(LENGTHS))], [f"{length} words" for length in LENGTHS])
    axes.set_xticks(
        [column + 0.45 for column in range(columns)], [str(column) for column in range(columns)], fontsize=8
    )
    axes.set_xlabel(name)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


if __name__ == "__main__":
    main(sys.argv[1])
