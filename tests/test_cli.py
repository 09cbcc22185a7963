"""The commands as a user gives them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from errno import EIO, ENOSPC
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from extended import extended, first_of
from programs import running, wait_until

from parser.__main__ import BLAS_THREADS
from parser.cli import argument_parser, main
from parser.commands.errors import how_to_get, message_of
from parser.speed.measuring.cells import Experiment, SpeedConfig

MODEL = "tests/model"


@pytest.fixture
def run(config_file, tmp_path):
    """The folder of a finished run."""
    assert main(["train", str(config_file), "--run", str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def test_commands_take_numbers_next_to_0_for_0():
    smallest = torch.tensor([torch.finfo(torch.float32).smallest_normal])
    assert smallest / 2 > 0
    assert main(["plugins"]) == 0
    assert smallest / 2 == 0


def test_train_evaluate_and_parse(config_file, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", str(config_file), "--run", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "dev   UAS 100.00  LAS 100.00" in printed
    assert "test  UAS 100.00  LAS 100.00" in printed
    result = json.loads((run / "result.json").read_text())
    assert f"{run / 'model'}, epoch {result['best_epoch']} of {result['epochs']}" in printed
    model, treebank = str(run / "model"), str(tmp_path / "tiny.conllu")
    digest = sha256(Path(treebank).read_bytes()).hexdigest()
    assert result["treebanks"] == {treebank: {"sha256": digest, "commit": None, "release": None}}

    assert main(["evaluate", model, treebank]) == 0
    assert "LAS               100.00" in capsys.readouterr().out
    assert main(["evaluate", model, treebank, "--json", "--no-punct"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert {"uas", "las", "clas", "exact"} <= scores.keys()
    assert scores["scored_words"] == 32

    rows = "# a comment\n1\tdogs\t_\tNOUN\t_\t_\t{}\t_\tkept=1\n2\tbark\t_\tVERB\t_\t_\t{}\t_\t_\n\n"
    bare, out = tmp_path / "bare.conllu", tmp_path / "out.conllu"
    bare.write_text(rows.format("_\t_", "_\t_"))
    assert main(["parse", model, str(bare), "-o", str(out)]) == 0
    assert out.read_text() == rows.format("2\tnsubj", "0\troot")
    assert main(["parse", model, str(bare), "-o", str(out), "--probabilities"]) == 0
    misc = [line.split("\t")[-1] for line in out.read_text().splitlines() if line[:1].isdigit()]
    assert misc[0].startswith("kept=1|ArcProbability=0.")
    assert misc[1].startswith("ArcProbability=")

    assert main(["compare", model, model, treebank]) == 0
    assert "no significant difference: LAS of B - A is +0.00" in capsys.readouterr().out


def test_parse_reads_standard_input_and_writes_standard_output():
    text = Path(MODEL, "parsed.conllu").read_bytes()
    command = [sys.executable, "-m", "parser", "parse", MODEL, "-", "--tags=all"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, text), done.stderr


def test_numpy_computes_in_one_thread(tmp_path):
    code = (
        "import os, sys, threading; from parser.__main__ import program; assert program() == 0;"
        "sys.exit(len(os.listdir('/proc/self/task')) - threading.active_count())"
    )
    command = ["parse", MODEL, str(Path(MODEL, "parsed.conllu")), "-o", str(tmp_path / "out")]
    variables = {name: value for name, value in os.environ.items() if name != BLAS_THREADS}
    done = subprocess.run(
        [sys.executable, "-c", code, *command, "--device", "cpu"],
        env={**variables, "STACK_PARSER_KERNELS": "numpy"},
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.extended
@pytest.mark.parametrize("number", first_of([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
def test_parsing_that_is_broken_off_leaves_nothing(run, tmp_path, number):
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "parser", "parse", str(run / "model"), "-", "-o", str(out / "parsed")]
    with running(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until(lambda: any(out.iterdir()), process)
        process.send_signal(number)
        assert process.wait() == 128 + number
        assert process.stderr.read() == b"interrupted\n"
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("where", first_of([".", "mine", None]))
def test_a_run_leaves_its_folder_alone_in_the_working_directory(config_file, tmp_path, monkeypatch, where):
    """where: the folder; without one, it is named after the config."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    named = ["--run", where] if where else []
    assert main(["train", str(config_file), *named, "--set", "training.epochs=1"]) == 0
    folder = Path(where or "runs/tiny")
    files = {"config.yaml", "checkpoint.safetensors", "lock", "metrics.jsonl", "model", "result.json"}
    assert {path.name for path in folder.iterdir()} == {*files, "tensorboard", "curves.svg"}
    parts = {
        "columns.json",
        "constraints.json",
        "scores.json",
        "settings.json",
        "vocabulary.json",
        "weights.safetensors",
    }
    assert {path.name for path in (folder / "model").iterdir()} == parts
    assert where == "." or os.listdir(".") == [folder.parts[0]]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "tiny.conllu", "tiny.yaml"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "no/such.yaml"], "no/such.yaml: No such file"),
        (["check", "no/such.conllu"], "no/such.conllu: No such file"),
        (["evaluate", "no/such/model", "data/quickstart/dev.conllu"], "no/such/model: there is no such file"),
        (["evaluate", "no/such/model", "x", "--device", "cuda:99"], "device 'cuda:99': "),
        (["evaluate", "no/such/model", "x", "--device", "toaster"], "write cpu, cuda"),
        (["evaluate", "no/such/model", "x", "--device", "mps"], "write cpu, cuda"),
    ],
)
def test_what_a_user_did_ends_with_a_message_and_exit_code_2(arguments, message, capsys):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A working folder with a model, a config, treebanks, and a link to itself."""
    shutil.copytree(MODEL, tmp_path / MODEL)
    shutil.copytree("data/quickstart", tmp_path / "corpus")
    (tmp_path / "ud/UD_Toy-Few").mkdir(parents=True)
    shutil.copy("data/quickstart/dev.conllu", tmp_path / "trees.conllu")
    (tmp_path / "trees.yaml").write_text("treebank: {train: trees.conllu, dev: trees.conllu}\n")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["train", "trees.yaml", "--run", "loop"],
        ["train", "trees.yaml", "--run", "run", "--from", "loop"],
        ["train", "loop"],
        ["evaluate", "loop", "trees.conllu"],
        ["evaluate", MODEL, "trees.conllu", "--report", "loop"],
        ["parse", "loop", "trees.conllu"],
        ["parse", MODEL, "loop"],
        ["parse", MODEL, "trees.conllu", "-o", "loop"],
        ["parse", MODEL, "trees.conllu", "-o", "loop/out"],
        ["parse-corpus", MODEL, "loop", "out"],
        ["parse-corpus", MODEL, "corpus", "loop"],
        ["select", MODEL, "trees.conllu", "-o", "loop"],
        ["serve", "loop"],
        ["draw", "trees.conllu", "-o", "loop"],
        ["compare", "loop", MODEL, "trees.conllu"],
        ["compare", MODEL, MODEL, "trees.conllu", "--report", "loop"],
        ["pack", "loop"],
        ["pack", MODEL, "-o", "loop"],
        ["check", "loop"],
        ["table", "loop"],
        ["train-all", "loop", "trees.yaml", "-o", "out"],
        ["models", "loop"],
        ["speed", "loop"],
        ["plots", "loop"],
    ],
    ids=" ".join,
)
def test_a_link_to_itself_is_an_error_of_the_user(command, files, capsys):
    assert main(command) == 2
    told = [line for line in capsys.readouterr().err.splitlines() if "loop" in line]
    assert re.search("symbolic links|is no folder|holds no speed run|not a model", told[-1])
    assert (files / "loop").is_symlink()


UNREADABLE = "/proc/self/mem"
"""A file that can be opened, and whose first byte cannot be read, as on a disk that fails."""


@pytest.mark.parametrize(
    "command",
    [
        ["check", UNREADABLE],
        ["draw", UNREADABLE, "--text"],
        ["parse", MODEL, UNREADABLE],
        ["parse", MODEL, UNREADABLE, "--tokenized"],
        ["parse", MODEL, UNREADABLE, "--processes", "2"],
        ["train", UNREADABLE],
        ["table", UNREADABLE],
        ["speed", UNREADABLE],
        ["serve", MODEL, "--token-file", UNREADABLE],
        ["train-all", "ud", "trees.yaml", "-o", "out", "--published", UNREADABLE],
        ["train", "trees.yaml", "--set", f"treebank.train={UNREADABLE}"],
        ["train", "trees.yaml", "--set", f"parser.network.pretrained={UNREADABLE}"],
    ],
    ids=" ".join,
)
def test_a_file_that_fails_is_named(command, files, capsys):
    assert main(command) == 2
    assert f"{UNREADABLE}: Input/output error\n" in capsys.readouterr().err


def test_an_error_of_a_disk_may_be_one_of_reading_or_writing():
    assert message_of(OSError(EIO, "Input/output error")) == ["reading or writing: Input/output error"]
    assert message_of(OSError(ENOSPC, "No space left")) == ["writing the output: No space left"]


@pytest.mark.parametrize("command", [["train"], ["table"], ["speed"], ["train-all", "folder", "-o", "out"]])
@pytest.mark.parametrize(
    ("config", "fault"), [("-", "standard input cannot be a config"), ("", "argument CONFIG: is empty")]
)
def test_a_config_is_a_file(command, config, fault, capsys):
    with pytest.raises(SystemExit) as exit_code:
        main([*command, config])
    assert exit_code.value.code == 2
    assert f"{fault}; give the name of a file" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["train", "test"])
def test_a_missing_treebank_is_found_before_training(key, config_file, tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["train", str(config_file), "--run", str(run), "--set", f"treebank.{key}=no/such"]) == 2
    assert "no/such: No such file" in capsys.readouterr().err
    assert not run.exists()


@pytest.mark.parametrize(
    "command",
    [
        "parse {run} data/quickstart/dev.conllu",
        "evaluate {run} data/quickstart/dev.conllu",
        "compare tests/model {run} data/quickstart/dev.conllu",
        "pack {run}",
        "parse-corpus {run} data/quickstart {run}.out --text",
    ],
)
def test_the_folder_of_a_run_in_place_of_its_model_is_told(tmp_path, command, capsys):
    run = tmp_path / "af"
    shutil.copytree(MODEL, run / "model")
    assert main(command.format(run=run).split()) == 2
    assert capsys.readouterr().err.endswith(f"; did you mean {run}/model?\n")


@pytest.mark.extended
def test_each_epoch_but_the_last_says_how_long_the_rest_takes(config_file, tmp_path, capsys):
    run = ["train", str(config_file), "--run", str(tmp_path / "run"), "--set", "training.epochs=3"]
    assert main(run) == 0
    epochs = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epoch ")]
    assert [" left" in line for line in epochs] == [True, True, False]
    patience = ["--set", "training.early_stopping_patience=9"]
    assert main([*run, *patience]) == 0
    assert "at most" in capsys.readouterr().out


@pytest.mark.extended
def test_more_epochs_are_advised_for_few_steps(run, config_file, tmp_path, capsys):
    """If training starts with random weights."""
    command = ["train", str(config_file), "--run", str(tmp_path / "other"), "--set", "training.epochs=1"]
    advice = "more epochs may help much, such as --set training.epochs=200"
    assert main(command) == 0
    assert advice in capsys.readouterr().out
    for options in (
        ["--resume"],
        ["--from", str(run / "model")],
        ["--set", "training.early_stopping_patience=1", "--set", "training.epochs=125"],
    ):
        assert main([*command, *options]) == 0
        assert "more epochs" not in capsys.readouterr().out


@pytest.mark.extended
def test_a_run_to_resume_is_named_once(run, tmp_path, capsys):
    other = str(tmp_path / "other")
    for resumed in (["--resume", str(run)], ["--resume", "--run", str(run)]):
        (tmp_path / "other").mkdir(exist_ok=True)
        assert main(["train", other, *resumed]) == 2
        assert f"{other} and {run}: are two runs; name the one that goes on" in capsys.readouterr().err
    assert main(["train", "configs/quickstrat.yaml", "--resume"]) == 2
    assert "configs/quickstrat.yaml: No such file or directory" in capsys.readouterr().err


@pytest.mark.extended
def test_a_second_run_keeps_the_first(run, config_file, capsys):
    first = (run / "model" / "weights.safetensors").read_bytes()
    arguments = ["train", str(config_file), "--run", str(run), "--set", "training.seed=2"]
    assert main([*arguments, "--set", "treebank.train=no/such"]) == 2
    assert (run / "model" / "weights.safetensors").read_bytes() == first  # nothing was started
    assert main(arguments) == 0
    assert f"it is now {run}.1" in capsys.readouterr().out
    assert (run.with_name("run.1") / "model" / "weights.safetensors").read_bytes() == first


def test_a_failed_parse_leaves_the_output_as_it_was(tmp_path, capsys):
    out = tmp_path / "out.conllu"
    out.write_text("precious")
    faulty = tmp_path / "faulty.conllu"
    faulty.write_text("1\ta\n\n")
    for source in ("no/such", str(faulty)):
        assert main(["parse", MODEL, source, "-o", str(out)]) == 2
        assert out.read_text() == "precious"
        assert not list(tmp_path.glob(".out*"))
    assert "2 columns instead of 10" in capsys.readouterr().err


@pytest.mark.extended
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path, run):
    many = tmp_path / "many.conllu"
    many.write_text((tmp_path / "tiny.conllu").read_text() * 200)
    command = [sys.executable, "-m", "parser", "parse", str(run / "model"), str(many)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0


def test_interrupted(monkeypatch, config_file, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("parser.training.data.load", interrupt)
    assert main(["train", str(config_file)]) == 130


def test_help_describes_every_argument():
    parser = argument_parser()
    [commands] = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    for name, command in commands.items():
        for action in command._actions:
            assert action.help, (name, action.dest)
    speed = " ".join(commands["speed"].format_help().split())
    settings = SpeedConfig.model_fields.keys() | Experiment.model_fields.keys()
    assert [name for name in settings if not re.search(rf"\b{name}\b", speed)] == []


@pytest.fixture(params=first_of(["", "\n\n", "\ufeff\n"]), ids=["empty", "blank lines", "byte-order mark"])
def empty(request, tmp_path):
    path = tmp_path / "empty.conllu"
    path.write_text(request.param)
    return str(path)


@pytest.mark.parametrize("options", first_of([[], ["--tokenized"], ["--processes", "2"]], 2))
def test_parsing_nothing_gives_nothing(empty, options, tmp_path, capsys):
    out = tmp_path / "out.conllu"
    assert main(["parse", MODEL, empty, "-o", str(out), *options]) == 0
    assert out.read_bytes() == b""
    assert capsys.readouterr() == ("", f"warning: {empty}: no sentences\n")


@pytest.mark.parametrize(
    "command",
    [
        ["check"],
        ["draw", "--text"],
        ["draw", "-o", "never.html"],
        ["evaluate", MODEL],
        *extended((["evaluate", MODEL, "--processes", "2"],)),
        ["compare", MODEL, MODEL],
    ],
    ids=" ".join,
)
def test_nothing_has_no_trees_and_no_scores(empty, command, capsys):
    assert main([*command, empty]) == 2
    assert capsys.readouterr() == ("", f"{empty}: no sentences\n")


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("data/ud/UD_Afrikaans-AfriBooms/x.conllu", "make data TREEBANK=UD_Afrikaans-AfriBooms "),
        ("/a b/ud/UD_Old-A/x.conllu", "make data TREEBANK=UD_Old-A ARGUMENTS=\"--into '/a b/ud'\" "),
        *((other, "") for other in ("x.conllu", "data/ud/x.conllu", "UD_x", "/UD_My treebank/x.conllu", "/")),
    ],
)
def test_treebanks_of_universal_dependencies_are_downloaded(path, command, monkeypatch):
    monkeypatch.delenv("PARSER_DATA", raising=False)
    assert command in how_to_get(path)
    assert bool(command) == bool(how_to_get(path))


def test_a_config_with_a_missing_treebank(config_file, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PARSER_DATA", raising=False)
    folder = tmp_path / "data/ud/UD_Wolof-WTB"
    treebank = "treebank.dev=${PARSER_DATA}/ud/UD_Wolof-WTB/wo_wtb-ud-dev.conllu"
    command = ["train", str(config_file), "--run", "run", "--set", treebank]
    assert main(command) == 2
    assert "make data TREEBANK=UD_Wolof-WTB " in capsys.readouterr().err
    folder.mkdir(parents=True)
    (folder / "wo_wtb-ud-test.conllu").touch()
    assert main(command) == 2
    assert "data/ud/UD_Wolof-WTB has wo_wtb-ud-test.conllu\n" in capsys.readouterr().err
