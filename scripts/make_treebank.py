"""Write the treebank that ships with the project, sampled from a grammar of our own making.

    python scripts/make_treebank.py [--out data/quickstart] [--seed N]

The files are small enough to train on within minutes and free of any licence but the project's. The same seed
gives the same bytes. A report follows: what is in each split, and how well parsers would do that only guess.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from quickstart_grammar import APART, FUSED, Dice, Node, sentence

SPLITS = (("train", 2000), ("dev", 300), ("test", 300))
LONGEST_SENTENCE = 35


# From trees to words in a row


@dataclass(frozen=True)
class Word:
    """One line of a CoNLL-U file. Words count from 1; head 0 is the root."""

    form: str
    lemma: str
    upos: str
    xpos: str
    feats: str
    head: int
    label: str
    written: str  # how it joins the word before it


Sentence = list[Word]
Guess = Callable[[Word, int, int], tuple[int, str]]


def in_order(node: Node) -> Iterator[Node]:
    for child in node.left:
        yield from in_order(child)
    yield node
    for child in node.right:
        yield from in_order(child)


def heads_by_place(node: Node) -> Iterator[tuple[Node, Node]]:
    """Each word below a node with its head: the governor it names, or else the node it stands beside."""
    for child in (*node.left, *node.right):
        yield child, child.governor or node
        yield from heads_by_place(child)


def linearise(root: Node) -> Sentence:
    nodes = list(in_order(root))
    position = {node: place for place, node in enumerate(nodes, start=1)}
    head = {node: position[governor] for node, governor in heads_by_place(root)}
    nodes[0].form = nodes[0].form[0].upper() + nodes[0].form[1:]
    return [
        Word(
            node.form,
            node.lemma,
            node.upos,
            node.xpos,
            node.feats,
            head.get(node, 0),
            node.label,
            node.written,
        )
        for node in nodes
    ]


# CoNLL-U


def text_of(words: Sentence) -> str:
    return "".join((" " if word.written == APART else "") + word.form for word in words).strip()


def tokens_of(words: Sentence) -> list[list[int]]:
    """The positions of the words grouped by token: a fused word joins the token before it."""
    tokens: list[list[int]] = []
    for position, word in enumerate(words, start=1):
        if word.written == FUSED:
            tokens[-1].append(position)
        else:
            tokens.append([position])
    return tokens


def conllu(words: Sentence, sentence_id: str) -> str:
    lines = [f"# sent_id = {sentence_id}", f"# text = {text_of(words)}"]
    for token in tokens_of(words):
        after = words[token[-1]] if token[-1] < len(words) else None
        space = "_" if after is None or after.written == APART else "SpaceAfter=No"
        if len(token) > 1:
            surface = "".join(words[position - 1].form for position in token)
            lines.append(f"{token[0]}-{token[-1]}\t{surface}" + 7 * "\t_" + f"\t{space}")
        for position in token:
            lines.append(word_line(position, words[position - 1], space if len(token) == 1 else "_"))
    return "\n".join(lines) + "\n\n"


def word_line(position: int, word: Word, misc: str) -> str:
    columns = (word.form, word.lemma, word.upos, word.xpos, word.feats, str(word.head), word.label, "_", misc)
    return "\t".join((str(position), *columns))


# Sampling


def sample(dice: Dice) -> dict[str, list[Sentence]]:
    """Draw all splits. No text occurs twice; reserved words wait for dev and test."""
    seen: set[str] = set()
    treebank: dict[str, list[Sentence]] = {}
    for split, size in SPLITS:
        dice.reserved_allowed = split != "train"
        treebank[split] = []
        while len(treebank[split]) < size:
            words = linearise(sentence(dice))
            text = text_of(words)
            if len(words) <= LONGEST_SENTENCE and text not in seen:
                seen.add(text)
                treebank[split].append(words)
    return treebank


def write(treebank: dict[str, list[Sentence]], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, sentences in treebank.items():
        blocks = (conllu(words, f"{split}-{number}") for number, words in enumerate(sentences, start=1))
        (folder / f"{split}.conllu").write_bytes("".join(blocks).encode())


# Report


def is_projective(words: Sentence) -> bool:
    """Whether no two arcs cross, the arc of the root from 0 among them."""
    arcs = [(min(place, word.head), max(place, word.head)) for place, word in enumerate(words, start=1)]
    return not any(
        left < other_left < right < other_right for left, right in arcs for other_left, other_right in arcs
    )


def share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %"


def report_on_splits(treebank: dict[str, list[Sentence]]) -> list[tuple[str, ...]]:
    known = {word.form.lower() for words in treebank["train"] for word in words}
    rows = [
        ("split", "sentences", "words", "mean", "longest", "multiword", "non-projective", "unknown", "labels")
    ]
    for split, sentences in treebank.items():
        every_word = [word for words in sentences for word in words]
        unknown = sum(word.form.lower() not in known for word in every_word)
        rows.append(
            (
                split,
                str(len(sentences)),
                str(len(every_word)),
                f"{len(every_word) / len(sentences):.1f}",
                str(max(map(len, sentences))),
                str(sum(len(token) > 1 for words in sentences for token in tokens_of(words))),
                share(sum(not is_projective(words) for words in sentences), len(sentences)),
                "" if split == "train" else share(unknown, len(every_word)),
                str(len({word.label for word in every_word})),
            )
        )
    return rows


def most_frequent(values: Iterable) -> object:
    return Counter(values).most_common(1)[0][0]
