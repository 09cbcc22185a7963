"""Draw example networks with their strongly connected components, one file for each network.

python scripts/pictures/draw_components.py docs peephole-lstm     this one
python scripts/pictures/draw_components.py runs/components        all
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import networkx as nx
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from parser.batching.recurrence.examples import EXAMPLES
from parser.batching.recurrence.layer_graph import Connection, Layer, LayerGraph, as_digraph, components

INPUT, AT_ONCE, BY_FRAME = "#ffffff", "#d9e2ee", ("#f6c89f", "#f2b8c6")
COLOURS = {"full": "#1f1f1f", "diagonal": "#009E73", "identity": "#8a8a8a"}
WEIGHTS = {"full": "full weight matrix", "diagonal": "diagonal weights", "identity": "identity, no weights"}
TITLES = {
    "elman": "Elman network",
    "gru": "GRU",
    "lstm": "LSTM",
    "peephole-lstm": "LSTM with peepholes",
    "two-layers": "Elman layer below an LSTM",
}
WIDE, HIGH = 1.6, 1.0
"""Distances between layers, in inches before scaling."""
BEND = 0.08
"""Curvature of arrows over several levels, for each level."""
LOOP = 0.21
"""Horizontal distance of a loop from the centre of its layer."""
Place = tuple[float, float]


def main(folder: str, *names: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "the same file at every run"
    plt.rcParams["svg.fonttype"] = "none"
    for name in names or EXAMPLES:
        graph = EXAMPLES[name](Layer(size=3, kind="input"), 4)
        positions = places_of(graph)
        across = max(x for x, _ in positions.values()) - min(x for x, _ in positions.values()) + 1.8
        up = max(y for _, y in positions.values()) + 2.0
        figure, axes = plt.subplots(figsize=(max(1.25 * across, 3.2), 0.95 * up + 0.5), layout="constrained")
        boxes = draw_layers(axes, graph, positions)
        axes.set_title(TITLES.get(name, name), fontsize=11)
        figure.legend(handles=_legend(graph), fontsize=7, loc="outside lower center", ncols=2)
        figure.draw_without_rendering()  # sets the sizes of the boxes, at whose edges arrows end
        for connection in graph.connections:
            _draw_connection(axes, connection, positions, boxes)
        figure.savefig(Path(folder) / f"{name}.svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)


def places_of(graph: LayerGraph) -> dict[str, Place]:
    """Positions of the layers, from bottom to top by topological order within a frame."""
    at_once = as_digraph(graph.layers, (each for each in graph.connections if not each.delay))
    levels = [sorted(level, key=list(graph.layers).index) for level in nx.topological_generations(at_once)]
    return {
        layer: (WIDE * (number - (len(level) - 1) / 2), HIGH * height)
        for height, level in enumerate(levels)
        for number, layer in enumerate(level)
    }


def draw_layers(axes: Axes, graph: LayerGraph, positions: dict[str, Place]) -> dict[str, FancyBboxPatch]:
    """Draw a box for each layer in the colour of its component. Returns the boxes by layer."""
    boxes: dict[str, FancyBboxPatch] = {}
    colours = dict.fromkeys(graph.inputs, INPUT)
    cycles = 0
    for part in components(graph):
        colour = BY_FRAME[cycles % len(BY_FRAME)] if part.recurrent else AT_ONCE
        cycles += part.recurrent
        colours |= dict.fromkeys(part.layers, colour)
    for layer, (x, y) in positions.items():
        kind, activation = graph.layers[layer].kind, graph.layers[layer].activation
        sign = {"additive": "+", "multiplicative": "\N{MULTIPLICATION SIGN}"}.get(kind, "")
        below = " ".join(filter(None, (sign, "" if activation == "identity" else activation)))
        text = axes.text(
            x,
            y,
            f"{layer}\n{below}".strip(),
            ha="center",
            va="center",
            fontsize=8,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": colours[layer], "edgecolor": "0.3"},
        )
        box = text.get_bbox_patch()
        assert box is not None
        boxes[layer] = box
    xs, ys = zip(*positions.values(), strict=True)
    axes.set_xlim(min(xs) - 0.9, max(xs) + 0.9)
    axes.set_ylim(min(ys) - 0.6, max(ys) + 0.6)
    axes.set_axis_off()
    return boxes


def _draw_connection(
    axes: Axes, connection: Connection, positions: dict[str, Place], boxes: dict[str, FancyBboxPatch]
) -> None:
    """Draw an arrow from box to box. Delayed connections are dashed and bent; to the same layer, a loop."""
    start, end = positions[connection.source], positions[connection.target]
    bend = 0.0
    loop = connection.source == connection.target
    if loop:
        (x, y), bend = start, 1.8
        start, end = (x + LOOP, y - 0.13), (x + LOOP, y + 0.13)
    elif connection.delay:
        bend = 0.45 if end[0] <= start[0] else -0.45
    elif abs(end[1] - start[1]) > HIGH:
        bend = BEND * abs(end[1] - start[1]) / HIGH
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        connectionstyle=f"arc3,rad={bend}",
        patchA=None if loop else boxes[connection.source],
        patchB=None if loop else boxes[connection.target],
        shrinkA=0.0,
        shrinkB=1.5,
        mutation_scale=11,
        linestyle="--" if connection.delay else "-",
        linewidth=1.5 if connection.weight == "full" else 1.0,
        color=COLOURS[connection.weight],
        zorder=0,
    )
    axes.add_patch(arrow)


def _legend(graph: LayerGraph) -> list[Patch | Line2D]:
    cycles = sum(part.recurrent for part in components(graph))
    patches = [
        Patch(
            facecolor=colour,
            edgecolor="0.3",
            label="cycle: frame by frame" if cycles == 1 else f"cycle {number}: frame by frame",
        )
        for number, colour in enumerate(BY_FRAME[:cycles], start=1)
    ]
    if cycles < len(components(graph)):
        patches.append(Patch(facecolor=AT_ONCE, edgecolor="0.3", label="no cycle: all frames at once"))
    kinds = {each.weight for each in graph.connections}
    lines = [Line2D([], [], color=COLOURS[kind], label=WEIGHTS[kind]) for kind in COLOURS if kind in kinds]
    return [*lines, Line2D([], [], color="0.3", linestyle="--", label="delayed by one frame"), *patches]


if __name__ == "__main__":
    main(*sys.argv[1:])
