"""Trees in text, one after the other, for terminals."""

from __future__ import annotations

from parser.pages.drawing import as_text
from parser.pages.gold_trees import differences
from parser.pages.trees_page import scores_of, text_of
from parser.system.console import shortened
from parser.treebank.sentence import Sentence

CONTROLS = dict.fromkeys([*range(32), *range(127, 160)], "�")
"""Characters that could command the terminal, and what is shown for them."""


def tree_text(sentence: Sentence, gold: Sentence | None = None) -> str:
    """The identifier and the text of a sentence and its tree, with an empty line after it.

    With gold there is a line of scores, and behind each wrong word what gold says.
    """
    lines = [f"# sent_id = {sentence.identifier}", f"# text = {text_of(sentence)}"]
    if gold is not None:
        scores = scores_of([sentence], [gold])
        lines.append(f"# UAS {scores['uas']:.2f}, LAS {scores['las']:.2f}")
    words = [form.translate(CONTROLS) for form in sentence.forms]
    labels = [label.translate(CONTROLS) for label in sentence.labels]
    drawing = as_text(words, sentence.heads, labels, _notes(sentence, gold))
    return "\n".join([*(line.translate(CONTROLS) for line in lines), drawing, "", ""])


def _notes(sentence: Sentence, gold: Sentence | None) -> list[str]:
    notes = [""] * len(sentence)
    if gold is not None:
        named = ("ROOT", *map(shortened, sentence.forms))
        for word, (head, label, error) in differences(sentence, gold).items():
            if error:
                notes[word - 1] = f"✗ gold: {label} of {named[head]}".translate(CONTROLS)
    return notes
