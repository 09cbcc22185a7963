"""Gantt charts: what each worker does over time (Gaunt et al. 2017, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from parser.batching.messages.worker import Span
from parser.speed.drawing import COLOURS, LABEL_SIZE, WIDTH, svg

LANE = 0.8
"""Height of a bar, as a share of the distance between two workers."""
BACKWARD = "//"


def gantt(spans: Sequence[Span]) -> str:
    """An SVG chart: a lane for each worker, a colour for each instance; the backward pass is hatched."""
    start = min(span.began for span in spans)
    workers = 1 + max(span.worker for span in spans)
    instances = list(dict.fromkeys(span.instance for span in sorted(spans, key=lambda span: span.began)))
    figure = Figure(figsize=(1.6 * WIDTH, 0.9 + 0.7 * workers), layout="constrained")
    axes = figure.add_subplot()
    for worker in range(workers):
        for number, instance in enumerate(instances):
            for forward in (True, False):
                own = [
                    (1e3 * (span.began - start), 1e3 * (span.ended - span.began))
                    for span in spans
                    if (span.worker, span.instance, span.forward) == (worker, instance, forward)
                ]
                axes.broken_barh(
                    own,
                    (worker - LANE / 2, LANE),
                    facecolor=COLOURS[number % len(COLOURS)],
                    edgecolor="white",
                    linewidth=0.3,
                    hatch="" if forward else BACKWARD,
                )
    axes.set_yticks(range(workers), [f"worker {worker + 1}" for worker in range(workers)])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds")
    passes = [
        Patch(facecolor="0.7", label="forward"),
        Patch(facecolor="0.7", hatch=BACKWARD, label="backward"),
    ]
    figure.legend(handles=passes, fontsize=LABEL_SIZE, loc="outside lower center", ncols=2)
    return svg(figure)
