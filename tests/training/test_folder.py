"""The folder of a run: its lock, checkpoint, metrics and board."""

import errno
import json
import os

import pytest
import torch
from full_disks import file_sizes_limited
from safetensors import safe_open
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from parser.training import data
from parser.training import run as training_run
from parser.training.checkpoint import load_checkpoint, save_checkpoint
from parser.training.config import read_config
from parser.training.folder import claim, refuse_other_config, refuse_taken, write_config
from parser.training.record import Record
from parser.training.run import new_training, train

CPU = torch.device("cpu")


@pytest.fixture
def theirs(tmp_path):
    """A folder with a file that is not of a run."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/precious").touch()
    return tmp_path / "theirs"


def test_an_earlier_run_is_moved_aside_and_nothing_else_is(tmp_path, theirs):
    run = tmp_path / "run"
    with claim(run, resume=False) as moved:
        assert moved is None
    for number in (1, 2):
        (run / "metrics.jsonl").write_text(str(number))
        with claim(run, resume=False) as moved:
            assert moved == tmp_path / f"run.{number}"
            assert (moved / "metrics.jsonl").read_text() == str(number)
            assert sorted(path.name for path in run.iterdir()) == ["lock", "metrics.jsonl"]
    with pytest.raises(ValueError, match="not a run"), claim(theirs, resume=False):
        pass
    assert [path.name for path in theirs.iterdir()] == ["precious"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_in_a_folder_is_refused(tmp_path, resume):
    run = tmp_path / "run"
    with (
        claim(run, resume=False),
        pytest.raises(ValueError, match="another process is training there"),
        claim(run, resume),
    ):
        pass
    with claim(run, resume=True) as moved:
        assert moved is None


def test_a_folder_that_can_not_be_claimed_is_told_before_data_are_read(config_file, tmp_path, theirs):
    config = read_config(config_file, ["treebank.dev=nowhere.conllu"])
    with pytest.raises(ValueError, match="not a run"):
        train(config, theirs, CPU)
    with (
        claim(tmp_path / "run", resume=False),
        pytest.raises(ValueError, match="another process is training"),
    ):
        train(config, tmp_path / "run", CPU)


def test_another_config_is_refused_with_all_differences(config_file, tmp_path):
    write_config(tmp_path, read_config(config_file))
    refuse_other_config(tmp_path, read_config(config_file))
    changed = read_config(config_file, ["training.seed=7", "parser.network.layers=3"])
    with pytest.raises(ValueError, match="was started with another config") as error:
        refuse_other_config(tmp_path, changed)
    assert "training.seed: was 1, is now 7" in str(error.value)
    assert "parser.network.layers: was 1, is now 3" in str(error.value)
    assert "batch_size" not in str(error.value)


def read(path):
    """The metadata of a file, and the bytes of its tensors."""
    with safe_open(path, "pt") as file:
        told = file.metadata()
        return told, {name: file.get_tensor(name).numpy().tobytes() for name in file.keys()}  # noqa: SIM118


def test_what_is_loaded_is_saved_again(config_file, tmp_path, device):
    config = read_config(config_file, ["training.epochs=3", "parser.network.dropout=0.2"])
    train(config, tmp_path / "run", device)
    model, loaded = data.load(config, device)
    training = new_training(model, loaded, config)
    path = tmp_path / "run" / "checkpoint.safetensors"
    load_checkpoint(path, training)
    assert (training.progress.epoch, training.progress.finished) == (4, True)
    assert training.progress.best.las > 0
    save_checkpoint(tmp_path / "again", training)
    assert read(tmp_path / "again") == read(path)
    before = path.read_bytes()
    with file_sizes_limited(5000), pytest.raises(OSError, match=os.strerror(errno.EFBIG)) as error:
        save_checkpoint(path, training)
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, str(path))
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.glob(".*")) == []


def shown(folder):
    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    return [(event.step, event.value) for event in board.Scalars("loss")]


def test_metrics_and_board_are_cut_back(tmp_path):
    with Record(tmp_path, "seed: 1\n") as record:
        size = record.write(1, {"loss": 0.5, "dev_loss": float("nan")})
        record.write(2, {"loss": 0.25})
    assert shown(tmp_path) == [(1, 0.5), (2, 0.25)]
    with Record(tmp_path, "seed: 1\n", size) as record:
        record.write(2, {"loss": 0.125})
    assert shown(tmp_path) == [(1, 0.5), (2, 0.125)]
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"epoch": 1, "loss": 0.5, "dev_loss": None}, {"epoch": 2, "loss": 0.125}]


@pytest.mark.parametrize("line", ["{}", "[1]", '["epoch"]', "5", "null", "no JSON"])
def test_metrics_that_are_broken_are_named(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_text(f'{{"epoch": 1}}\n{line}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2: not the metrics of an epoch"):
        Record(tmp_path, "", (tmp_path / "metrics.jsonl").stat().st_size)
    with pytest.raises(ValueError, match="a part of it is missing"):
        Record(tmp_path, "", size=100)


def test_a_folder_is_locked_until_its_scores_are_written(config_file, tmp_path, monkeypatch):
    locked = []

    def scored(model, sentences, evaluate=training_run.evaluate_treebanks):
        with pytest.raises(ValueError, match="another process is training there"):
            refuse_taken(tmp_path / "run")
        locked.append(len(sentences))
        return evaluate(model, sentences)

    monkeypatch.setattr(training_run, "evaluate_treebanks", scored)
    config = read_config(config_file, ["training.epochs=1", f"treebank.test={tmp_path}/tiny.conllu"])
    training_run.train_and_score(config, tmp_path / "run")
    assert locked
    refuse_taken(tmp_path / "run")
