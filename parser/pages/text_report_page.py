"""The page of `evaluate --text --report`: the scores of parsed raw text, and errors in its segmentation."""

from __future__ import annotations

from parser.evaluation.report import text_rows
from parser.evaluation.text_scores import TextScores
from parser.pages.page import rendered


def text_report_page(title: str, scores: TextScores) -> str:
    """Return the page as an HTML document."""
    return rendered(
        "text_report_page.html",
        title=title,
        about=f"{scores.gold['sentences']:,} sentences, {scores.gold['words']:,} words",
        scores=[(name, *(f"{value:.2f}" for value in values)) for name, *values in text_rows(scores)],
        segmentation=[
            (
                kind,
                f"{errors:,}",
                f"{of:,}",
                f"{100 * errors / of:.1f} %",
                [(one.text, "", one.place) for one in examples],
            )
            for kind, errors, of, examples in scores.segmentation.rows()
        ],
    )
