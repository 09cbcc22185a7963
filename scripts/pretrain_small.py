"""Train a small BERT on plain text by predicting masked words, for use with `parser.network.transformer`.

PARSER_DATA=../data python scripts/write_silver_text.py runs/text.txt
python scripts/pretrain_small.py runs/small-bert runs/text.txt train.conllu

Each line of a text is a sentence with blanks between its words; only the words of treebanks (*.conllu) are
read. The script writes to the folder a model and a tokenizer in the format of Hugging Face's transformers,
and `pretraining.json` with the losses and the time. Masks follow Devlin et al. (2019, section 3.1), drawn
anew for each epoch; the next sentence is not predicted. Products are computed in bfloat16 on processors that
support it, where they take half the time of float32.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from tqdm import tqdm
from transformers import BertConfig, BertForMaskedLM, PreTrainedModel, PreTrainedTokenizerFast
from transformers.utils.logging import disable_progress_bar

from parser.batching.functional import why_unsupported
from parser.system.console import say
from parser.system.machine import processor
from parser.system.progress_bar import PROGRESS_BAR
from parser.system.provenance import stamp
from parser.system.pytorch import tune_process
from parser.treebank.conllu import read_treebank

PAD, UNKNOWN, BEGIN, END, MASK = SPECIAL = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
CHOSEN, MASKED, RANDOM = 0.15, 0.8, 0.1
"""The share of pieces that are chosen; and the shares of these that are masked and replaced at random."""
IGNORED = -100
"""The label of a piece that is not to be predicted."""
WARMUP = 0.05
"""The fraction of the steps in which the learning rate increases."""
HELD_OUT = 50
"""One of every `HELD_OUT` sequences is held out from training; their loss is reported at the end, too."""


class Options(NamedTuple):
    folder: Path
    texts: list[Path]
    pieces: int
    hidden: int
    layers: int
    length: int
    batch: int
    epochs: int
    learning_rate: float
    seed: int


def main() -> None:
    options = _options()
    tune_process()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    began = time.monotonic()
    sentences = [sentence for path in options.texts for sentence in read_sentences(path)]
    tokenizer = train_tokenizer(sentences, options.pieces)
    sequences = packed(tokenizer, sentences, options.length)
    held_out = torch.arange(len(sequences)) % HELD_OUT == 0
    model = BertForMaskedLM(_config(options, tokenizer))
    losses = list(_train(model, sequences[~held_out], options))
    told = {
        **stamp(),
        **{name: value for name, value in options._asdict().items() if isinstance(value, int | float)},
        "texts": [path.name for path in options.texts],
        "sentences": len(sentences),
        "sequences": len(sequences),
        "weights": sum(weight.numel() for weight in model.parameters()),
        "losses": losses,
        "held_out_loss": _held_out_loss(model, sequences[held_out], options),
        "minutes": (time.monotonic() - began) / 60,
    }
    save(model, tokenizer, options.folder)
    (options.folder / "pretraining.json").write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    say(f"{options.folder}: loss {told['held_out_loss']:.3f} on held-out text, {told['minutes']:.1f} minutes")


def _options() -> Options:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("folder", type=Path, help="where the model is written")
    arguments.add_argument("texts", type=Path, nargs="+", help="a sentence in each line; or *.conllu")
    arguments.add_argument("--pieces", type=int, default=8000, help="of the vocabulary")
    arguments.add_argument("--hidden", type=int, default=192, help="size of the layers")
    arguments.add_argument("--layers", type=int, default=4)
    arguments.add_argument("--length", type=int, default=128, help="pieces of a sequence")
    arguments.add_argument("--batch", type=int, default=32, help="sequences")
    arguments.add_argument("--epochs", type=int, default=24)
    arguments.add_argument("--learning-rate", type=float, default=1e-3)
    arguments.add_argument("--seed", type=int, default=1)
    return Options(**vars(arguments.parse_args()))


def read_sentences(path: Path) -> list[str]:
    """The words of each sentence, with blanks between them."""
    if path.suffix == ".conllu":
        return [" ".join(sentence.forms) for sentence in read_treebank(str(path))]
    return path.read_text(encoding="utf-8").splitlines()


def train_tokenizer(sentences: list[str], pieces: int) -> Tokenizer:
    """A WordPiece tokenizer that keeps the case of words. pieces: size of the vocabulary."""
    tokenizer = Tokenizer(models.WordPiece(unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=pieces, special_tokens=list(SPECIAL), show_progress=False)
    tokenizer.train_from_iterator(sentences, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A {END}",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (BEGIN, END)],
    )
    return tokenizer


def packed(tokenizer: Tokenizer, sentences: list[str], length: int) -> Tensor:
    """[sequences, length] As many whole sentences as fit, each with its end piece; long ones are cut."""
    pad, begin, end = map(SPECIAL.index, (PAD, BEGIN, END))
    rows: list[list[int]] = [[begin]]
    for encoded in tokenizer.encode_batch(sentences, add_special_tokens=False):
        pieces = [*encoded.ids[: length - 2], end]
        if len(rows[-1]) + len(pieces) > length:
            rows.append([begin])
        rows[-1] += pieces
    return torch.tensor([row + [pad] * (length - len(row)) for row in rows])


def masked(sequences: Tensor, pieces: int) -> tuple[Tensor, Tensor]:
    """[batch, length] The input and the labels to be predicted. pieces: size of the vocabulary."""
    special = sequences < len(SPECIAL)
    chosen = (torch.rand(sequences.shape) < CHOSEN) & ~special
    draw = torch.rand(sequences.shape)
    inputs = sequences.masked_fill(chosen & (draw < MASKED), SPECIAL.index(MASK))
    replaced = chosen & (draw >= MASKED) & (draw < MASKED + RANDOM)
    inputs = torch.where(replaced, torch.randint_like(sequences, len(SPECIAL), pieces), inputs)
    return inputs, sequences.masked_fill(~chosen, IGNORED)


def _config(options: Options, tokenizer: Tokenizer) -> BertConfig:
    return BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=max(1, options.hidden // 64),
        intermediate_size=4 * options.hidden,
        max_position_embeddings=options.length,
        pad_token_id=tokenizer.token_to_id(PAD),
    )


def _train(model: BertForMaskedLM, sequences: Tensor, options: Options) -> Iterator[float]:
    """Yields the mean loss of each epoch."""
    optimizer = torch.optim.AdamW(model.parameters(), options.learning_rate, weight_decay=0.01)
    steps = options.epochs * -(-len(sequences) // options.batch)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (WARMUP * steps), (steps - step) / (steps - WARMUP * steps))
    )
    model.train()
    with tqdm(total=steps, desc="steps", unit="step", **PROGRESS_BAR) as bar:
        for _ in range(options.epochs):
            losses = []
            for rows in torch.randperm(len(sequences)).split(options.batch):
                loss = _loss(model, sequences[rows])
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                losses.append(loss.item())
                bar.update()
            say(f"loss {sum(losses) / len(losses):.3f}")
            yield sum(losses) / len(losses)


def _loss(model: BertForMaskedLM, sequences: Tensor) -> Tensor:
    """The loss of the chosen pieces; other pieces are not scored. sequences: [batch, length]"""
    inputs, wanted = masked(sequences, model.config.vocab_size)
    chosen = wanted != IGNORED
    has_bfloat16 = why_unsupported("bfloat16", torch.device("cpu"), processor()) is None
    with torch.autocast("cpu", torch.bfloat16, enabled=has_bfloat16):
        states = model.bert(inputs, attention_mask=(sequences != SPECIAL.index(PAD)).long()).last_hidden_state
        return torch.nn.functional.cross_entropy(model.cls(states[chosen]), wanted[chosen])


@torch.no_grad()
def _held_out_loss(model: BertForMaskedLM, sequences: Tensor, options: Options) -> float:
    model.eval()
    losses = [_loss(model, rows).item() for rows in sequences.split(options.batch)]
    return sum(losses) / max(len(losses), 1)


def save(model: PreTrainedModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the model and the tokenizer in the library's format."""
    disable_progress_bar()
    model.save_pretrained(folder)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        unk_token=UNKNOWN,
        cls_token=BEGIN,
        sep_token=END,
        mask_token=MASK,
    ).save_pretrained(folder)


if __name__ == "__main__":
    main()
