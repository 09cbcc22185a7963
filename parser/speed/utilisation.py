"""How near networks come to the machine's matrix products (Hwang & Sung 2015, Figure 4)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from matplotlib.figure import Figure

from parser.speed.document import Heading, Part, Picture, Table
from parser.speed.figures import HEIGHT, WIDTH, draw_line, scale_by_size, svg
from parser.speed.findings import comparisons
from parser.speed.rows import OK, Row
from parser.speed.statistics import Estimate

Lines = dict[str, dict[int, float]]
"""What is measured by one line -> batch size -> share of the machine's products."""


def utilisation_parts(rows: Sequence[Row]) -> list[Part]:
    """A picture and a table for each plugin of which several experiments have several batch sizes.

    Each by the method that is nearest to the products over the most batch sizes.
    """
    parts: list[Part] = []
    for title, lines in _by_plugin(rows).items():
        if len(lines) > 1:
            name = re.sub(r"[^\w.]+", "-", f"{title} utilisation")
            parts += [Heading(2, f"{title}, utilisation"), Picture(name, _drawn(title, lines)), _table(lines)]
    return parts


def _by_plugin(rows: Sequence[Row]) -> dict[str, Lines]:
    found: dict[str, Lines] = defaultdict(dict)
    for comparison in comparisons([row for row in rows if row["status"] == OK]):
        methods = comparison.by_method()
        method = max(methods, key=lambda name: (len(methods[name]), sum(row["mfu"] for row in methods[name])))
        threads = f", {comparison.threads} threads" if comparison.threads > 1 else ""
        if len(methods[method]) > 1:
            title = f"{comparison.plugin}, {comparison.mode}, {comparison.device}{threads}"
            shares = {row["batch_size"]: row["mfu"] for row in methods[method]}
            found[title][f"{comparison.experiment}: {method}"] = shares
    return found


def _drawn(title: str, lines: Lines) -> str:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.add_subplot()
    for number, (name, shares) in enumerate(lines.items()):
        draw_line(
            axes, number, name, list(shares), [Estimate(share, share, share) for share in shares.values()]
        )
    scale_by_size(axes, sorted({size for shares in lines.values() for size in shares}))
    axes.set_title(title, fontsize=10)
    axes.set_ylabel("share of the machine's matrix products")
    return svg(figure)


def _table(lines: Lines) -> Table:
    sizes = sorted({size for shares in lines.values() for size in shares})
    cells = [
        [name, *(f"{shares[size]:.3f}" if size in shares else "" for size in sizes)]
        for name, shares in lines.items()
    ]
    return Table(("share of products, at batch", *map(str, sizes)), cells)
