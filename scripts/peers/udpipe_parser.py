"""UDPipe 1's parser beside ours: trained on a UD treebank, and timed on gold words and tags.

python scripts/peers/udpipe_parser.py train TRAIN.conllu DEV.conllu MODEL [--iterations N]
python scripts/peers/udpipe_parser.py parse MODEL TEST.conllu

`parse` prints LAS and sentences per second, from CoNLL-U to CoNLL-U, both in memory.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from gold import las, trees
from ufal import udpipe


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("train")
    for name in ("train", "dev", "model"):
        command.add_argument(name, type=Path)
    command.add_argument("--iterations", type=int, default=10, help="UDPipe's default is 10")
    command.set_defaults(run=train)
    command = commands.add_parser("parse")
    for name in ("model", "test"):
        command.add_argument(name, type=Path)
    command.set_defaults(run=parse)
    arguments = parser.parse_args()
    arguments.run(arguments)


def train(arguments: argparse.Namespace) -> None:
    error = udpipe.ProcessingError()
    model = udpipe.Trainer.train(
        "morphodita_parsito",
        _sentences(arguments.train),
        _sentences(arguments.dev),
        udpipe.Trainer.NONE,
        udpipe.Trainer.NONE,
        f"iterations={arguments.iterations}",
        error,
    )
    if error.occurred():
        raise SystemExit(error.message)
    arguments.model.parent.mkdir(parents=True, exist_ok=True)
    arguments.model.write_bytes(model)


def _sentences(path: Path) -> udpipe.Sentences:
    return udpipe.Sentences(list(_read(path)))


def _read(path: Path) -> Iterator[udpipe.Sentence]:
    reader, error = udpipe.InputFormat.newConlluInputFormat(), udpipe.ProcessingError()
    reader.setText(path.read_text(encoding="utf-8"))
    while reader.nextSentence(sentence := udpipe.Sentence(), error):
        yield sentence
    if error.occurred():
        raise SystemExit(f"{path}: {error.message}")


def parse(arguments: argparse.Namespace) -> None:
    model = udpipe.Model.load(str(arguments.model))
    if not model:
        raise SystemExit(f"{arguments.model}: no UDPipe model")
    pipeline = udpipe.Pipeline(model, "conllu", udpipe.Pipeline.NONE, udpipe.Pipeline.DEFAULT, "conllu")
    text = arguments.test.read_text(encoding="utf-8")
    gold, error = trees(text), udpipe.ProcessingError()
    began = time.perf_counter()
    parsed = pipeline.process(text, error)
    seconds = time.perf_counter() - began
    if error.occurred():
        raise SystemExit(error.message)
    print(f"LAS {las(gold, trees(parsed)):.2f}, {len(gold) / seconds:,.1f} sentences/s")


if __name__ == "__main__":
    main()
