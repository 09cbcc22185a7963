"""Runs that are killed, stopped or go wrong, and what is left of them."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import nullcontext

import pytest
import torch
from programs import running, wait_until
from safetensors import safe_open
from safetensors.torch import save

from parser.cli import main
from parser.config_file import read_config
from parser.networks.stack_parser import StackParser
from parser.parsing.model import Model
from parser.training import data, loop
from parser.training.interruption import StoppedError, stop_request
from parser.training.loop import train
from parser.training.prepared import cache_folder
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")
RICH = [
    "training.average=0.9",
    "training.exploration={from_epoch: 3, probability: 0.5}",
    "training.word_dropout=0.5",
    "parser.network.composition=true",
    "parser.network.characters={size: 4, filters: 4}",
    "parser.network.sentence_encoder={hidden_size: 8, layers: 2}",
]
LONG = ["training.epochs=12", "parser.network.dropout=0.3", "training.learning_rate.warmup_epochs=2"]


def left_behind(run):
    """All that a run is for; its speed is not."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    model = {path.name: path.read_bytes() for path in (run / "model").iterdir()}
    return [{**row, "sentences_per_second": None, "seconds": None} for row in rows], model


def command(config_file, run, *more):
    changes = [argument for change in LONG for argument in ("--set", change)]
    return ["train", str(config_file), "--run", str(run), *changes, *more]


def killed_until_done(arguments, kills, longest):
    """Start again and again; returns how often it was killed before it came to its end."""
    killed, draw = 0, random.Random(1)
    while True:
        program = [sys.executable, "-m", "parser", *arguments]
        with running(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                printed, _ = process.communicate(timeout=draw.uniform(0, longest) if killed < kills else None)
            except subprocess.TimeoutExpired:
                killed += 1
            else:
                assert process.returncode == 0, printed
                return killed


@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.slow)])
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_never_was(config_file, tmp_path, kills):
    began = time.monotonic()
    assert main(command(config_file, tmp_path / "whole")) == 0
    longest = time.monotonic() - began + 4  # to start takes seconds
    again = command(config_file, tmp_path / "killed", "--resume")
    while (done := killed_until_done(again, kills, longest)) < kills:
        # It came to its end too soon: once more from the beginning.
        assert left_behind(tmp_path / "killed") == left_behind(tmp_path / "whole")
        (tmp_path / "killed").rename(tmp_path / f"ended-{time.monotonic_ns()}")
        kills -= done
    assert left_behind(tmp_path / "killed") == left_behind(tmp_path / "whole")


class KillError(BaseException):
    """Nothing in the program catches it."""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_between_any_two_files(config_file, tmp_path, monkeypatch, moment):
    config, replace, replaced, kill_at = read_config(config_file, ["training.epochs=2"]), os.replace, 0, None

    def replace_and_die(source, target):
        nonlocal replaced
        replaced += 1
        if replaced == kill_at and moment == "before":
            raise KillError
        replace(source, target)
        if replaced == kill_at and moment == "after":
            raise KillError

    monkeypatch.setattr(os, "replace", replace_and_die)
    data.load(config, CPU, cache_folder())
    replaced = 0
    train(config, tmp_path / "whole", CPU)
    files = replaced
    assert files >= 7  # the first checkpoint, the config, an epoch's checkpoint, four files of a model
    for number in range(1, files + 1):
        run, replaced, kill_at = tmp_path / f"killed-{number}", 0, number
        with pytest.raises(KillError):
            train(config, run, CPU, resume=True)
        kill_at = None
        train(config, run, CPU, resume=True)
        assert left_behind(run) == left_behind(tmp_path / "whole")


