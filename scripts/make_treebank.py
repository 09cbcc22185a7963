"""Write the treebank that ships with the project, sampled from a grammar of our own making.

    python scripts/make_treebank.py [--out data/quickstart] [--seed N]

The files are small enough to train on within minutes and free of any licence but the project's. The same seed
gives the same bytes. A report follows: what is in each split, and how well parsers would do that only guess.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from quickstart_sentences import sentence
from quickstart_tree import APART, FUSED, Dice, Node

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
Treebank = dict[str, list[Sentence]]
Row = tuple[str, ...]
Value = TypeVar("Value")
Guess = Callable[[int, int, str], tuple[int, str]]  # (position, sentence length, tag) -> (head, label)


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


def sample(dice: Dice) -> Treebank:
    """Draw all splits. No text occurs twice; reserved words wait for dev and test."""
    seen: set[str] = set()
    treebank: Treebank = {}
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


def write(treebank: Treebank, folder: Path) -> None:
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


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %"


def table_of_splits(treebank: Treebank) -> list[Row]:
    known = {word.form.lower() for words in treebank["train"] for word in words}
    rows: list[Row] = [
        ("split", "sentences", "words", "longest", "multiword", "non-projective", "unknown", "labels")
    ]
    for split, sentences in treebank.items():
        every_word = [word for words in sentences for word in words]
        multiword = sum(len(token) > 1 for words in sentences for token in tokens_of(words))
        non_projective = sum(not is_projective(words) for words in sentences)
        unknown = sum(word.form.lower() not in known for word in every_word)
        rows.append(
            (
                split,
                str(len(sentences)),
                str(len(every_word)),
                str(max(map(len, sentences))),
                str(multiword),
                share(non_projective, len(sentences)),
                share(unknown, len(every_word)),
                str(len({word.label for word in every_word})),
            )
        )
    return rows


def most_frequent(values: Iterable[Value]) -> Value:
    return Counter(values).most_common(1)[0][0]


def guess_from_tags(train: list[Sentence]) -> Guess:
    """The best guess without looking around: the most frequent label and head offset of each UPOS tag."""
    labels: dict[str, list[str]] = {}
    offsets: dict[str, list[int]] = {}
    for words in train:
        for position, word in enumerate(words, start=1):
            labels.setdefault(word.upos, []).append(word.label)
            offsets.setdefault(word.upos, []).append(word.head - position)
    label = {tag: most_frequent(found) for tag, found in labels.items()}
    offset = {tag: most_frequent(found) for tag, found in offsets.items()}
    return lambda position, length, tag: (position + offset[tag], label[tag])


def table_of_guesses(treebank: Treebank) -> list[Row]:
    """How far a parser gets on dev that never looks at a word: what a trained one must leave far behind."""
    label = most_frequent(word.label for words in treebank["train"] for word in words)
    guesses: dict[str, Guess] = {
        "left neighbour": lambda position, length, tag: (position - 1, label),
        "right neighbour": lambda position, length, tag: ((position + 1) % (length + 1), label),
        "most frequent for tag": guess_from_tags(treebank["train"]),
    }
    rows: list[Row] = [("guess on dev", "unlabelled", "labelled")]
    for description, guess in guesses.items():
        rows.append((description, *attachment_scores(treebank["dev"], guess)))
    return rows


def attachment_scores(sentences: list[Sentence], guess: Guess) -> tuple[str, str]:
    """The share of words with the right head, and with the right head and label."""
    total = right_heads = right_arcs = 0
    for words in sentences:
        for position, word in enumerate(words, start=1):
            head, label = guess(position, len(words), word.upos)
            total += 1
            right_heads += head == word.head
            right_arcs += (head, label) == (word.head, word.label)
    return share(right_heads, total), share(right_arcs, total)


def aligned(rows: list[Row]) -> str:
    """A plain table: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join((first.ljust(widths[0]), *cells)))
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description="Write the treebank that ships with the project.")
    options.add_argument(
        "--out", type=Path, default=Path("data/quickstart"), help="folder for the three files"
    )
    options.add_argument("--seed", type=int, default=1, help="another seed, another treebank")
    arguments = options.parse_args()
    treebank = sample(Dice(arguments.seed))
    write(treebank, arguments.out)
    print(aligned(table_of_splits(treebank)), aligned(table_of_guesses(treebank)), sep="\n\n")


if __name__ == "__main__":
    main()
