"""Runs that fail: losses that are not finite, a full disk, too little memory, too large networks."""

import os
import weakref
from functools import partial

import pytest
import torch
from extended import extended, first_of
from programs import running
from simulated_cuda.device import SimulatedCuda
from stopped_runs import LONG, left_behind

from parser.batching.device import one_memory_error
from parser.models.loading import load_model
from parser.networks.replay.examples import BatchSource
from parser.networks.stack_parser import StackParser
from parser.training import data, loop
from parser.training.config import read_config
from parser.training.run import train
from parser.training.training_step import TrainingStep
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")


@pytest.mark.parametrize("seconds", first_of([0, 600]))
def test_a_loss_that_is_no_number_names_its_batch(tmp_path, monkeypatch, refused, seconds):
    def replay_or_fail(network, table, batch, replay=StackParser.replay_words):
        scores = replay(network, table, batch)
        first = network.tokens.embeddings["form"].weight
        return scores * float("nan") if network.training and first.grad is not None else scores

    monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
    monkeypatch.setattr(loop, "SECONDS_BETWEEN_CHECKPOINTS", seconds)
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.Module, "zero_grad", lambda *_: None)
        told = refused()
    assert "epoch 1, batch 2: the loss or its gradient is not a finite number" in told
    assert "best model" not in told  # there is none yet
    bad = tmp_path / "run/bad-batch.conllu"
    assert str(bad) in told
    assert 0 < bad.read_text().count("sent_id") <= 4


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
    assert train(config, tmp_path / "read", CPU).as_dict() == piped.as_dict()


def test_what_is_written_of_a_bad_batch_is_a_treebank(tmp_path, monkeypatch, refused):
    """Although its sentences are in another order, and the file does not end with a line end."""
    treebank, replay = tmp_path / "tiny.conllu", StackParser.replay_words
    treebank.write_text(treebank.read_text().rstrip())
    monkeypatch.setattr(StackParser, "replay_words", lambda *given: replay(*given) / 0)
    refused("training.batch_size=100")
    bad, all_of_it = (read_treebank(str(path)) for path in (tmp_path / "run/bad-batch.conllu", treebank))
    assert {sentence.forms for sentence in bad} == {sentence.forms for sentence in all_of_it}
    assert len(bad) == len(all_of_it)


@pytest.mark.parametrize("epoch", first_of([1, 2]))
def test_a_dev_loss_that_is_no_number_ends_the_run(tmp_path, monkeypatch, refused, epoch):
    losses = iter([0.5, float("nan")][-epoch:])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    told = refused()
    assert f"epoch {epoch}: the dev loss is not a finite number" in told
    assert ("the best model so far is kept" in told) == (epoch == 2)
    assert (tmp_path / "run" / "model").exists() == (epoch == 2)


def test_a_weight_that_is_no_number_ends_the_run_before_it_is_kept(tmp_path, monkeypatch, refused):
    def update_and_spoil(step, update=TrainingStep.update):
        norm = update(step)
        step.network.scores.bias.data[0] = float("inf")
        return norm

    monkeypatch.setattr(TrainingStep, "update", update_and_spoil)
    told = refused("training.batch_size=100", "training.learning_rate.decay=linear")
    assert "epoch 1: a weight is not a finite number" in told
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.extended
def test_a_full_disk_leaves_the_last_checkpoint_and_model(tmp_path, monkeypatch, trained, refused):
    written = []

    def write_or_fail(number):
        written.append(number)
        if len(written) > 14:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", write_or_fail)
        assert "No space left on device" in refused(*LONG)
    load_model(tmp_path / "run/model")
    trained(*LONG, "--resume")
    trained(*LONG, run="whole")
    assert left_behind(tmp_path / "run") == left_behind(tmp_path / "whole")


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
@pytest.mark.parametrize("message", ["CUDA error: out of memory", "another error"])
def test_too_little_memory_to_prepare_batches_ahead(config_file, tmp_path, monkeypatch, message):
    """Batches are then made when they are needed. What else goes wrong is raised."""
    refused = []

    def fail(*arguments):
        refused.append(arguments)
        raise RuntimeError(message)

    config = read_config(config_file, ["training.epochs=2"])
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "whole", cuda.name)
        monkeypatch.setattr(BatchSource, "prepared", fail)
        if message == "another error":
            with pytest.raises(RuntimeError, match=message):
                train(config, tmp_path / "refused", cuda.name)
            return
        train(config, tmp_path / "refused", cuda.name)
    assert refused
    losses = [[row["loss"] for row in left_behind(tmp_path / run)[0]] for run in ("whole", "refused")]
    assert losses[0] == pytest.approx(losses[1])


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
def test_the_setting_that_makes_it_large_is_named(tmp_path, refused, changes, blamed):
    told = refused("device=cpu", *(f"parser.network.{change}" for change in changes))
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


