"""Training a tokenizer on a treebank, in a separate process.

A library may train in one call that no signal interrupts, but the process can be killed. Its arguments are
the settings of a tokenizer as JSON, the files of training and dev text, and the output file.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from pydantic import TypeAdapter

from parser.system.processes import environment, python, start_process
from parser.text.tokenizer import TokenizerKind
from parser.text.tokenizer_kinds import AnyTokenizer
from parser.text.treebank_text import begins_paragraph, surface_tokens
from parser.treebank.conllu_output import sentence_lines
from parser.treebank.sentence import BLANK, FORM, NO_SPACE, Sentence


def start_training(
    settings: TokenizerKind, train: Path, dev: Path, output: Path, log: Path, line: int
) -> subprocess.Popen[bytes]:
    """Start a process that trains a tokenizer and writes the result of `TokenizerKind.train` to `output`.

    train, dev: files with text from `as_training_text`. log: file for the output of the library. line: the
    lifeline with which the process ends.
    """
    module = python("-m", "parser.text.training_process")
    command = [*module, settings.model_dump_json(), str(train), str(dev), str(output)]
    with log.open("wb") as file:
        return start_process(command, line, env=environment(), stdout=file, stderr=file)


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


if __name__ == "__main__":
    settings, *paths = sys.argv[1:]
    tokenizer, (train, dev, output) = TypeAdapter(AnyTokenizer).validate_json(settings), map(Path, paths)
    output.write_bytes(tokenizer.train(train.read_text(encoding="utf-8"), dev.read_text(encoding="utf-8")))