def test_a_run_without_a_checkpoint_is_left_alone(config_file, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(command(config_file, run, "--set", "training.epochs=1")) == 0
    (run / "checkpoint.safetensors").unlink()
    before = left_behind(run)
    assert main(command(config_file, run, "--set", "training.epochs=1", "--resume")) == 2
    assert "there is no checkpoint to go on from" in capsys.readouterr().err
    assert left_behind(run) == before


def test_words_in_another_order_are_refused(config_file, tmp_path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("dogs 1 2\ncats 3 4\n")
    config = read_config(config_file, [f"parser.network.pretrained={vectors}", "training.epochs=1"])
    train(config, tmp_path / "run", CPU)
    vectors.write_text("cats 3 4\ndogs 1 2\n")
    with pytest.raises(ValueError, match="or the word vectors, are others than when the run began"):
        train(config, tmp_path / "run", CPU, resume=True)


@pytest.mark.parametrize("changes", [LONG, [*LONG, *RICH]], ids=["plain", "with everything"])
def test_a_run_that_is_stopped_at_any_batch_goes_on(config_file, tmp_path, monkeypatch, changes):
    config = read_config(config_file, changes)
    replays, stops = 0, set()

    def replay_and_signal(network, table, batch, replay=StackParser.replay_words):
        nonlocal replays
        replays += network.training
        if network.training and replays in stops:
            os.kill(os.getpid(), signal.SIGTERM)
        return replay(network, table, batch)

    monkeypatch.setattr(StackParser, "replay_words", replay_and_signal)
    train(config, tmp_path / "whole", CPU)
    in_whole, replays, stops = replays, 0, {3, 4, 9, 17}
    for _ in stops:
        with pytest.raises(StoppedError, match="everything is saved, go on with --resume") as stopped:
            train(config, tmp_path / "stopped", CPU, resume=True)
        assert stopped.value.signal == signal.SIGTERM
    scores = train(config, tmp_path / "stopped", CPU, resume=True)
    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")
    assert replays == in_whole  # no batch was computed twice
    assert train(config, tmp_path / "stopped", CPU, resume=True) == scores  # there is nothing left to do


def test_ctrl_c_says_how_to_go_on(config_file, tmp_path):
    arguments = [sys.executable, "-m", "parser", *command(config_file, tmp_path / "run")]
    arguments += ["--set", "training.epochs=5000"]
    with running(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until((tmp_path / "run" / "checkpoint.safetensors").exists, process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert "everything is saved, go on with --resume" in errors
    assert "Traceback" not in errors


def test_a_run_whose_terminal_closes_is_saved(config_file, tmp_path):
    run = tmp_path / "run"
    arguments = [sys.executable, "-m", "parser", *command(config_file, run, "--set", "training.epochs=5000")]
    ours, theirs = pty.openpty()
    with running(arguments, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        printed = b""
        while b"epoch   2" not in printed:
            printed += os.read(ours, 1 << 16)
        os.close(ours)
        process.send_signal(signal.SIGHUP)
        # Not -SIGHUP: it ended by itself, after it had saved.
        assert process.wait() == 128 + signal.SIGHUP


@pytest.mark.parametrize(
    ("before", "last", "at_once"),
    [
        (["SIGINT"], "SIGINT", True),
        (["SIGTERM"], "SIGINT", True),
        (["SIGHUP", "SIGTERM"], "SIGTERM", True),
        # One terminal closes, and both the shell and the system say so.
        (["SIGHUP"], "SIGHUP", False),
        (["SIGHUP"], "SIGTERM", False),
        (["SIGTERM"], "SIGHUP", False),
    ],
)
def test_who_asks_twice_is_in_a_hurry_but_for_terminals(before, last, at_once):
    with stop_request() as request:
        for name in before:
            signal.raise_signal(signal.Signals[name])
        with pytest.raises(KeyboardInterrupt) if at_once else nullcontext():
            signal.raise_signal(signal.Signals[last])
        assert request.signal is not None


def test_nohup_is_heeded():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_request() as request:
            signal.raise_signal(signal.SIGHUP)
            assert request.signal is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_treebanks_are_refused(config_file, tmp_path, capsys):
    assert main(command(config_file, tmp_path / "run", "--set", "training.epochs=1")) == 0
    with (tmp_path / "tiny.conllu").open("a") as file:
        file.write("1\tmore\tmore\tX\tX\t_\t0\troot\t_\t_\n\n")
    assert main(command(config_file, tmp_path / "run", "--set", "training.epochs=1", "--resume")) == 2
    assert "are others than when the run began" in capsys.readouterr().err


@pytest.mark.parametrize("damage", [b"", b"\x08\0\0\0\0\0\0\0{}      ", b"\xff" * 100])
def test_a_broken_checkpoint_is_named(config_file, tmp_path, capsys, damage):
    assert main(command(config_file, tmp_path / "run", "--set", "training.epochs=1")) == 0
    path = tmp_path / "run" / "checkpoint.safetensors"
    path.write_bytes(damage)
    assert main(command(config_file, tmp_path / "run", "--set", "training.epochs=1", "--resume")) == 2
    assert f"{path}: broken, or not of this run" in capsys.readouterr().err


def test_an_older_programs_checkpoint_is_refused(config_file, tmp_path, capsys):
    """Its config has settings that have other names now, which is not what the user has to be told."""
    run = tmp_path / "run"
    assert main(command(config_file, run, "--set", "training.epochs=1")) == 0
    path = run / "checkpoint.safetensors"
    with safe_open(path, "pt") as file:
        told = {name: text for name, text in file.metadata().items() if name != "format"}
        tensors = {name: file.get_tensor(name) for name in list(file.keys())}
    path.write_bytes(save(tensors, told))
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("max_grad_norm:", "clip:"))
    assert main(command(config_file, run, "--set", "training.epochs=1", "--resume")) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{path}: written by an older version of this program; train without --resume")


@pytest.mark.parametrize("seconds", [0, 600])
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


def test_a_treebank_may_be_a_pipe(config_file, tmp_path):
    """It is read once."""
    pipe, treebank = tmp_path / "pipe", tmp_path / "tiny.conllu"
    os.mkfifo(pipe)
    config = read_config(config_file, [f"treebank.train={pipe}", "training.epochs=1"])
    with running(["cp", str(treebank), str(pipe)]) as writer:
        piped = train(config, tmp_path / "piped", CPU)
        assert writer.wait() == 0
    config = read_config(config_file, ["training.epochs=1"])
    assert train(config, tmp_path / "read", CPU) == piped


def test_what_is_written_of_a_bad_batch_is_a_treebank(config_file, tmp_path, monkeypatch):
    """Though its sentences are in another order, and the file's last has no line end."""
    treebank, run = tmp_path / "tiny.conllu", tmp_path / "run"
    treebank.write_text(treebank.read_text().rstrip())
    monkeypatch.setattr(
        StackParser, "replay_words", lambda *_, replay=StackParser.replay_words: replay(*_) / 0
    )
    assert main(command(config_file, run, "--set", "training.batch_size=100")) == 2
    bad, all_of_it = (read_treebank(str(path)) for path in (run / "bad-batch.conllu", treebank))
    assert {sentence.forms for sentence in bad} == {sentence.forms for sentence in all_of_it}
    assert len(bad) == len(all_of_it)


@pytest.mark.parametrize("epoch", [1, 2])
def test_a_dev_loss_that_is_no_number_ends_the_run(config_file, tmp_path, monkeypatch, capsys, epoch):
    losses = iter([0.5, float("nan")][-epoch:])
    monkeypatch.setattr(loop, "mean_loss", lambda *_: next(losses))
    assert main(command(config_file, tmp_path / "run")) == 2
    told = capsys.readouterr().err
    assert f"epoch {epoch}: the dev loss is not a finite number" in told
    assert ("the best model so far is kept" in told) == (epoch == 2)
    assert (tmp_path / "run" / "model").exists() == (epoch == 2)


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


def test_a_run_that_is_stopped_at_an_epochs_last_batch_goes_on(config_file, tmp_path, monkeypatch):
    config = read_config(config_file, ["training.epochs=2", "training.batch_size=1"])
    replays = 0

    def replay_and_signal(network, table, batch, replay=StackParser.replay_words):
        nonlocal replays
        replays += network.training
        if network.training and replays == 16:
            os.kill(os.getpid(), signal.SIGTERM)
        return replay(network, table, batch)

    monkeypatch.setattr(StackParser, "replay_words", replay_and_signal)
    with pytest.raises(StoppedError, match="stopped in epoch 1, 16 batches of it done"):
        train(config, tmp_path / "run", CPU)
    train(config, tmp_path / "run", CPU, resume=True)
    assert replays == 2 * 16


def test_other_threads_leave_signals_alone():
    before, found = signal.getsignal(signal.SIGTERM), []

    def look():
        with stop_request():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [before]


def test_a_run_that_is_done_is_said_to_be(config_file, tmp_path, capsys):
    config = read_config(config_file, ["training.epochs=1"])
    train(config, tmp_path / "run", CPU)
    train(config, tmp_path / "run", CPU, resume=True)
    assert "going on at the end, after 1 epochs" in capsys.readouterr().out