@pytest.fixture
def load_within(config_file, tmp_path, monkeypatch):
    """load_within(mebibytes, *changes): loads a parser with one MiB of pretrained vectors."""
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("".join(f"word{number}{' 0.5' * 64}\n" for number in range(4096)))

    def load(mebibytes, *changes):
        monkeypatch.setattr(data, "device_memory", lambda _: mebibytes * 2**20)
        data.load(read_config(config_file, [f"parser.network.pretrained={vectors}", *changes]), CPU)

    return load


def test_the_setting_that_needs_most_memory_is_named(load_within):
    """Not the vectors, which have more weights, but are not trained."""
    with pytest.raises(ValueError, match=r"^parser\.network\.hidden_size is too large"):
        load_within(1, "parser.network.hidden_size=200", "training.average=null")


@pytest.mark.parametrize(
    ("changes", "fits", "too_few"),
    [
        (["training.average=0.9"], 2, 0.9),
        (["training.average=null", "parser.network.train_pretrained=true"], 4.9, None),
        (["training.average=0.9", "parser.network.train_pretrained=true"], None, 4.9),
    ],
)
def test_pretrained_vectors_need_more_memory_if_they_are_trained(load_within, changes, fits, too_few):
    if fits:
        load_within(fits, *changes)
    if too_few:
        with pytest.raises(ValueError, match=r"^parser\.network\.pretrained is too large"):
            load_within(too_few, *changes)


@pytest.mark.extended
@pytest.mark.parametrize(("in_training", "where"), [(True, "training"), (False, "dev")])
def test_too_little_memory_for_a_sentence(tmp_path, monkeypatch, refused, in_training, where):
    def replay_or_fail(network, table, batch, replay=StackParser.replay_words):
        if network.training == in_training:
            raise torch.OutOfMemoryError("too much")
        return replay(network, table, batch)

    monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
    told = refused()
    assert f"{where}: the device has too little memory for a sentence of 3 words" in told
    path = tmp_path / "run/bad-batch.conllu"
    assert (f"which is in {path}" in told) == in_training
    assert not in_training or path.read_text().count("sent_id") == 1


def test_what_does_not_fit_while_training_is_no_traceback(refused, monkeypatch):
    monkeypatch.setattr(data, "device_memory", lambda _: HUGE)
    told = refused("parser.network.hidden_size=65536", "parser.network.layers=100")
    assert told.startswith("out of memory: ")
    assert "training.batch_size" in told


def fail(message):
    raise RuntimeError(message)


@pytest.mark.parametrize(
    "ask",
    [
        partial(torch.empty, HUGE),
        partial(bytearray, HUGE),
        partial(fail, "CUDA error: out of memory"),
        partial(fail, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        partial(fail, "cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        partial(fail, "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    ],
)
def test_memory_errors_are_one(ask):
    with pytest.raises(torch.OutOfMemoryError), one_memory_error():
        ask()


def test_other_errors_stay():
    with pytest.raises(RuntimeError, match="size") as error, one_memory_error():
        torch.zeros(2) @ torch.zeros(3)
    assert not isinstance(error.value, torch.OutOfMemoryError)
