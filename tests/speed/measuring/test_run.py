"""Whole runs, as a user starts them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

import pytest
import torch
import yaml
from programs import is_running, running, wait_until
from speed_rows import speed_row

from parser.batching.functional import why_unsupported
from parser.cli import main
from parser.commands.speed import read_config
from parser.speed.measuring.rows import CellRow, FailedRow, RowFile, SpeedRow
from parser.speed.measuring.run import kept_rows, measure_cells
from parser.system.files import file_lock
from parser.system.machine import processor

CONFIG = """
experiments:
  toy:
    plugin: toy
    methods: [none, good, wrong, absent]
    modes: [train, infer]
    batch_sizes: {{none: [1], good: [1, 4, 64], wrong: [4], absent: [4]}}
    settings: {{count_runs_in: {counts}}}
devices: [cpu]
seconds: 0.1
relative_error: 10
turn: 0.02
warmup: 0.01
"""


@pytest.fixture
def config(toys, tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(CONFIG.format(counts=tmp_path / "counts"))
    return path


@pytest.fixture
def run(tmp_path):
    """The folder of the run."""
    return tmp_path / "run"


@pytest.fixture
def measure(config, run):
    """Measures into that folder: the exit status. only: of `--only`."""

    def start(only="", *options):
        chosen = ["--only", only] if only else []
        return main(["speed", str(config), "--run", str(run), *chosen, *options])

    return start


def rows(run):
    whole_lines = (run / "rows.jsonl").read_text().rpartition("\n")[0]
    return [json.loads(line) for line in whole_lines.splitlines()]


def prepared(tmp_path):
    """The cells that were prepared since the last call."""
    counts = tmp_path / "counts"
    lines = counts.read_text().splitlines() if counts.exists() else []
    counts.unlink(missing_ok=True)
    return sorted(lines)


@pytest.mark.extended
def test_a_run_from_config_to_report(measure, run, tmp_path, capsys):
    assert measure("", "--ratio", "method=good/method=good,batch_size=1") == 2
    printed, errors = capsys.readouterr()
    of_wrong = errors[errors.index("not the results without batching") :].splitlines()
    assert of_wrong[1].startswith("toy: wrong at 4, train, cpu: wrong: result 0 is ")
    assert len(of_wrong) == 2
    lines = [line for line in errors.splitlines() if line.startswith("cell ")]
    assert lines[0] == "cell 1 of 10: toy: none at 1, train, cpu"
    assert len(lines) == 10
    assert printed.startswith("the machine is ")
    assert "toy, train, cpu: good at 64 / good at 1 = " in printed
    assert "(measured in turns)" in printed
    assert f"report: {run}/report.html" in printed
    found = {(row["mode"], row["method"], row["batch_size"]): row["status"] for row in rows(run)}
    failed = [key for key, status in found.items() if status != "ok"]
    assert failed == [("train", "wrong", 4), ("train", "absent", 4)]
    assert len(found) == 10
    assert prepared(tmp_path)

    report = (run / "report.md").read_text()
    for expected in ("| good | 64 |", "wrong at 4: wrong: result 0", "| wrong | 4 | wrong |"):
        assert expected in report
    page = (run / "report.html").read_text()
    assert page.count("<svg") == 8
    assert not any(outside in page for outside in ('src="', "<link", "@import", "<script"))
    for plot in (run / "plots").iterdir():
        text = plot.read_text()
        ElementTree.fromstring(text)
        assert "wrong" not in text
    assert any("tfevents" in name.name for name in (run / "tensorboard").iterdir())

    assert measure() == 2
    # What was measured is not measured again; what failed is tried again.
    assert prepared(tmp_path) == ["none 1 train", "wrong 4 train"]
    assert main(["plots", str(run)]) == 0
    assert (run / "report.html").read_text().count("<svg") == page.count("<svg")
    # It can be drawn into another folder, and nothing changes in the run.
    kept, elsewhere = sorted(run.rglob("*")), tmp_path / "paper" / "figures"
    names = {path.stem for path in (run / "plots").iterdir()}
    for form in ("svg", "pdf"):
        assert main(["plots", str(run), "-o", str(elsewhere), "--format", form]) == 0
        assert {path.stem for path in (elsewhere / "plots").glob(f"*.{form}")} == names
    assert (elsewhere / "report.html").is_file()
    assert sorted(run.rglob("*")) == kept


@pytest.mark.extended
def test_only_some_cells_and_later_the_others(measure, run, tmp_path):
    assert measure("method=good,batch_size=1|4,mode=train") == 0
    assert {(row["method"], row["batch_size"]) for row in rows(run)} == {("good", 1), ("good", 4)}
    # Results must equal those of `none`.
    assert prepared(tmp_path) == ["good 1 train", "good 4 train", "none 1 train", "none 4 train"]
    assert measure("method=good") == 0
    assert "good 1 train" not in prepared(tmp_path)
    assert len(rows(run)) == 6


def test_a_run_in_parts(config, run, tmp_path, capsys):
    assert measure_cells(read_config(config), run, "method=good,mode=train", minutes=0) == []
    assert "stopped after 0 minutes; 3 cells are left" in capsys.readouterr().out
    assert not prepared(tmp_path)


@pytest.mark.extended
def test_rows_of_one_folder_are_measured_alike(measure, run, capsys):
    only = "method=good,mode=train"
    assert measure(only) == 0
    before = (run / "config.yaml").read_text()
    again = f"stack-parser speed THIS_FOLDER/config.yaml --run ANOTHER_FOLDER --only {only}"
    assert again in (run / "report.md").read_text()
    assert measure(only, "--set", "seconds=0.2") == 2
    assert "seconds: 0.1, not 0.2" in capsys.readouterr().err
    assert (run / "config.yaml").read_text() == before


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("colour=red", "the keys are experiment, plugin, mode"),
        ("method=excellent", "no cell has method=excellent; available: none, good, wrong, absent"),
        ("method=wrong,batch_size=64", "no cell of the config passes all of --only"),
        ("method=good,method=wrong", "method is there twice; write method=VALUE|VALUE"),
    ],
)
def test_conditions_that_no_cell_meets(measure, capsys, only, message):
    assert measure(only) == 2
    assert message in capsys.readouterr().err


def test_folders_of_others_are_left_alone(config, run, tmp_path, capsys):
    """Including a config that is measured, which would be replaced by one with all defaults."""
    other = tmp_path / "other"
    run.mkdir()
    with file_lock(run / "lock", ""):
        assert main(["speed", str(config), "--run", str(run)]) == 2
    assert f"{run}: another process measures there" in capsys.readouterr().err
    (run / "config.yaml").write_text(CONFIG.format(counts="counts"))
    (other / "tensorboard").mkdir(parents=True)
    assert main(["plots", str(run), "-o", str(other)]) == 2
    assert "holds something that is not a run; choose another folder with -o" in capsys.readouterr().err
    assert (other / "tensorboard").is_dir()
    (tmp_path / "theirs").mkdir()
    theirs = config.rename(tmp_path / "theirs" / "config.yaml")
    before = theirs.read_text()
    assert main(["speed", str(theirs), "--run", str(theirs.parent)]) == 2
    assert "theirs: holds something that is not a run; choose another folder" in capsys.readouterr().err
    assert [path.read_text() for path in theirs.parent.iterdir()] == [before]
    assert main(["plots", str(tmp_path)]) == 2
    assert "holds no speed run" in capsys.readouterr().err


@pytest.mark.extended
def test_cells_that_failed_are_tried_again(measure, run, tmp_path, capsys):
    methods = ["broken", "deadly", "hungry", "absent"]
    options = ["--set", f"experiments.toy.methods={methods}", "--set", "experiments.toy.batch_sizes=[4]"]
    assert measure("mode=train", *options) == 2
    printed, errors = capsys.readouterr()
    assert "no report is written. All cells failed; rows.jsonl has the tracebacks:\nerror: Zero" in errors
    assert "report:" not in printed
    statuses = {row["method"]: row["status"] for row in rows(run)}
    assert statuses["broken"] == "error: ZeroDivisionError: the toy is broken"
    assert statuses["deadly"].startswith("error: killed")
    assert statuses["hungry"] == "out of memory"
    assert statuses["absent"] == "skipped: nobody has it"
    assert "the toy is broken" in rows(run)[0]["traceback"]
    prepared(tmp_path)
    assert measure("mode=train", *options) == 2
    assert {line.split()[0] for line in prepared(tmp_path)} == {"broken", "deadly", "hungry"}


@pytest.mark.extended
def test_a_run_that_was_killed_goes_on(measure, config, run, toys, tmp_path):
    command = [sys.executable, "-m", "parser", "speed", str(config), "--run", str(run)]
    command += ["--only", "method=good|none", "--set", "together=1"]
    environment = {**os.environ, "PYTHONPATH": str(toys)}
    with running(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: (run / "rows.jsonl").exists() and bool(rows(run)), process)
        process.kill()
        process.wait()
        while is_running(process.pid):  # its cells end when they notice that it is gone
            time.sleep(0.05)
    measured = {(row["mode"], row["method"], row["batch_size"]) for row in rows(run)}
    assert measured
    prepared(tmp_path)
    assert measure("method=good|none") == 0
    again = {(mode, method, int(size)) for method, size, mode in map(str.split, prepared(tmp_path))}
    assert not (again - {("train", "none", 1), ("infer", "none", 1)}) & measured
    assert len(rows(run)) == 8


@pytest.mark.extended
def test_an_interrupted_run_ends_its_processes(config, run, toys, tmp_path):
    command = [
        sys.executable,
        "-m",
        "parser",
        "speed",
        str(config),
        "--run",
        str(run),
        "--set",
        "seconds=100",
    ]
    environment = {**os.environ, "PYTHONPATH": str(toys)}
    with running(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        wait_until((tmp_path / "counts").exists, process)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate()
        assert process.returncode == 130
        assert b"Traceback" not in errors
        while is_running(process.pid):
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "experiments.toy.plugin=unheard",
            "no plugin is called 'unheard'; installed are bilstm_char_tagger,",
        ),
        ("experiments.toy.plugin=unimportable", "cannot be imported: ModuleNotFoundError"),
        ("experiments.toy.plugin=leaving", "cannot be imported: SystemExit: not today"),
        ("experiments.toy.methods=[leap]", "toy has no method 'leap' here; known are none, good"),
        ("experiments.toy.settings={colour: red}", "experiments.toy.settings.colour: unknown key"),
        ("experiments.toy.batch_sizes.good=[0]", "experiments.toy.batch_sizes.good: input should be greater"),
        ("experiments.toy.sizes=[3]", "experiments.toy.sizes: unknown key; did you mean batch_sizes?"),
        ("devices=[toaster]", "device 'toaster'"),
        ("experiments={}", "experiments: there is nothing to measure: name some here, or in `external`"),
    ],
)
def test_wrong_configs(measure, run, capsys, change, message):
    assert measure("", "--set", change) == 2
    assert message in capsys.readouterr().err
    assert not run.exists()


@pytest.mark.extended
def test_a_plugin_of_a_module_is_measured_and_one_that_is_not_there_is_skipped(config, measure, run, capsys):
    text = config.read_text().replace("plugin: toy", "plugin: 'toys:Toy'")
    config.write_text(text.replace("devices:", "  absent: {plugin: unheard}\ndevices:"))
    assert measure("method=good|none,mode=train") == 0
    assert "experiments.absent is skipped: no plugin is called 'unheard'" in capsys.readouterr().out
    found = {(row["experiment"], row["plugin"], row["status"]) for row in rows(run)}
    assert found == {("toy", "toys:Toy", "ok")}


def test_a_run_whose_cells_are_all_skipped_has_no_report(measure, run, capsys):
    assert measure("method=absent") == 2
    captured = capsys.readouterr()
    assert "All cells are skipped:\nskipped: nobody has it\ndata are looked for in" in captured.err
    assert "report:" not in captured.out
    assert {path.name for path in run.iterdir()} == {"config.yaml", "lock", "rows.jsonl"}


def test_plugins_are_shown_with_their_settings(toys, capsys):
    assert main(["plugins", "toy"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("toy: no paper\nmethods of train: none, good, ")
    assert "\n  sentences: integer; default 40\n" in printed
    what = "      A file that gets a line for each process that is prepared.\n"
    assert f"\n  count_runs_in: string, or null; default null\n{what}" in printed
    assert main(["plugins", "recurrent_language_model"]) == 0  # some of its settings are groups
    printed = capsys.readouterr().out
    assert "\n  made: settings (below)\n" in printed
    assert "\nmade:\n  made.words: integer, at least 1; default 2000\n" in printed
    assert "\n  graph.connections.delay: integer, at least 0; default 0\n" in printed
    assert main(["plugins", "--check"]) == 2
    assert "--check needs a plugin" in capsys.readouterr().err


@pytest.mark.extended
def test_a_plugin_that_is_not_installed(toys, capsys):
    """The folder of its module is in `sys.path`, as with PYTHONPATH."""
    assert main(["plugins", "packed_gru:PackedGRU", "--check"]) == 0
    assert capsys.readouterr().out == "packed_gru:PackedGRU: no fault found\n"
    for plugin, message in (
        ("packed_gru:Absent", "'packed_gru:Absent' (packed_gru:Absent) cannot be imported: Attr"),
        ("absent", "One that is not installed is MODULE:CLASS, with its folder in PYTHONPATH"),
    ):
        assert main(["plugins", plugin]) == 2
        assert message in capsys.readouterr().err


def test_plugins_are_listed(toys, capsys):
    assert main(["plugins"]) == 0
    printed = capsys.readouterr().out
    assert re.search(
        r"^stack_parser +Ding & Koehn 2019.* train: none, step-naive, step, replay", printed, re.M
    )
    assert re.search("^packed_gru +an example", printed, re.M)
    assert "'unimportable' (toys_that_are_not_there:Toy) cannot be imported" in printed
    assert "'leaving' (leaves_when_imported:Toy) cannot be imported: SystemExit: not today" in printed


@pytest.mark.extended
def test_cells_of_two_precisions(config, measure, run, capsys):
    """Measured if the CPU supports bfloat16, and otherwise skipped with the reason."""
    reason = why_unsupported("bfloat16", torch.device("cpu"), processor())
    config.write_text(config.read_text() + "precisions: [float32, bfloat16]\n")
    ratio = "precision=bfloat16/precision=float32"
    status = measure("method=good,batch_size=4", "--ratio", ratio)
    printed = capsys.readouterr().out
    found = {(row["mode"], row["precision"]): row for row in rows(run)}
    assert found.keys() == {(mode, name) for mode in ("train", "infer") for name in ("float32", "bfloat16")}
    own = found["train", "bfloat16"]
    if reason is None:
        assert status == 0
        assert own["status"] == "ok"
        assert own["interleaved_group"] == found["train", "float32"]["interleaved_group"]
        assert own["ceiling"] != found["train", "float32"]["ceiling"]
        assert "good at 4 in bfloat16 / good at 4 in float32" in printed
    else:
        assert own["status"] == f"skipped: bfloat16: {reason}"


def test_kept_rows_have_the_order_of_the_config(tmp_path):
    rows = RowFile[CellRow](tmp_path / "rows.jsonl", SpeedRow, FailedRow)
    for method in ("replay", "other", "step", "none"):
        rows.add(speed_row(method=method))
    assert [row.method for row in kept_rows(tmp_path)] == ["replay", "other", "step", "none"]
    experiments = {"first": {"plugin": "unheard", "methods": ["none", "step", "replay"]}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({"experiments": experiments}))
    assert [row.method for row in kept_rows(tmp_path)] == ["none", "step", "replay", "other"]
