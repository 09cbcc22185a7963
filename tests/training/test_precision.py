"""Training and parsing in bfloat16, with the commands of a user."""

import json

import pytest
import torch
from extended import first_of
from random_parsers import run_by

from parser.batching import functional
from parser.batching.functional import Processor
from parser.cli import main

NONE = Processor("AuthenticAMD", 23, frozenset({"avx2"}))


@pytest.fixture
def products(monkeypatch):
    """The precision at each step of training and of parsing."""
    from parser.networks.stack_parser import StackParser
    from parser.parsing.pytorch import running_batch

    found = {"training": set(), "parsing": set()}
    forward, stepper = StackParser.forward, running_batch.inference_stepper

    def in_training(*arguments, **named):
        if torch.is_grad_enabled():
            found["training"].add(functional.present_precision())
        return forward(*arguments, **named)

    def in_parsing(*arguments, **named):
        found["parsing"].add(functional.present_precision())
        return stepper(*arguments, **named)

    monkeypatch.setattr(StackParser, "forward", in_training)
    monkeypatch.setattr(running_batch, "inference_stepper", in_parsing)
    run_by(monkeypatch, "PyTorch")
    return found


TAGS = [
    "parser.network.sentence_encoder={hidden_size: 8, layers: 1}",
    "parser.network.tags={predict: [xpos, lemma], layers_above: 1}",
    "parser.network.arcs={size: 8}",
    "training.epochs=12",
]


@pytest.mark.parametrize("changes", first_of([[], TAGS]), ids=["trees", "tags and trees"])
def test_a_parser_is_trained_in_bfloat16_and_parses_in_float32(
    changes, tmp_path, products, bfloat16, trained
):
    trained("training.precision=bfloat16", *changes)
    assert products == {"training": {"bfloat16"}, "parsing": {"float32"}}
    scores = json.loads((tmp_path / "run" / "model" / "scores.json").read_text())
    assert scores["precision"] == "bfloat16"
    assert scores["dev"]["las"] == 100
    assert functional.present_precision() == "float32"


@pytest.mark.extended
def test_a_cpu_without_bfloat16_says_so(tmp_path, monkeypatch, capsys, trained, refused):
    monkeypatch.setattr("parser.batching.functional.processor", lambda: NONE)
    message = "precision bfloat16: this CPU has neither of amx_bf16 and avx512_bf16"
    assert message in refused("device=cpu", "training.precision=bfloat16")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("precision", ["bfloat16", "tf32"])
def test_a_cpu_parses_in_float32_or_int8(precision, capsys):
    assert main(["parse", "tests/model", "-", "--device", "cpu", "--precision", precision]) == 2
    assert f"--precision {precision} is for GPUs" in capsys.readouterr().err
