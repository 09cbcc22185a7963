"""The pictures that README and docs/ show of kept rows."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from figures.headline import CONFIG, draw, headlines
from figures.reports import reports
from parser.speed.reporting.document import PLOTS
from parser.speed.reporting.drawing import svg

OF_REPORTS = {
    "batch-sizes.svg": ("accuracy/batch-size", "test-las.svg"),
    "stack-lstm.svg": ("speed/stack-lstm", "ding-koehn-2019-train-cpu-1-speed.svg"),
}
"""Files in docs/, and the report and its plot that they show."""


def pictures() -> dict[str, str]:
    """All of them as SVG, by the names of their files in docs/."""
    drawn = {"headline.svg": svg(draw(headlines(CONFIG)))}
    for name, (report, plot) in OF_REPORTS.items():
        with TemporaryDirectory() as folder:
            reports()[report](Path(folder))
            drawn[name] = (Path(folder) / PLOTS / plot).read_text(encoding="utf-8")
    return drawn
