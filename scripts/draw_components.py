"""Draw the example networks with their strongly connected components, a file for each.

python scripts/draw_components.py [docs/components]
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
from matplotlib.patches import FancyArrowPatch, Patch

from parser.batching.recurrence.components import components
from parser.batching.recurrence.examples import EXAMPLES
from parser.batching.recurrence.graph import Connection, Layer, LayerGraph, as_digraph

INPUT, AT_ONCE, BY_FRAME = "#ffffff", "#d9e2ee", ("#f6c89f", "#f2b8c6")
COLOURS = {"full": "#1f1f1f", "diagonal": "#009E73", "identity": "#8a8a8a"}
WIDE, HIGH = 1.6, 1.0
Place = tuple[float, float]


def main(folder: str) -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "the same file at every run"
    plt.rcParams["svg.fonttype"] = "none"
    for name, build in EXAMPLES.items():
        graph = build(Layer(size=3, kind="input"), 4)
        places = places_of(graph)
        across = max(x for x, _ in places.values()) - min(x for x, _ in places.values()) + 1.8
        up = max(y for _, y in places.values()) + 2.0
        figure, axes = plt.subplots(figsize=(max(1.25 * across, 3.2), 0.95 * up + 0.5), layout="constrained")
        draw(axes, graph, places)
        axes.set_title(name, fontsize=11)
        figure.legend(handles=_legend(graph), fontsize=7, loc="outside lower center", ncols=3)
        figure.savefig(Path(folder) / f"{name}.svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)


def places_of(graph: LayerGraph) -> dict[str, Place]:
    """Positions by topological order within a frame, from bottom to top."""
    at_once = as_digraph(graph.layers, (each for each in graph.connections if not each.delay))
    levels = [sorted(level, key=list(graph.layers).index) for level in nx.topological_generations(at_once)]
    return {
        layer: (WIDE * (number - (len(level) - 1) / 2), HIGH * height)
        for height, level in enumerate(levels)
        for number, layer in enumerate(level)
    }


def draw(axes: Axes, graph: LayerGraph, places: dict[str, Place]) -> None:
    for connection in graph.connections:
        _draw_connection(axes, connection, places)
    colours = dict.fromkeys(graph.inputs, INPUT)
    cycles = 0
    for part in components(graph):
        colour = BY_FRAME[cycles % len(BY_FRAME)] if part.recurrent else AT_ONCE
        cycles += part.recurrent
        colours |= dict.fromkeys(part.layers, colour)
    for layer, (x, y) in places.items():
        kind, activation = graph.layers[layer].kind, graph.layers[layer].activation
        sign = {"additive": "+", "multiplicative": "\N{MULTIPLICATION SIGN}"}.get(kind, "")
        below = " ".join(filter(None, (sign, "" if activation == "identity" else activation)))
        axes.text(
            x,
            y,
            f"{layer}\n{below}".strip(),
            ha="center",
            va="center",
            fontsize=8,
            bbox={"boxstyle": "round,pad=0.35", "facecolor": colours[layer], "edgecolor": "0.3"},
        )
    xs, ys = zip(*places.values(), strict=True)
    axes.set_xlim(min(xs) - 0.9, max(xs) + 0.9)
    axes.set_ylim(min(ys) - 0.6, max(ys) + 0.6)
    axes.set_axis_off()


def _draw_connection(axes: Axes, connection: Connection, places: dict[str, Place]) -> None:
    """Delayed ones are dashed and bent outward, those of one layer to itself a loop."""
    start, end = places[connection.source], places[connection.target]
    bend, gap = 0.0, 13.0
    if connection.source == connection.target:
        (x, y), bend, gap = start, 1.8, 0.0
        start, end = (x + 0.2, y - 0.13), (x + 0.2, y + 0.13)
    elif connection.delay:
        bend = 0.45 if end[0] <= start[0] else -0.45
    elif abs(end[1] - start[1]) > HIGH:
        bend = 0.12
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        connectionstyle=f"arc3,rad={bend}",
        shrinkA=gap,
        shrinkB=gap,
        mutation_scale=9,
        linestyle="--" if connection.delay else "-",
        linewidth=1.5 if connection.weight == "full" else 1.0,
        color=COLOURS[connection.weight],
        zorder=0,
    )
    axes.add_patch(arrow)


def _legend(graph: LayerGraph) -> list[Patch | Line2D]:
    cycles = sum(part.recurrent for part in components(graph))
    patches = [
        Patch(facecolor=colour, edgecolor="0.3", label="frame by frame" if cycles == 1 else f"cycle {number}")
        for number, colour in enumerate(BY_FRAME[:cycles], start=1)
    ]
    if cycles < len(components(graph)):
        patches.append(Patch(facecolor=AT_ONCE, edgecolor="0.3", label="all frames at once"))
    kinds = {each.weight for each in graph.connections}
    lines = [Line2D([], [], color=COLOURS[kind], label=kind) for kind in COLOURS if kind in kinds]
    return [*lines, Line2D([], [], color="0.3", linestyle="--", label="one frame later"), *patches]


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "docs/components")
