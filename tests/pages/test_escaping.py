"""Whatever treebanks, models and file names contain, pages show it as text."""

import json
from dataclasses import fields
from html.parser import HTMLParser

import numpy as np
import pytest
from pages.small_trees import HOSTILE_TEXTS

from parser.evaluation.calibration import Confidence
from parser.evaluation.errors import find_errors
from parser.evaluation.significance import compare
from parser.pages.comparison_page import Parsed, comparison_page
from parser.pages.drawing import as_svg
from parser.pages.page import CONTROLS
from parser.pages.report_page import report_page
from parser.pages.trees_page import trees_page
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.sentence import Sentence

TEXTS = [text for text in HOSTILE_TEXTS if ":" not in text]
"""Texts without colons: reports leave out what follows a colon in labels."""
PLAIN = "zebra"


def gold_of(text):
    """A sentence of two words with the text in all columns and in the comments."""
    columns = {
        field.name: (text, f"{text}2") for field in fields(Sentence) if field.type == "tuple[str, ...]"
    }
    columns |= {"lines": (f"# text = {text}\n",)}
    return Sentence(**columns, heads=(2, 0), identifier=text, line=1, word_lines=())


def trees_of(text):
    """Three trees: the gold tree, one with a different label, and one with a different head."""
    labels = gold_of(text).labels
    return [ParsedTree((2, 0), labels), ParsedTree((2, 0), (f"{text}3", "x")), ParsedTree((0, 1), labels)]


def report(text):
    gold, trees = [gold_of(text)] * 3, trees_of(text)
    confidence = Confidence(np.array([0.5, 0.2]), np.array([True, False]), np.array([text, f"{text}2"]))
    return report_page(text, find_errors(gold, trees, bool), gold, trees, (), text, {text: confidence})


def comparison(text):
    gold, trees = [gold_of(text)] * 3, trees_of(text)
    first, second = (
        Parsed(text, find_errors(gold, own, bool), own, text) for own in (trees, [*trees[1:], trees[0]])
    )
    return comparison_page(text, gold, first, second, compare(gold, first.trees, second.trees), {})


def drawn(text):
    gold = gold_of(text)
    return as_svg(gold.forms, gold.heads, gold.labels)


PAGES = {
    "trees": lambda text: trees_page(text, [gold_of(text)], [gold_of(text)]),
    "report": report,
    "comparison": comparison,
    "picture": drawn,
}


class Elements(HTMLParser):
    """The elements of a page, the texts in them, and the data of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.found, self.texts, self.data = [], [], None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, [name for name, _ in attributes]))
        self.texts += [value for _, value in attributes if value]

    def handle_endtag(self, tag):
        self.found.append(tag)

    def handle_comment(self, text):
        self.found.append("comment")

    def handle_data(self, text):
        if self.found and self.found[-1] == ("script", ["type", "id"]):
            self.data = json.loads(text)
        else:
            self.texts.append(text)


def strings_in(value):
    """All strings of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from strings_in(part)


def with_plain(texts, other):
    """Those texts that come from the treebank, with `other` in place of the plain text."""
    return {text.replace(PLAIN, other) for text in texts if PLAIN in text}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", PAGES)
def test_no_text_is_markup(kind, text):
    plain, hostile = Elements(PAGES[kind](PLAIN)), Elements(PAGES[kind](text))
    assert hostile.found == plain.found
    assert with_plain(plain.texts, PLAIN)
    assert with_plain(plain.texts, text.translate(CONTROLS)) <= set(hostile.texts)
    assert with_plain(strings_in(plain.data), text) <= set(strings_in(hostile.data))
