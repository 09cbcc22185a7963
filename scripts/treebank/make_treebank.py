"""Write the quickstart treebank, sampled from a small grammar of English.

    python scripts/treebank/make_treebank.py [--out data/quickstart] [--seed N]

Training on it takes about a minute. It has the licence of the project. Equal seeds give equal files. The
script prints statistics of the splits, and the scores of trivial baselines.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from grammar import SENTENCES, Word
from lexicon import Sampler

from parser.treebank.projectivity import is_projective

SPLITS = {"train": 2000, "dev": 300, "test": 300}
LONGEST_SENTENCE = 30

Sentence = list[Word]
Treebank = dict[str, list[Sentence]]
Row = tuple[str, ...]
Arc = tuple[int, str]  # the head's position, 0 for none, and the label
Value = TypeVar("Value")


def sample(sampler: Sampler) -> Treebank:
    """Sample all splits. No text occurs twice, and reserved words occur only in dev and test."""
    seen: set[str] = set()
    treebank: Treebank = {split: [] for split in SPLITS}
    for split, size in SPLITS.items():
        sampler.reserved_allowed = split != "train"
        while len(treebank[split]) < size:
            words = sampler.weighted(SENTENCES)(sampler).words
            words[0].form = words[0].form[0].upper() + words[0].form[1:]
            if len(words) <= LONGEST_SENTENCE and text_of(words) not in seen:
                seen.add(text_of(words))
                treebank[split].append(words)
    return treebank


def text_of(words: Sentence) -> str:
    return "".join(word.form if word.joined else " " + word.form for word in words).lstrip()


def arcs_of(words: Sentence) -> list[Arc]:
    position = {word: number for number, word in enumerate(words, start=1)}
    return [(position[word.head] if word.head else 0, word.label) for word in words]


def tokens_of(words: Sentence) -> list[range]:
    """The word positions of each token. `n't` and `'s` form a token with the preceding word."""
    starts = [number for number, word in enumerate(words, 1) if not word.joined or word.upos == "PUNCT"]
    return [range(start, end) for start, end in zip(starts, [*starts[1:], len(words) + 1], strict=True)]


def conllu(words: Sentence, sentence_id: str) -> str:
    lines = [f"# sent_id = {sentence_id}", f"# text = {text_of(words)}"]
    arcs = arcs_of(words)
    for token in tokens_of(words):
        joined_by_next = token.stop <= len(words) and words[token.stop - 1].joined
        space = "SpaceAfter=No" if joined_by_next else "_"
        if len(token) > 1:
            form = "".join(words[at - 1].form for at in token)
            lines.append(f"{token[0]}-{token[-1]}\t{form}" + "\t_" * 7 + f"\t{space}")
        for at in token:
            word, (head, label) = words[at - 1], arcs[at - 1]
            feats = f"Number={word.number}" if word.number else "_"
            columns = (word.form, word.lemma, word.upos, word.xpos, feats, str(head), label, "_")
            lines.append("\t".join((str(at), *columns, space if len(token) == 1 else "_")))
    return "\n".join(lines) + "\n\n"


def write(treebank: Treebank, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for split, sentences in treebank.items():
        blocks = [conllu(words, f"{split}-{number}") for number, words in enumerate(sentences, start=1)]
        (folder / f"{split}.conllu").write_bytes("".join(blocks).encode())


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def rows_of_splits(treebank: Treebank) -> Iterator[Row]:
    yield "split", "sentences", "words", "longest", "multiword", "non-projective", "unknown", "labels"
    known = {word.form.lower() for words in treebank["train"] for word in words}
    for split, sentences in treebank.items():
        every_word = [word for words in sentences for word in words]
        multiword = sum(len(token) > 1 for words in sentences for token in tokens_of(words))
        crossing = sum(not is_projective([head for head, _ in arcs_of(words)]) for words in sentences)
        unknown = sum(word.form.lower() not in known for word in every_word)
        counts = (len(sentences), len(every_word), max(map(len, sentences)), multiword)
        shares = share(crossing, len(sentences)), share(unknown, len(every_word))
        yield split, *map(str, counts), *shares, str(len({word.label for word in every_word}))


def most_frequent(values: Iterable[Value]) -> Value:
    return Counter(values).most_common(1)[0][0]


def observations(sentences: list[Sentence]) -> list[tuple[str, int, str]]:
    """The tag, head offset and label of every word."""
    return [
        (word.upos, head - number, label)
        for words in sentences
        for number, (word, (head, label)) in enumerate(zip(words, arcs_of(words), strict=True), start=1)
    ]


def rows_of_guesses(treebank: Treebank) -> Iterator[Row]:
    """Attachment scores on dev of baselines that see at most the tag of each word."""
    yield "guess on dev", "unlabelled", "labelled"
    train, dev = observations(treebank["train"]), observations(treebank["dev"])
    usual_label = most_frequent(label for _, _, label in train)
    by_tag = {}
    for tag in {tag for tag, _, _ in train}:
        of_tag = [(offset, label) for other, offset, label in train if other == tag]
        by_tag[tag] = tuple(map(most_frequent, zip(*of_tag, strict=True)))
    guesses = {
        "left neighbour": dict.fromkeys(by_tag, (-1, usual_label)),
        "right neighbour": dict.fromkeys(by_tag, (1, usual_label)),
        "most frequent for tag": by_tag,
    }
    for description, guess in guesses.items():
        heads = sum(guess[tag][0] == offset for tag, offset, _ in dev)
        arcs = sum(guess[tag] == (offset, label) for tag, offset, label in dev)
        yield description, share(heads, len(dev)), share(arcs, len(dev))


def aligned(rows: Iterator[Row]) -> str:
    """A text table with the first column left-aligned and the others right-aligned."""
    columns = [[cell.rjust(max(map(len, column))) for cell in column] for column in zip(*rows, strict=True)]
    columns[0] = [cell.strip().ljust(len(cell)) for cell in columns[0]]
    return "\n".join("  ".join(cells) for cells in zip(*columns, strict=True))


def main() -> None:
    options = argparse.ArgumentParser(description="Write the quickstart treebank.")
    options.add_argument("--out", type=Path, default=Path("data/quickstart"), help="folder for the files")
    options.add_argument("--seed", type=int, default=1, help="seed of the random choices")
    arguments = options.parse_args()
    treebank = sample(Sampler(arguments.seed))
    write(treebank, arguments.out)
    print(aligned(rows_of_splits(treebank)), aligned(rows_of_guesses(treebank)), sep="\n\n")


if __name__ == "__main__":
    main()
