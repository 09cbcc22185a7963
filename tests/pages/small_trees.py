"""Sentences for tests of pages."""

from dataclasses import fields

from parser.evaluation.errors import find_errors
from parser.evaluation.known import KnownValues
from parser.evaluation.significance import compare
from parser.pages.comparison_page import Parsed, comparison_page
from parser.pages.report_page import report_page
from parser.parsing.parsed_tree import ParsedTree
from parser.treebank.conllu import blocks, parse_block
from parser.treebank.sentence import Sentence

HOSTILE = "</script><img src=x onerror=alert(1)>"
HOSTILE_TEXTS = [
    HOSTILE,
    "</title><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "\"'`><svg onload=alert(1)>",
    "<a href=javascript:alert(1)>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}{#",
    "&lt;&amp;",
    "a\u2028b\u2029c",
    "\x1b[31m\x1b]0;b\x07",
    "\u202ecba\u2066",
    "a\0b",
]
"""Markup, templates, line ends in scripts, terminal control sequences, and changes of direction."""


def sentence(*words, identifier="s1", comments=(), tokens=()):
    """A sentence. words: "form upos head label" of each; tokens: (first, last, form) of multiword tokens."""
    lines = [f"# sent_id = {identifier}", *comments]
    for number, word in enumerate(words, 1):
        form, upos, head, label = word.rsplit(" ", 3)
        for first, last, surface in tokens:
            if first == number:
                lines.append(f"{first}-{last}\t{surface}" + "\t_" * 8)
        lines.append(f"{number}\t{form}\t_\t{upos}\t_\t_\t{head}\t{label}\t_\t_")
    return "\n".join(lines) + "\n\n"


def parsed(text):
    return [parse_block(block, tree=True) for block in blocks(text.splitlines(keepends=True))]


DOGS = sentence("Dogs NOUN 2 obl", "bark VERB 0 root", "loudly ADV 1 advmod", identifier="dogs")
GOLD_DOGS = sentence("Dogs NOUN 2 nsubj", "bark VERB 0 root", "loudly ADV 2 advmod", identifier="dogs")
CATS = sentence("Cats NOUN 2 nsubj:pass", "sleep VERB 0 root", identifier="cats")
GOLD_CATS = sentence("Cats NOUN 2 nsubj", "sleep VERB 0 root", identifier="cats")
UYGHUR = sentence("، PUNCT 2 punct", "دەريا NOUN 0 root", "abc X 2 flat", identifier="river")
SCRIPT = sentence(f"{HOSTILE} X 0 root", "<!-- X 1 dep", identifier="hostile</title>")
FRENCH = sentence("de ADP 3 case", "le DET 3 det", "chat NOUN 0 root", identifier="du", tokens=[(1, 2, "du")])
ALL = DOGS + CATS + UYGHUR + SCRIPT + FRENCH
GOLD = GOLD_DOGS + GOLD_CATS + UYGHUR + SCRIPT + FRENCH


def text_everywhere(text):
    """A sentence of three words with the text in all columns and in the comments."""
    columns = {field.name: (f"{text}1", text, f"{text}3") for field in fields(Sentence)
               if field.type == "tuple[str, ...]"}  # fmt: skip
    columns |= {"lines": (f"# text = {text}\n", f"# {text}\n", f"1-2\t{text}4" + "\t_" * 8 + "\n")}
    return Sentence(**columns, heads=(2, 0, 2), identifier=text, line=1, word_lines=())


def right_tree(gold):
    return ParsedTree(gold.heads, gold.labels)


def wrong_tree(gold):
    """A tree of `text_everywhere` with a wrong label and a wrong head."""
    return ParsedTree((2, 0, 1), (f"other {gold.labels[0]}", *gold.labels[1:]))


def report_of(title, gold, confidences=None):
    """The report of a parser whose trees are all wrong."""
    trees = list(map(wrong_tree, gold))
    return report_page(
        title, find_errors(gold, trees, KnownValues(bool)), gold, trees, (), title, confidences or {}
    )


def comparison_of(title, gold):
    """A page that compares two parsers, each of which is better in every second sentence."""
    kinds = (wrong_tree, right_tree)
    outputs = [[kinds[(number + second) % 2](one) for number, one in enumerate(gold)] for second in (0, 1)]
    parsers = [Parsed(title, find_errors(gold, trees, KnownValues(bool)), trees, title) for trees in outputs]
    return comparison_page(title, gold, *parsers, compare(gold, *outputs), {})
