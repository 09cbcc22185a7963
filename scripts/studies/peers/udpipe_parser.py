"""UDPipe 1's parser, compared with ours: trained on a UD treebank, and timed on gold words and tags.

python scripts/studies/peers/udpipe_parser.py train TRAIN.conllu DEV.conllu MODEL [--iterations N]
python scripts/studies/peers/udpipe_parser.py parse MODEL TEST.conllu

`parse` prints LAS and sentences per second, from CoNLL-U to CoNLL-U, both in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from harness import las, run, timed, trees
from ufal import udpipe


def train(train: Path, dev: Path, target: Path, iterations: int) -> None:
    error = udpipe.ProcessingError()
    model = udpipe.Trainer.train(
        "morphodita_parsito",
        _sentences(train),
        _sentences(dev),
        udpipe.Trainer.NONE,
        udpipe.Trainer.NONE,
        f"iterations={iterations}",
        error,
    )
    if error.occurred():
        raise SystemExit(error.message)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(model)


def _sentences(path: Path) -> udpipe.Sentences:
    return udpipe.Sentences(list(_read(path)))


def _read(path: Path) -> Iterator[udpipe.Sentence]:
    reader, error = udpipe.InputFormat.newConlluInputFormat(), udpipe.ProcessingError()
    reader.setText(path.read_text(encoding="utf-8"))
    while reader.nextSentence(sentence := udpipe.Sentence(), error):
        yield sentence
    if error.occurred():
        raise SystemExit(f"{path}: {error.message}")


def parse(model: Path, test: Path, together: int) -> None:
    loaded = udpipe.Model.load(str(model))
    if not loaded:
        raise SystemExit(f"{model}: no UDPipe model")
    pipeline = udpipe.Pipeline(loaded, "conllu", udpipe.Pipeline.NONE, udpipe.Pipeline.DEFAULT, "conllu")
    error = udpipe.ProcessingError()

    def process(blocks: Sequence[str]) -> list[str]:
        parsed = pipeline.process("\n\n".join(blocks) + "\n\n", error)
        if error.occurred():
            raise SystemExit(error.message)
        return parsed.strip().split("\n\n")

    text = test.read_text(encoding="utf-8")
    parsed, speed = timed(process, text.strip().split("\n\n"), together)
    whole = "\n\n".join(parsed)
    print(f"LAS {las(trees(text), trees(whole)):.2f}, {speed:,.1f} sentences/s")


if __name__ == "__main__":
    run(__doc__, train, parse, "--iterations", 10, "UDPipe's default is 10")
