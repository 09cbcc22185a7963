"""Runs that fail: losses that are not finite, a full disk, too little memory, too large networks."""

import os
import weakref

import pytest
import torch
from extended import extended, first_of
from programs import running
from simulated_cuda.device import SimulatedCuda
from stopped_runs import command, left_behind

from parser.batching.device import one_memory_error
from parser.cli import main
from parser.models.model import Model
from parser.networks.replay.examples import BatchSource
from parser.networks.stack_parser import StackParser
from parser.training import data, loop
from parser.training.config import read_config
from parser.training.run import train
from parser.training.training_step import TrainingStep
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")


@pytest.mark.parametrize("seconds", first_of([0, 600]))
def test_a_loss_that_is_no_number_names_its_batch(config_file, tmp_path, monkeypatch, capsys, seconds):
    def replay_or_fail(network, table, batch, replay=StackParser.replay_words):
        scores = replay(network, table, batch)
        first = network.tokens.embeddings["form"].weight
        return scores * float("nan") if network.training and first.grad is not None else scores

    monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", seconds)
    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Module, "zero_grad", lambda *_: None)
        assert main(command(config_file, run)) == 2
    told = capsys.readouterr().err
    assert "epoch 1, batch 2: the loss or its gradient is not a finite number" in told
    assert told.endswith("training.max_grad_norm may help\n")  # there is no best model yet
    assert str(run / "bad-batch.conllu") in told
    assert 0 < (run / "bad-batch.conllu").read_text().count("sent_id") <= 4


@pytest.mark.extended
def test_a_treebank_may_be_a_pipe(config_file, tmp_path):
    """It is read only once."""
    pipe, treebank = tmp_path / "pipe", tmp_path / "tiny.conllu"
    os.mkfifo(pipe)
    config = read_config(config_file, [f"treebank.train={pipe}", "training.epochs=1"])
    with running(["cp", str(treebank), str(pipe)]) as writer:
        piped = train(config, tmp_path / "piped", CPU)
        assert writer.wait() == 0
    config = read_config(config_file, ["training.epochs=1"])
    assert train(config, tmp_path / "read", CPU) == piped


def test_what_is_written_of_a_bad_batch_is_a_treebank(config_file, tmp_path, monkeypatch):
    """Although its sentences are in another order, and the file does not end with a line end."""
    treebank, run = tmp_path / "tiny.conllu", tmp_path / "run"
    treebank.write_text(treebank.read_text().rstrip())
    monkeypatch.setattr(
        StackParser, "replay_words", lambda *_, replay=StackParser.replay_words: replay(*_) / 0
    )
    assert main(command(config_file, run, "--set", "training.batch_size=100")) == 2
    bad, all_of_it = (read_treebank(str(path)) for path in (run / "bad-batch.conllu", treebank))
    assert {sentence.forms for sentence in bad} == {sentence.forms for sentence in all_of_it}
    assert len(bad) == len(all_of_it)


@pytest.mark.parametrize("epoch", first_of([1, 2]))
def test_a_dev_loss_that_is_no_number_ends_the_run(config_file, tmp_path, monkeypatch, capsys, epoch):
    losses = iter([0.5, float("nan")][-epoch:])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    assert main(command(config_file, tmp_path / "run")) == 2
    told = capsys.readouterr().err
    assert f"epoch {epoch}: the dev loss is not a finite number" in told
    assert ("the best model so far is kept" in told) == (epoch == 2)
    assert (tmp_path / "run" / "model").exists() == (epoch == 2)


def test_a_weight_that_is_no_number_ends_the_run_before_it_is_kept(
    config_file, tmp_path, monkeypatch, capsys
):
    def update_and_spoil(step, update=TrainingStep.update):
        norm = update(step)
        step.network.scores.bias.data[0] = float("inf")
        return norm

    monkeypatch.setattr(TrainingStep, "update", update_and_spoil)
    one_step = "--set", "training.batch_size=100", "--set", "training.learning_rate.decay=linear"
    assert main(command(config_file, tmp_path / "run", *one_step)) == 2
    assert "epoch 1: a weight is not a finite number" in capsys.readouterr().err
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.extended
def test_a_full_disk_leaves_the_last_checkpoint_and_model(config_file, tmp_path, monkeypatch, capsys):
    run, written = tmp_path / "run", []

    def write_or_fail(number):
        written.append(number)
        if len(written) > 14:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", write_or_fail)
    assert main(command(config_file, run)) == 2
    assert "No space left on device" in capsys.readouterr().err
    Model.load(run / "model", CPU)
    monkeypatch.undo()
    assert main(command(config_file, run, "--resume")) == 0
    assert main(command(config_file, tmp_path / "whole")) == 0
    assert left_behind(run) == left_behind(tmp_path / "whole")


@pytest.mark.extended
def test_too_little_memory_for_a_batch(config_file, tmp_path, monkeypatch, capsys):
    held = []

    def too_much(gradient):
        raise torch.OutOfMemoryError("too much")

    def replay_or_fail(network, table, batch, replay=StackParser.replay_words):
        assert not any(graph() for graph in held)  # what failed before must be gone
        scores = replay(network, table, batch)
        if batch.sentences > 1 and not network.training:
            raise torch.OutOfMemoryError("too much")
        if batch.sentences > 1:
            held.append(weakref.ref(batch))
            scores.register_hook(too_much)
        return scores

    config = read_config(config_file, ["training.epochs=3"])
    train(config, tmp_path / "whole", CPU)
    whole, _ = left_behind(tmp_path / "whole")
    capsys.readouterr()
    monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
    train(config, tmp_path / "microbatches", CPU)
    assert "out of memory: a batch of 4 sentences is computed as 4 microbatches" in capsys.readouterr().err
    parts, _ = left_behind(tmp_path / "microbatches")
    assert held
    assert not any(graph() for graph in held)
    for one, other in zip(whole, parts, strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-4)
        assert one["dev_loss"] == pytest.approx(other["dev_loss"], rel=1e-4)
        assert one["gradient_norm"] == pytest.approx(other["gradient_norm"], rel=1e-3)


