"""Training UDPipe's tokenizer on a treebank, in a process of its own.

Its arguments: files of training and dev text, the output, and the number of epochs.

The library trains in one call, which no signal interrupts; the process can be killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from parser import lifeline
from parser.text.treebank_text import NO_SPACE, begins_paragraph, surface_tokens
from parser.text.udpipe import library
from parser.treebank.sentence import Sentence

METHOD = "morphodita_parsito"
SETTINGS = "epochs={};early_stopping=1;dimension=24"
"""More dimensions are slower. Early stopping keeps the best epoch on the dev set."""


def started(
    train: Path, dev: Path, output: Path, epochs: int, log: Path, line: int
) -> subprocess.Popen[bytes]:
    """A process that trains a tokenizer, and writes it to `output`.

    train, dev: files as `as_training_text` writes them. log: gets what the library says of each epoch.
    line: the lifeline with which it ends.
    """
    # By its path: with -m, Python would look for modules in the working directory first.
    command = [sys.executable, __file__, str(train), str(dev), str(output), str(epochs)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with log.open("wb") as file:
        return lifeline.started(command, line, env=environment, stdout=file, stderr=file)


def as_training_text(sentences: Iterable[Sentence]) -> str:
    """The tokens, words and spaces of sentences in CoNLL-U, and nothing else."""
    return "".join(line for sentence in sentences for line in _lines(sentence))


def _lines(sentence: Sentence) -> Iterator[str]:
    if begins_paragraph(sentence):
        yield "# newpar\n"
    blank = "\t".join("_" * 7)
    number = 0
    for token in surface_tokens(sentence):
        miscellaneous = "_" if token.space_after else NO_SPACE
        if token.words > 1:
            yield f"{number + 1}-{number + token.words}\t{token.form}\t{blank}\t{miscellaneous}\n"
            miscellaneous = "_"
        for _ in range(token.words):
            yield f"{number + 1}\t{sentence.forms[number]}\t{blank}\t{miscellaneous}\n"
            number += 1
    yield "\n"


def _train(train: Path, dev: Path, output: Path, epochs: int) -> None:
    """Raises ValueError."""
    udpipe = library()
    error = udpipe.ProcessingError()
    treebanks = [_read(path) for path in (train, dev)]
    content = udpipe.Trainer.train(
        METHOD, *treebanks, SETTINGS.format(epochs), udpipe.Trainer.NONE, udpipe.Trainer.NONE, error
    )
    if error.occurred():
        raise ValueError(error.message)
    output.write_bytes(content)


def _read(path: Path) -> object:
    """A list of sentences of the library."""
    udpipe = library()
    reader, sentences = udpipe.InputFormat.newConlluInputFormat(), udpipe.Sentences()
    reader.setText(path.read_text(encoding="utf-8"))
    error, sentence = udpipe.ProcessingError(), udpipe.Sentence()
    while reader.nextSentence(sentence, error):
        sentences.append(sentence)
        sentence = udpipe.Sentence()
    if error.occurred():
        raise ValueError(f"{path}: {error.message}")
    return sentences


if __name__ == "__main__":
    train, dev, output, count = sys.argv[1:]
    _train(Path(train), Path(dev), Path(output), int(count))
