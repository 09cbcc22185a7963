"""Sentences for tests of pages."""

from parser.treebank.conllu import blocks, parse_block

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
