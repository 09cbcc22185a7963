"""Runs that are killed or stopped, and resumed, end like uninterrupted runs."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch
from extended import extended, first_of
from programs import running
from safetensors import safe_open
from safetensors.torch import save
from simulated_cuda.device import SimulatedCuda
from stopped_runs import LONG, OTHER_TREES, RICH, Stops, command, left_behind

from parser.cli import main
from parser.system.interruption import StoppedError
from parser.training import data, loop
from parser.training.config import read_config
from parser.training.prepared import cache_folder
from parser.training.run import train, train_and_score

CPU = torch.device("cpu")
ON_CPU = "--set", "device=cpu"


def killed_until_done(arguments, run, kills, longest):
    """Start a run again and again. Returns how often it was killed before it finished."""
    killed, draw = 0, random.Random(1)
    while True:
        resume = ["--resume"] if (run / "checkpoint.safetensors").is_file() else []
        program = [sys.executable, "-m", "parser", *arguments, *resume]
        with running(program, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            try:
                printed, _ = process.communicate(timeout=draw.uniform(0, longest) if killed < kills else None)
            except subprocess.TimeoutExpired:
                killed += 1
            else:
                assert process.returncode == 0, printed
                return killed


@pytest.mark.extended
@pytest.mark.parametrize("kills", [2, pytest.param(50, marks=pytest.mark.soak)])
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_never_was(config_file, tmp_path, kills):
    began = time.monotonic()
    # On a CPU, where a resumed run is identical to the bit.
    assert main(command(config_file, tmp_path / "whole", *ON_CPU)) == 0
    longest = time.monotonic() - began + 4  # starting takes seconds
    run = tmp_path / "killed"
    again = command(config_file, run, *ON_CPU)
    while (done := killed_until_done(again, run, kills, longest)) < kills:
        # It finished too soon: start over.
        assert left_behind(run) == left_behind(tmp_path / "whole")
        run.rename(tmp_path / f"ended-{time.monotonic_ns()}")
        kills -= done
    assert left_behind(run) == left_behind(tmp_path / "whole")


class KillError(BaseException):
    """An exception that nothing in the program catches."""


@pytest.mark.extended
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
            train(config, run, CPU)
        kill_at = None
        train(config, run, CPU, resume=(run / "checkpoint.safetensors").is_file())
        assert left_behind(run) == left_behind(tmp_path / "whole")


def other_words(folder):
    (folder / "vectors.txt").write_text("cats 3 4\ndogs 1 2\n")


def more_trees(folder):
    with (folder / "tiny.conllu").open("a") as file:
        file.write("1\tmore\tmore\tX\tX\t_\t0\troot\t_\t_\n\n")


def broken(content):
    return lambda folder: (folder / "run/checkpoint.safetensors").write_bytes(content)


def of_format(number):
    """Its config may have settings with other names, but the message has to be about the format."""

    def change(folder):
        path, config = folder / "run/checkpoint.safetensors", folder / "run/config.yaml"
        with safe_open(path, "pt") as file:
            metadata = {name: text for name, text in file.metadata().items() if name != "format"}
            tensors = {name: file.get_tensor(name) for name in list(file.keys())}
        path.write_bytes(save(tensors, {**metadata, **({"format": number} if number else {})}))
        config.write_text(config.read_text().replace("max_grad_norm:", "clip:"))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (broken(b"\xff" * 100), "checkpoint.safetensors: broken, or not of this run"),
        (of_format("2"), "checkpoint.safetensors: has format 2, and this program goes on from format 1"),
        *extended(
            (of_format(None), "checkpoint.safetensors: has a format that it does not name"),
            (of_format("9" * 1000), f"checkpoint.safetensors: has format {'9' * 60}…, and"),
            (broken(b""), "checkpoint.safetensors: broken, or not of this run"),
            (broken(b"\x08\0\0\0\0\0\0\0{}      "), "checkpoint.safetensors: broken, or not of this run"),
            (lambda folder: (folder / "run/checkpoint.safetensors").unlink(), "there is no checkpoint"),
            (other_words, "have changed since the run began"),
            (more_trees, "have changed since the run began"),
        ),
    ],
)
def test_what_can_not_be_gone_on_with_is_left_alone(tmp_path, trained, refused, change, message):
    (tmp_path / "vectors.txt").write_text("dogs 1 2\ncats 3 4\n")
    changes = "training.epochs=1", f"parser.network.pretrained={tmp_path}/vectors.txt"
    trained(*changes)
    before = left_behind(tmp_path / "run")
    change(tmp_path)
    assert message in refused(*changes, "--resume")
    assert left_behind(tmp_path / "run") == before


@pytest.mark.parametrize(
    "changes",
    first_of([LONG, [*LONG, *RICH], [*LONG, *OTHER_TREES]]),
    ids=["plain", "with everything", "with trees of several files"],
)
def test_a_run_that_is_stopped_at_any_batch_goes_on(config_file, tmp_path, monkeypatch, changes):
    text = (tmp_path / "tiny.conllu").read_text()
    (tmp_path / "other.conllu").write_text(text[: text.index("sent_id = cats")].rpartition("#")[0])
    config = read_config(config_file, [change.replace("FOLDER", str(tmp_path)) for change in changes])
    stops = Stops(monkeypatch)
    train(config, tmp_path / "whole", CPU)
    in_whole, stops.batches, stops.at = stops.batches, 0, {3, 4, 9, 17}
    for number in range(len(stops.at)):
        with pytest.raises(StoppedError, match="everything is saved, continue with") as stopped:
            train(config, tmp_path / "stopped", CPU, resume=number > 0)
        assert stopped.value.signal == signal.SIGTERM
    scores = train(config, tmp_path / "stopped", CPU, resume=True)
    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")
    assert stops.batches == in_whole  # no batch was computed twice
    assert train(config, tmp_path / "stopped", CPU, resume=True) == scores  # there is nothing left to do


@pytest.mark.extended
def test_a_run_that_is_stopped_at_an_epochs_last_batch_goes_on(config_file, tmp_path, monkeypatch):
    config = read_config(config_file, ["training.epochs=2", "training.batch_size=1"])
    stops = Stops(monkeypatch)
    stops.at = {16}
    with pytest.raises(StoppedError, match="stopped in epoch 1, after 16 of its batches"):
        train(config, tmp_path / "run", CPU)
    train(config, tmp_path / "run", CPU, resume=True)
    assert stops.batches == 2 * 16


@pytest.mark.extended
def test_a_run_that_is_stopped_while_its_last_epoch_is_evaluated_is_scored_later(
    config_file, tmp_path, monkeypatch, capsys
):
    def stopped(model, sentences, evaluate=loop.evaluate_treebanks):
        signal.raise_signal(signal.SIGTERM)
        return evaluate(model, sentences)

    config = read_config(config_file, ["training.epochs=1", f"treebank.test={tmp_path}/tiny.conllu"])
    whole = train_and_score(config, tmp_path / "whole")
    monkeypatch.setattr(loop, "evaluate_treebanks", stopped)
    with pytest.raises(StoppedError, match="stopped at the end, after 1 epoch"):
        train_and_score(config, tmp_path / "run")
    assert not (tmp_path / "run/result.json").exists()
    assert train_and_score(config, tmp_path / "run", resume=True)["test"] == whole["test"]
    assert "this run is finished; only its scores are missing" in capsys.readouterr().out
    assert left_behind(tmp_path / "run") == left_behind(tmp_path / "whole")


@pytest.mark.extended
def test_a_runs_folder_is_all_that_resuming_needs(config_file, tmp_path, trained, capsys):
    run = tmp_path / "run"
    trained("training.epochs=2", "device=cpu")
    config_file.unlink()
    before = left_behind(run)
    for arguments in (
        ["--resume", str(run)],
        ["--run", str(run), "--resume"],
        ["--resume", str(run / "config.yaml")],
        [str(run / "config.yaml"), "--resume", str(run)],
        [str(run / "config.yaml"), "--resume"],
        [str(run), "--resume"],
    ):
        assert main(["train", *arguments]) == 0
        printed = capsys.readouterr().out
        assert "resuming at the end, after 2 epochs" in printed
        assert f"best model: {run / 'model'}" in printed
        assert left_behind(run) == before


@pytest.mark.extended
def test_a_run_is_not_resumed_with_fewer_epochs_than_it_has(tmp_path, trained, refused):
    trained("training.epochs=2")
    config = (tmp_path / "run/config.yaml").read_bytes()
    assert "training.epochs=1: the run has 2 epochs already" in refused("training.epochs=1", "--resume")
    assert (tmp_path / "run/config.yaml").read_bytes() == config


@pytest.mark.extended
@pytest.mark.parametrize("decay", first_of(["plateau", "linear"]))
def test_a_finished_run_goes_on_to_more_epochs(tmp_path, trained, decay):
    """As if it had been started with more epochs, unless the learning rate depends on their number."""
    changes = f"training.learning_rate.decay={decay}", "device=cpu"
    for run, epochs in (("long", 4), ("short", 2)):
        trained(*changes, f"training.epochs={epochs}", run=run)
    printed = trained(*changes, "training.epochs=4", "--resume", run="short")
    assert "4 epochs in place of 2: the learning rate" in printed
    assert ("falls to 0 in the last epoch" in printed) == (decay == "linear")
    long, (rows, model) = map(left_behind, (tmp_path / "long", tmp_path / "short"))
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert ((rows, model) == long) == (decay == "plateau")


@pytest.mark.extended
def test_a_run_that_stopped_early_goes_on_if_it_may(tmp_path, trained):
    changes = "training.epochs=9", "training.early_stopping_patience=1"
    trained(*changes)
    stopped = len(left_behind(tmp_path / "run")[0])
    assert stopped < 9
    assert f"this run stopped early, after {stopped} epochs: " in trained(*changes, "--resume")
    assert len(left_behind(tmp_path / "run")[0]) == stopped
    trained(*changes, "training.early_stopping_patience=null", "--resume")
    assert len(left_behind(tmp_path / "run")[0]) == 9


def test_what_can_not_be_resumed_or_trained_is_told_and_not_begun(config_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    needs = "train needs a config"
    for arguments, message in (
        ([str(config_file), "--resume"], "runs/tiny: there is no such folder"),
        (["--resume", "runs/none"], "runs/none: there is no such folder"),
        (["--run", "runs/none", "--resume"], "runs/none: there is no such folder"),
        ([], needs),
        (["--resume"], needs),
        (["--run", "runs/none"], needs),
        (["--resume", str(tmp_path), "--run", str(tmp_path)], "both name a folder"),
        ([str(tmp_path)], f"{tmp_path}: is a folder"),
    ):
        assert main(["train", *arguments]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "runs").exists()


@pytest.mark.extended
def test_resuming_what_is_no_run_names_what_was_meant(tmp_path, trained, capsys):
    run, package = tmp_path / "run", tmp_path / "tiny.stackparser"
    trained("training.epochs=1")
    package.write_bytes(b"PK")
    assert main(["train", "--resume", str(run / "model")]) == 2
    assert capsys.readouterr().err.endswith(f"did you mean {run}?\n")
    for file in (package, run / "model/settings.json"):
        assert main(["train", "--resume", str(file)]) == 2
        assert capsys.readouterr().err.startswith(f"{file}: is no folder of a run")


@pytest.mark.extended
def test_a_runs_config_trains_in_the_runs_folder(tmp_path, trained):
    trained("training.epochs=1")
    assert main(["train", str(tmp_path / "run/config.yaml")]) == 0
    assert left_behind(tmp_path / "run") == left_behind(tmp_path / "run.1")


GRAPHS = ["training.cuda_graphs=true", "training.word_dropout=0.5"]
LAYERS = ["parser.network.layers=2", "parser.network.sentence_encoder={hidden_size: 8, layers: 2}"]


@pytest.mark.extended
@pytest.mark.parametrize("changes", [LAYERS, GRAPHS], ids=["dropout between layers", "graphs"])
def test_a_stopped_run_goes_on_to_the_bit_on_a_gpu(config_file, tmp_path, monkeypatch, changes):
    """Each start has a new device, as each process has."""
    config = read_config(config_file, [*LONG, *changes, "device=cuda", "training.epochs=3"])
    stops = Stops(monkeypatch)
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "whole", cuda.name)
    assert (cuda.counts.operators["graph"] > 3) == (changes == GRAPHS)
    stops.batches, stops.at = 0, {3, 8}
    for number in range(len(stops.at)):
        with SimulatedCuda() as cuda, pytest.raises(StoppedError):
            train(config, tmp_path / "stopped", cuda.name, resume=number > 0)
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "stopped", cuda.name, resume=True)
    assert left_behind(tmp_path / "stopped") == left_behind(tmp_path / "whole")
