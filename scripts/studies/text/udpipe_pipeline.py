"""UDPipe 1's tagger and parser, trained with its default settings, compared with a model on the same words.

python scripts/studies/text/udpipe_pipeline.py train TRAIN.conllu DEV.conllu UDPIPE_MODEL
python scripts/studies/text/udpipe_pipeline.py compare MODEL UDPIPE_MODEL TEST.conllu

`compare` prints F1 scores as in CoNLL 2018, on the sentences and words that the model's tokenizer finds in
the treebank's text, and on the gold ones. Both need the package `ufal.udpipe`.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from ufal import udpipe

from parser.evaluation.measures import TEXT_MEASURES
from parser.evaluation.parsed_text import gold_text, parsed_text
from parser.evaluation.text_scores import TextScores, score_text
from parser.models.loading import load_model
from parser.parsing.engine import parse_stream
from parser.text.of_model import text_reader
from parser.text.reading import TextPart, read_parts
from parser.text.treebank_text import treebank_text
from parser.treebank.conllu import blocks, parse_block, read_treebank
from parser.treebank.conllu_output import as_conllu
from parser.treebank.sentence import Sentence

DEFAULT_SETTINGS = ""
"""By default the parser is trained on tags predicted by the tagger, and without external vectors."""


def train(train: Path, dev: Path, model: Path) -> None:
    error = udpipe.ProcessingError()
    settings = udpipe.Trainer.NONE, DEFAULT_SETTINGS, DEFAULT_SETTINGS
    content = udpipe.Trainer.train("morphodita_parsito", _read(train), _read(dev), *settings, error)
    if error.occurred():
        raise ValueError(error.message)
    model.parent.mkdir(parents=True, exist_ok=True)
    model.write_bytes(content)


def compare(model: Path, udpipe_model: Path, treebank: Path) -> None:
    gold, ours = read_treebank(str(treebank)), load_model(model)
    text = [TextPart(0, treebank_text(gold))]
    parts = list(read_parts(text_reader(model, "raw"), text))
    print(f"{'':<34}{''.join(f'{name:>10}' for name in TEXT_MEASURES.values())}")
    for words, sentences in (("raw text", parts), ("gold words", gold)):
        by_us = score_text(gold_text(gold), parsed_text(parse_stream(ours, sentences)))
        by_udpipe = score_text(gold_text(gold), gold_text(parsed(udpipe_model, sentences)))
        for name, scores in (("this program", by_us), ("UDPipe 1", by_udpipe)):
            print(f"{f'{name}, {words}':<34}{_numbers(scores)}")


def _numbers(scores: TextScores) -> str:
    return "".join(f"{scores.percent(measure):>10.2f}" for measure in TEXT_MEASURES)


def parsed(model: Path, sentences: Sequence[Sentence]) -> Iterator[Sentence]:
    """The sentences with UDPipe's tags, lemmas and trees instead of their own."""
    lines = as_conllu(sentences).decode("utf-8", "surrogateescape")
    for block in blocks(io.StringIO(_processed(model, lines), newline="\n")):
        of_block = parse_block(block, tree=True)
        if not isinstance(of_block, Sentence):
            raise ValueError(f"{model}: {of_block[0].message}")
        yield of_block


def _processed(model: Path, conllu: str) -> str:
    loaded, error = udpipe.Model.load(str(model)), udpipe.ProcessingError()
    if not loaded:
        raise ValueError(f"{model}: no model of UDPipe")
    pipeline = udpipe.Pipeline(loaded, "conllu", udpipe.Pipeline.DEFAULT, udpipe.Pipeline.DEFAULT, "conllu")
    output: str = pipeline.process(conllu, error)
    if error.occurred():
        raise ValueError(error.message)
    return output


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
    {"train": train, "compare": compare}[sys.argv[1]](*map(Path, sys.argv[2:]))
