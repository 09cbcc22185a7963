"""Compare the trees of a model by the runtime, in float32 and in int8, with those by PyTorch.

python scripts/studies/accuracy/compare_runtimes.py MODEL TREEBANK.conllu

Trees by PyTorch are those that a GPU's batch gives, computed on a CPU. The last line is of raw text, that of
the treebank, divided by the model's tokenizer.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from parser.evaluation.evaluate import evaluate_text
from parser.evaluation.rounding import Rounding
from parser.models.loading import load_model
from parser.models.model import with_int8
from parser.models.network_model import NetworkModel
from parser.parsing import BATCH_SIZE
from parser.parsing.engine import parse
from parser.text.of_model import text_reader
from parser.text.reading import TextPart, read_parts
from parser.treebank.conllu import read_treebank


class OnDevice(NetworkModel):
    """Parses by PyTorch on a CPU, too."""

    is_on_cpu = False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("treebank")
    options = parser.parse_args()
    torch.set_num_threads(1)
    gold = read_treebank(options.treebank)
    model = with_int8(load_model(options.model), False)
    by_pytorch = parse(OnDevice.of(model, torch.device("cpu")), gold)
    equal = sum(one == other for one, other in zip(by_pytorch, parse(model, gold), strict=True))
    print(f"float32: {equal:,} of {len(gold):,} trees, with labels and tags, equal those by PyTorch")
    print(f"int8: {Rounding.of(model, gold)}")
    reader = text_reader(options.model, "raw")
    parts = list(read_parts(reader, iter([TextPart(0, reader.text_of(gold))])))
    exact, rounded = (
        evaluate_text(with_int8(model, int8), iter(parts), gold, BATCH_SIZE).percent("las")
        for int8 in (False, True)
    )
    print(f"int8 from raw text: LAS is {rounded:.2f} instead of {exact:.2f}")


if __name__ == "__main__":
    main()