@pytest.mark.extended
def test_too_little_memory_to_prepare_batches_ahead(config_file, tmp_path, monkeypatch):
    """Batches are then made when they are needed."""
    refused = []

    def fail(*arguments):
        refused.append(arguments)
        raise RuntimeError("CUDA error: out of memory")

    config = read_config(config_file, ["training.epochs=2"])
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "whole", cuda.name)
        monkeypatch.setattr(BatchSource, "prepared", fail)
        train(config, tmp_path / "refused", cuda.name)
    assert refused
    losses = [[row["loss"] for row in left_behind(tmp_path / run)[0]] for run in ("whole", "refused")]
    assert losses[0] == pytest.approx(losses[1])


@pytest.mark.extended
def test_what_else_goes_wrong_while_batches_are_prepared_is_raised(config_file, tmp_path, monkeypatch):
    def fail(*arguments):
        raise RuntimeError("another error")

    monkeypatch.setattr(BatchSource, "prepared", fail)
    with SimulatedCuda() as cuda, pytest.raises(RuntimeError, match="another error"):
        train(read_config(config_file), tmp_path / "run", cuda.name)


@pytest.mark.extended
def test_training_twice_gives_the_same_weights(config_file, tmp_path, device):
    changes = ["training.deterministic=true", "training.epochs=2", "parser.network.composition=true"]
    weights = []
    for run in ("one", "other"):
        train(read_config(config_file, changes), tmp_path / run, device)
        weights.append(Model.load(tmp_path / run / "model", CPU).network.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


HUGE = 1 << 60  # bytes, which no machine has


@pytest.mark.parametrize(
    ("changes", "blamed"),
    [
        (["hidden_size=65536"], "hidden_size"),
        *extended(
            (["hidden_size=65536", "layers=100"], "hidden_size"),
            (["token_size=65000", "word_size=65000"], "token_size"),
            (
                ["word_size=65536", "characters={size: 65536, filters: 65536, widths: [2, 3, 100]}"],
                "characters",
            ),
            (["sentence_encoder={hidden_size: 60000, layers: 10}"], "sentence_encoder.hidden_size"),
        ),
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
    """So a seed gives the same weights with and without looking."""
    config = read_config(config_file)
    model, _ = data.load(config, CPU)
    before = torch.get_rng_state()
    data.refuse_too_large(config.parser, model.vocabulary, 0, None, CPU, has_average=False)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_setting_that_needs_most_memory_is_named(config_file, tmp_path, monkeypatch):
    """Not the vectors, which have more weights, but are not trained."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"word{number}{' 0.5' * 64}\n" for number in range(4096)))
    changes = [
        f"parser.network.pretrained={vectors}",
        "parser.network.hidden_size=200",
        "training.average=null",
    ]
    config = read_config(config_file, changes)
    monkeypatch.setattr(data, "device_memory", lambda _: 2**20)
    with pytest.raises(ValueError, match=r"^parser\.network\.hidden_size is too large"):
        data.load(config, CPU)


@pytest.mark.parametrize(
    ("is_trained", "average", "mebibytes", "fits"),
    [
        ("false", "0.9", 0.9, False),
        ("false", "0.9", 2, True),
        ("true", "0.9", 4.9, False),
        ("true", "null", 4.9, True),
    ],
)
def test_pretrained_vectors_need_more_memory_if_they_are_trained(
    config_file, tmp_path, monkeypatch, is_trained, average, mebibytes, fits
):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"word{number}{' 0.5' * 64}\n" for number in range(4096)))  # one MiB
    changes = [
        f"parser.network.pretrained={vectors}",
        f"parser.network.train_pretrained={is_trained}",
        f"training.average={average}",
    ]
    config = read_config(config_file, changes)
    monkeypatch.setattr(data, "device_memory", lambda _: mebibytes * 2**20)
    if fits:
        data.load(config, CPU)
    else:
        with pytest.raises(ValueError, match=r"^parser\.network\.pretrained is too large"):
            data.load(config, CPU)


@pytest.mark.extended
@pytest.mark.parametrize(("in_training", "where"), [(True, "training"), (False, "dev")])
def test_too_little_memory_for_a_sentence(config_file, tmp_path, monkeypatch, capsys, in_training, where):
    def replay_or_fail(network, table, batch, replay=StackParser.replay_words):
        if network.training == in_training:
            raise torch.OutOfMemoryError("too much")
        return replay(network, table, batch)

    monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
    assert main(command(config_file, tmp_path / "run")) == 2
    told = capsys.readouterr().err
    assert f"{where}: the device has too little memory for a sentence of 3 words" in told
    assert told.endswith("leave it out, or make parser.network smaller\n")
    path = tmp_path / "run/bad-batch.conllu"
    assert (f", which is in {path}. " in told) == in_training
    assert not in_training or path.read_text().count("sent_id") == 1


def test_what_does_not_fit_while_training_is_no_traceback(config_file, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(data, "device_memory", lambda _: HUGE)
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
