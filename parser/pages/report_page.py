"""The page of `evaluate --report`: what a parser gets right, and where its errors are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from parser.evaluation.errors import GROUPINGS, Errors
from parser.evaluation.report import MEANINGS
from parser.measures import MEASURES
from parser.pages.html import bar, picture, section, table, tree_places
from parser.pages.page import asset, html_page
from parser.pages.trees_page import TREE_SCRIPTS, TREE_STYLES, tree_data
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import Sentence

STYLES = (*TREE_STYLES, "report_page.css")
SCRIPTS = (*TREE_SCRIPTS, "report_page.js")
PAIRS_SHOWN, SENTENCES_SHOWN = 25, 20
WORST = "worst"
SCORES_NOTE = "Tags and lemmas that the model does not predict are the gold ones."
LABELS_NOTE = "Words with the right head and a wrong label, without subtypes."
HEADS_NOTE = (
    "The tag of the gold head and that of the head which the parser chose, of words with a wrong head."
)
LEGEND = (
    "Grey: right arcs. Dashed, with ✗: words with a wrong head. A label with ✗ and the gold one beside it: "
    "the head is right. Dotted, below the words: gold arcs that are missing."
)
NO_CURVES = "The model does not lie in the folder of its training run, which would have curves.svg."


def report_page(
    title: str,
    errors: Errors,
    gold: Sequence[Sentence],
    trees: Sequence[ParsedTree],
    curves: bytes | None = None,
) -> str:
    """An HTML document. curves: the SVG of the learning curves."""
    worst = errors.worst(SENTENCES_SHOWN)
    body = [
        _header(title, f"{errors.scores.sentences:,} sentences, {errors.scores.words:,} words"),
        "<main>",
        section("Scores", _scores(errors), note=SCORES_NOTE),
        section("Learning curves", *_curves(curves), note="" if curves else NO_CURVES),
        *(section(f"By {grouping}", _groups(errors, grouping)) for grouping in GROUPINGS),
        section("Labels taken for others", _pairs(errors.labels), note=LABELS_NOTE),
        section("Heads taken for others, by their tags", _pairs(errors.head_tags), note=HEADS_NOTE),
        section(
            f"The {len(worst)} sentences with the most errors",
            tree_places(WORST, [sentence_heading(errors, gold, number) for number in worst]),
            note=LEGEND,
        ),
        "</main>",
    ]
    data = {WORST: [drawn(gold[number], trees[number]) for number in worst]}
    return page_with_trees(title, "".join(body), data)


def page_with_trees(title: str, body: str, data: dict[str, list[dict[str, object]]]) -> str:
    """data: trees by the keys of `tree_places`, see `drawn`."""
    styles, scripts = ([asset(name) for name in names] for names in (STYLES, SCRIPTS))
    return html_page(title, body, styles, scripts, {"trees": data})


def drawn(gold: Sentence, tree: ParsedTree) -> dict[str, object]:
    """What is drawn of a parsed sentence beside its gold tree."""
    upos = tree.tags.get("upos", gold.upos)
    return tree_data(replace(gold, heads=tree.heads, labels=tree.labels, upos=upos), gold)


def sentence_heading(errors: Errors, gold: Sequence[Sentence], number: int) -> str:
    words, wrong = errors.sentences[number]
    return f"{gold[number].identifier}, line {gold[number].line:,}: {wrong} of {words} words wrong"


def _header(title: str, about: str) -> str:
    return f"<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>"


def _scores(errors: Errors) -> str:
    rows = [
        (MEASURES[measure], f"{errors.scores.percent(measure):.2f}", meaning)
        for measure, meaning in MEANINGS.items()
    ]
    rows.append(("exact match", f"{errors.scores.exact:.2f}", "sentences without an error"))
    return table(("score", "percent", "what it counts"), rows, ["what it counts"])


def _curves(curves: bytes | None) -> list[str]:
    return [picture(curves, "Loss and dev scores over the epochs of the training run")] if curves else []


def _groups(errors: Errors, grouping: str) -> str:
    wrong = sum(group.words - group.correct_arcs for _, group in errors.ordered(grouping))
    rows = [
        (
            name,
            f"{group.words:,}",
            f"{group.uas:.2f}",
            f"{group.las:.2f}",
            bar((group.words - group.correct_arcs) / max(1, wrong)),
        )
        for name, group in errors.ordered(grouping)
    ]
    return table(("", "words", "UAS", "LAS", "of all errors"), rows)


def _pairs(pairs: Counter[tuple[str, str]]) -> str:
    total = max(1, pairs.total())
    rows = [
        (gold, found, f"{times:,}", bar(times / total))
        for (gold, found), times in sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))[:PAIRS_SHOWN]
    ]
    return table(("gold", "parsed", "words", "of these errors"), rows, ["parsed"])
