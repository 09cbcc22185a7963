"""Compare training on cached vectors of a frozen transformer with pretrained word vectors of the same size.

Both train the parser of a config for some batches, in one process and in turns. The transformer's weights and
the pretrained vectors are random, which does not change the speed. The ratio of sentences per second is the
median over the turns, with its 95 % interval.

PARSER_DATA=../data python scripts/studies/accuracy/measure_frozen_vectors.py configs/ud-any.yaml \\
    [--size 768] [--layers 4]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from transformers import BertConfig, BertModel

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from measuring import compare, per_second
from pretrain_small import save, train_tokenizer

from parser.config.data_folder import data_path
from parser.system.pytorch import tune_process
from parser.training import data
from parser.training.config import Config, read_config
from parser.training.data import epoch_batches
from parser.training.epoch import training_batch
from parser.training.optimizer import make_optimizer
from parser.training.training_step import TrainingStep
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")
PIECES = 4000
HEADS = 4


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path)
    arguments.add_argument("--size", type=int, default=768, help="of a vector")
    arguments.add_argument("--layers", type=int, default=4, help="that are mixed")
    arguments.add_argument("--sentences", type=int, default=3000, help="of the training treebank")
    arguments.add_argument("--batches", type=int, default=20, help="of a turn")
    arguments.add_argument("--turns", type=int, default=15)
    given = arguments.parse_args()
    tune_process()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = read_config(given.config, [f"treebank.train_sentences={given.sentences}"])
        transformer = _transformer(folder, config, given.size, given.layers)
        sources: dict[str, dict[str, object]] = {
            "cached": {"transformer": {"model": transformer, "layers": given.layers}},
            "pretrained": {"pretrained": _vectors(folder, config, given.size)},
        }
        trained = {name: _batches(config, source, folder) for name, source in sources.items()}

        def sentences_of_turn(name: str) -> int:
            return sum(islice(trained[name], given.batches))

        speeds = {name: partial(per_second, partial(sentences_of_turn, name)) for name in trained}
        what = "speed with cached vectors over that with pretrained ones"
        compare(speeds, given.turns, what, warm_up=1)


def _transformer(folder: Path, config: Config, size: int, layers: int) -> str:
    """Write a transformer with random weights. Returns its folder."""
    sentences = read_treebank(data_path(config.treebank.train_files[0]), config.treebank.roots)
    tokenizer = train_tokenizer([" ".join(sentence.forms) for sentence in sentences], PIECES)
    model = BertModel(
        BertConfig(
            vocab_size=tokenizer.get_vocab_size(),
            hidden_size=size,
            num_hidden_layers=layers,
            num_attention_heads=HEADS,
            intermediate_size=size,
        )
    )
    save(model, tokenizer, folder / "transformer")
    return str(folder / "transformer")


def _vectors(folder: Path, config: Config, size: int) -> str:
    """Write a random vector for each form of the training treebank. Returns the file."""
    sentences = read_treebank(data_path(config.treebank.train_files[0]), config.treebank.roots)
    forms = sorted({form for sentence in sentences for form in sentence.forms if " " not in form})
    path = folder / "vectors.txt"
    numbers = torch.randn(len(forms), size)
    lines = (
        f"{form} {' '.join(f'{x:.3f}' for x in row.tolist())}"
        for form, row in zip(forms, numbers, strict=True)
    )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def _batches(config: Config, source: dict[str, object], folder: Path) -> Iterator[int]:
    """Train endlessly; yields the number of sentences of each batch when it is done."""
    content = json.loads(config.model_dump_json())
    content["parser"]["network"] |= source
    changed = Config.model_validate_json(json.dumps(content))
    model, loaded = data.load(changed, CPU, folder / "cache")
    optimizer = make_optimizer(model.network, changed.training.optimizer)
    step = TrainingStep(model.network, model.inventory, optimizer, changed.training.max_grad_norm)
    model.network.train()
    epoch = 0
    while True:
        epoch += 1
        for rows in epoch_batches(loaded, changed.training, epoch):
            step.gradients([training_batch(step, loaded, rows)])
            step.update()
            yield len(rows)


if __name__ == "__main__":
    main()
