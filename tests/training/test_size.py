"""Networks that are too large for memory."""

import pytest
import torch

from parser.batching.device import one_memory_error
from parser.cli import main
from parser.config.file import read_config
from parser.training import data, size

CPU = torch.device("cpu")
HUGE = 1 << 60  # bytes, which no machine has


@pytest.mark.parametrize(
    ("changes", "blamed"),
    [
        (["hidden_size=65536"], "hidden_size"),
        (["hidden_size=65536", "layers=100"], "hidden_size"),
        (["token_size=65000", "word_size=65000"], "token_size"),
        (["word_size=65536", "characters={size: 65536, filters: 65536, widths: [2, 3, 100]}"], "characters"),
        (["sentence_encoder={hidden_size: 60000, layers: 10}"], "sentence_encoder.hidden_size"),
    ],
)
def test_the_setting_that_makes_it_large_is_named(config_file, tmp_path, capsys, changes, blamed):
    settings = [argument for change in changes for argument in ("--set", f"parser.network.{change}")]
    command = ["train", str(config_file), "--run", str(tmp_path / "run"), "--set", "device=cpu"]
    assert main([*command, *settings]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"parser.network.{blamed}")
    assert "GiB to train, and there are" in told
    assert not (tmp_path / "run").exists()


def test_looking_draws_no_numbers(config_file):
    """So that a seed gives the same weights as without."""
    config = read_config(config_file)
    model, _ = data.load(config, CPU)
    before = torch.get_rng_state()
    size.refuse_too_large(config.parser, model.vocabulary, 0, None, CPU)
    assert torch.equal(torch.get_rng_state(), before)


def test_what_does_not_fit_while_training_is_no_traceback(config_file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(size, "device_memory", lambda _: HUGE)
    changes = ["--set", "parser.network.hidden_size=65536", "--set", "parser.network.layers=100"]
    assert main(["train", str(config_file), "--run", str(tmp_path / "run"), *changes]) == 2
    told = capsys.readouterr().err
    assert told.startswith("out of memory: ")
    assert "training.batch_size" in told


@pytest.mark.parametrize("ask", [lambda: torch.empty(HUGE), lambda: bytearray(HUGE)])
def test_memory_errors_are_one(ask):
    with pytest.raises(torch.OutOfMemoryError), one_memory_error():
        ask()


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    ],
)
def test_errors_of_cudas_libraries_are_memory_errors(message):
    with pytest.raises(torch.OutOfMemoryError, match=message[:20]), one_memory_error():
        raise RuntimeError(message)


def test_other_errors_stay():
    with pytest.raises(RuntimeError, match="size") as error, one_memory_error():
        torch.zeros(2) @ torch.zeros(3)
    assert not isinstance(error.value, torch.OutOfMemoryError)
