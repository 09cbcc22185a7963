"""UDPipe 1's tagger and parser, trained on a treebank with the library's own settings.

python scripts/udpipe_pipeline.py TRAIN.conllu DEV.conllu MODEL
"""

from __future__ import annotations

import sys
from pathlib import Path

from ufal import udpipe

DEFAULT_SETTINGS = ""
"""The parser is trained on the tags that the tagger predicts, and without outside vectors."""


def train(train: Path, dev: Path, model: Path) -> None:
    error = udpipe.ProcessingError()
    settings = udpipe.Trainer.NONE, DEFAULT_SETTINGS, DEFAULT_SETTINGS
    content = udpipe.Trainer.train("morphodita_parsito", _read(train), _read(dev), *settings, error)
    if error.occurred():
        raise ValueError(error.message)
    model.parent.mkdir(parents=True, exist_ok=True)
    model.write_bytes(content)


def parsed(model: Path, conllu: str) -> str:
    """The sentences, whose tags, lemmas and trees are replaced."""
    loaded, error = udpipe.Model.load(str(model)), udpipe.ProcessingError()
    if not loaded:
        raise ValueError(f"{model}: no model of UDPipe")
    pipeline = udpipe.Pipeline(loaded, "conllu", udpipe.Pipeline.DEFAULT, udpipe.Pipeline.DEFAULT, "conllu")
    found: str = pipeline.process(conllu, error)
    if error.occurred():
        raise ValueError(error.message)
    return found


def _read(path: Path) -> udpipe.Sentences:
    reader, error = udpipe.InputFormat.newConlluInputFormat(), udpipe.ProcessingError()
    reader.setText(path.read_text(encoding="utf-8"))
    sentences = udpipe.Sentences()
    while reader.nextSentence(sentence := udpipe.Sentence(), error):
        sentences.append(sentence)
    if error.occurred():
        raise ValueError(f"{path}: {error.message}")
    return sentences


if __name__ == "__main__":
    train(*map(Path, sys.argv[1:]))
