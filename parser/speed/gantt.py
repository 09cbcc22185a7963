"""Who works on what, and when (Gaunt et al. 2017, Figure 1)."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from parser.batching.messages.worker import Span
from parser.speed.figures import COLOURS, WIDTH, svg

LANE = 0.8
"""Height of a bar, of the distance between two workers."""
BACKWARD = "//"


def gantt(spans: Sequence[Span]) -> str:
    """An SVG picture: a lane for each worker, a colour for each instance, gradients hatched."""
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
    ways = [Patch(facecolor="0.7", label="forward"), Patch(facecolor="0.7", hatch=BACKWARD, label="backward")]
    axes.legend(handles=ways, fontsize=8, loc="upper right", ncols=2, bbox_to_anchor=(1, 1.3))
    return svg(figure)
