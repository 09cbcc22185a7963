"""Training the tokenizers of treebanks, in a separate process.

It runs beside the training of the parser, and can be killed at any time. Its arguments are the settings of a
tokenizer as JSON, the files of training and dev text, and the output file.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pydantic import TypeAdapter

from parser.system.console import say
from parser.system.processes import environment, python, start_process
from parser.text.tokenizer import TokenizerKind
from parser.text.tokenizer_kinds import AnyTokenizer
from parser.text.treebank_text import begins_paragraph, surface_tokens
from parser.treebank.conllu_output import sentence_lines
from parser.treebank.sentence import BLANK, FORM, NO_SPACE, Sentence

TREEBANK = re.compile(r"^treebank (\d+) of (\d+)$", re.MULTILINE)
"""A line of the log before the lines of each tokenizer."""


class TreebankFiles(NamedTuple):
    """The files of a treebank in the folder of the process."""

    train: Path
    dev: Path
    """Need not exist."""
    output: Path
    """What the process writes."""


def files_of(folder: Path, number: int) -> TreebankFiles:
    """number: that of the treebank, from 0."""
    return TreebankFiles(*(folder / f"{number}.{name}" for name in TreebankFiles._fields))


def start_training(
    settings: TokenizerKind, folder: Path, treebanks: int, log: Path, line: int
) -> subprocess.Popen[bytes]:
    """Start a process that writes the result of `TokenizerKind.train` for each treebank, one after the other.

    folder: has files with text from `as_training_text`, see `files_of`. log: file for the output of the
    process. line: the lifeline with which it ends.
    """
    module = python("-m", "parser.text.training_process")
    command = [*module, settings.model_dump_json(), str(folder), str(treebanks)]
    with log.open("wb") as file:
        return start_process(command, line, env=environment(), stdout=file, stderr=file)


def share_done(settings: TokenizerKind, log: str) -> float:
    """The completed share of all trainings according to the log so far, from 0 to 1."""
    begun = list(TREEBANK.finditer(log))
    if not begun:
        return 0.0
    number, treebanks = map(int, begun[-1].groups())
    return (number - 1 + settings.share_done(log[begun[-1].end() :])) / treebanks


def as_training_text(sentences: Iterable[Sentence]) -> str:
    """The tokens, words and spaces of sentences in CoNLL-U, without anything else."""
    lines: list[str] = []
    for sentence in sentences:
        tokens = [
            (token.form, token.words, BLANK if token.space_after else NO_SPACE)
            for token in surface_tokens(sentence)
        ]
        comments = ["newpar"] if begins_paragraph(sentence) else []
        lines += sentence_lines({FORM: sentence.forms}, tokens, comments)[0]
    return "".join(lines)


def main(settings: str, folder: str, treebanks: str) -> None:
    tokenizer: TokenizerKind = TypeAdapter(AnyTokenizer).validate_json(settings)
    for number in range(int(treebanks)):
        say(f"treebank {number + 1} of {treebanks}")
        train, dev, output = files_of(Path(folder), number)
        output.write_bytes(tokenizer.train(train, dev if dev.exists() else None))


if __name__ == "__main__":
    main(*sys.argv[1:])
