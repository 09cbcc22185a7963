"""The script that pretrains a small transformer."""

import json
import sys

import pytest
import torch
from programs import script

pytest.importorskip("transformers")

from parser.training import data
from parser.training.config import read_config

WORDS = "the dog sleeps . a cat sees the mat ! dogs and cats sleep there ."


@pytest.fixture
def pretraining():
    return script("pretrain_small")


@pytest.mark.extended
def test_what_it_makes_is_a_transformer_for_a_parser(pretraining, tmp_path, monkeypatch, config_file):
    text, folder = tmp_path / "text.txt", tmp_path / "small"
    text.write_text(f"{WORDS}\n" * 300)
    sizes = {"pieces": 60, "hidden": 16, "layers": 2, "length": 32, "epochs": 6, "batch": 8}
    options = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    monkeypatch.setattr(sys, "argv", ["pretrain_small.py", str(folder), str(text), *options])
    pretraining.main()
    told = json.loads((folder / "pretraining.json").read_text())
    assert told["losses"][-1] < 0.8 * told["losses"][0]
    assert told["held_out_loss"] < told["losses"][0]
    setting = f"parser.network.transformer={json.dumps({'model': str(folder), 'layers': 2})}"
    model, loaded = data.load(read_config(config_file, [setting]), torch.device("cpu"))
    assert loaded.train.tokens.vectors.shape[1:] == (2, 16)
    pieces = model.network.tokens.transformer.tokenizer.pieces(["the", "dog"])
    assert list(map(len, pieces)) == [1, 1]


def test_sequences_hold_whole_sentences_and_all_of_them(pretraining):
    sentences = [WORDS, "a dog", "cats see"] * 20
    tokenizer = pretraining.train_tokenizer(sentences, 60)
    sequences = pretraining.packed(tokenizer, sentences, 30)
    ends, begin = (tokenizer.token_to_id(name) for name in (pretraining.END, pretraining.BEGIN))
    assert sequences.shape[1] == 30
    assert (sequences[:, 0] == begin).all()
    assert int((sequences == ends).sum()) == len(sentences)
    encoded, special = tokenizer.encode_batch(sentences, add_special_tokens=False), len(pretraining.SPECIAL)
    pieces = [piece for sentence in encoded for piece in sentence.ids if piece >= special]
    assert sequences[sequences >= special].tolist() == pieces


def test_the_words_of_text_and_of_treebanks_are_read(pretraining, tmp_path):
    text, treebank = tmp_path / "text.txt", tmp_path / "trees.conllu"
    text.write_text("a dog\ncats see\n")
    rows = "1\ta\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tdog\t_\t_\t_\t_\t0\troot\t_\t_\n"
    treebank.write_text(f"# text = a dog\n{rows}\n")
    assert pretraining.read_sentences(text) == ["a dog", "cats see"]
    assert pretraining.read_sentences(treebank) == ["a dog"]


def test_masking_chooses_as_many_as_it_should(pretraining):
    torch.manual_seed(1)
    sequences = torch.randint(5, 100, (300, 200))
    sequences[:, 0] = 2
    read, wanted = pretraining.masked(sequences, 100)
    chosen = wanted != pretraining.IGNORED
    assert not chosen[:, 0].any()
    assert torch.equal(wanted[chosen], sequences[chosen])
    assert torch.equal(read[~chosen], sequences[~chosen])
    assert chosen.float().mean() == pytest.approx(0.15, abs=0.01)
    mask = pretraining.SPECIAL.index(pretraining.MASK)
    assert (read[chosen] == mask).float().mean() == pytest.approx(0.8, abs=0.02)
    assert (read[chosen] == sequences[chosen]).float().mean() == pytest.approx(0.1, abs=0.02)
