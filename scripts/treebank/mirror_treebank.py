"""Write a treebank from right to left: the last word of each sentence comes first; the tree stays the same.

    python scripts/treebank/mirror_treebank.py '${PARSER_DATA}/ud/UD_English-EWT/en_ewt-ud-dev.conllu' \\
        runs/mirrored/dev.conllu

Multiword tokens, empty nodes, enhanced dependencies and comments other than sent_id are left out: a parser
does not use them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from parser.config.data_folder import data_path
from parser.system.files import write_atomically
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import as_conllu
from parser.treebank.sentence import BLANK, DEPS, HEAD, ID, WORD_COLUMNS, Sentence


def mirrored_heads(heads: Sequence[int]) -> tuple[int, ...]:
    """The heads of the words from the last to the first. Heads that are not words stay the same."""
    after_last = len(heads) + 1
    return tuple(after_last - head if head > 0 else head for head in reversed(heads))


def mirrored(sentence: Sentence) -> Sentence:
    heads = mirrored_heads(sentence.heads)
    names = [column.attribute for column in WORD_COLUMNS.values()]
    lines = (f"# sent_id = {sentence.identifier}\n", *_lines(sentence, heads), "\n")
    return replace(
        sentence,
        heads=heads,
        labels=sentence.labels[::-1],
        lines=lines,
        word_lines=tuple(range(1, len(sentence) + 1)),
        **{name: getattr(sentence, name)[::-1] for name in names},
    )


def _lines(sentence: Sentence, heads: Sequence[int]) -> Iterator[str]:
    """The lines of the words. heads: those of the mirrored tree."""
    reversed_lines = reversed(sentence.word_lines)
    for number, (old_line, head) in enumerate(zip(reversed_lines, heads, strict=True), 1):
        columns = sentence.lines[old_line].rstrip("\r\n").split("\t")
        columns[ID], columns[DEPS] = str(number), BLANK
        if head >= 0:
            columns[HEAD] = str(head)
        yield "\t".join(columns) + "\n"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("treebank")
    arguments.add_argument("output", type=Path)
    given = arguments.parse_args()
    sentences = read_treebank(data_path(given.treebank))
    given.output.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(given.output, as_conllu(map(mirrored, sentences)))


if __name__ == "__main__":
    main()
