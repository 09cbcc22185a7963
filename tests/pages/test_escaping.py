"""Whatever treebanks, models and file names contain, pages show it as text."""

import json
from html.parser import HTMLParser

import numpy as np
import pytest
from pages.small_trees import HOSTILE_TEXTS, comparison_of, report_of, text_everywhere

from parser.evaluation.calibration import Confidence
from parser.pages.drawing import as_svg
from parser.pages.page import CONTROLS
from parser.pages.report_page import ARCS
from parser.pages.trees_page import trees_page

TEXTS = [text for text in HOSTILE_TEXTS if ":" not in text]
"""Texts without colons: reports leave out what follows a colon in labels."""
PLAIN = "zebra"


def report(text):
    confidence = Confidence(np.array([0.5, 0.2]), np.array([True, False]), np.array([text, f"{text}2"]))
    return report_of(text, [text_everywhere(text)] * 2, {ARCS: {text: confidence}})


def picture(text):
    gold = text_everywhere(text)
    return as_svg(gold.forms, gold.heads, gold.labels)


PAGES = {
    "trees": lambda text: trees_page(text, [text_everywhere(text)], [text_everywhere(text)]),
    "report": report,
    "comparison": lambda text: comparison_of(text, [text_everywhere(text)] * 2),
    "picture": picture,
}


class Elements(HTMLParser):
    """The elements of a page, the texts in them, and the data of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.texts, self.data = [], [], None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, [name for name, _ in attributes]))
        self.texts += [value for _, value in attributes if value]

    def handle_endtag(self, tag):
        self.elements.append(tag)

    def handle_comment(self, text):
        self.elements.append("comment")

    def handle_data(self, text):
        if self.elements and self.elements[-1] == ("script", ["type", "id"]):
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
    assert hostile.elements == plain.elements
    assert with_plain(plain.texts, PLAIN)
    assert with_plain(plain.texts, text.translate(CONTROLS)) <= set(hostile.texts)
    assert with_plain(strings_in(plain.data), text) <= set(strings_in(hostile.data))
