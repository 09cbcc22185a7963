"""Enhanced dependencies from training to the output of `parse`."""

import json

import conllu
import pytest

from parser import load
from parser.cli import main
from parser.models.loading import ModelChoice, load_models
from parser.treebank.conllu import read_treebank


@pytest.fixture
def config(config_file):
    """The tiny config, whose treebank has the tree in DEPS and a second edge of each subject."""
    treebank = config_file.parent / "tiny.conllu"
    text = treebank.read_text()
    for head, label in ((2, "nsubj"), (0, "root"), (2, "punct")):
        own = f"{head}:{label}"
        deps = own if label != "nsubj" else f"{own}|3:owner"
        text = text.replace(f"\t{head}\t{label}\t_\t_", f"\t{head}\t{label}\t{deps}\t_")
    treebank.write_text(text)
    return config_file


def train(config, run, *changes):
    return main(["train", str(config), "--run", str(run), *(f"--set={change}" for change in changes)])


def deps(path):
    return [
        line.split("\t")[8]
        for sentence in read_treebank(str(path))
        for line in sentence.lines
        if "\t" in line
    ]


def test_what_train_has_is_predicted_and_scored(config, tmp_path, capsys):
    run, treebank, output = tmp_path / "run", config.parent / "tiny.conllu", tmp_path / "out.conllu"
    assert train(config, run, "parser.enhanced=true") == 0
    assert "enhanced dependencies learned: 1 paths of added edges" in capsys.readouterr().out
    bare = tmp_path / "bare.conllu"
    assert main(["parse", str(run / "model"), str(treebank), "--deps", "drop", "-o", str(bare)]) == 0
    assert set(deps(bare)) == {"_"}
    assert main(["parse", str(run / "model"), str(bare), "-o", str(output)]) == 0
    assert deps(output) == deps(treebank)
    capsys.readouterr()
    assert main(["evaluate", str(run / "model"), str(treebank), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert scores["elas"] == scores["eulas"] == 100
    assert main(["evaluate", str(run / "model"), str(treebank)]) == 0
    assert "ELAS              100.00  enhanced dependencies with" in capsys.readouterr().out


def test_trees_in_python_have_them(config, tmp_path):
    run = tmp_path / "run"
    assert train(config, run, "parser.enhanced=true") == 0
    trained = load(str(run / "model"))
    tree = trained.parse(["dogs", "bark", "."], upos=["NOUN", "VERB", "PUNCT"])
    assert tree.enhanced == (((2, "nsubj"), (3, "owner")), ((0, "root"),), ((2, "punct"),))
    assert tree.to_conllu().splitlines()[0].split("\t")[8] == "2:nsubj|3:owner"
    rows = (
        "1\tdogs\t_\tNOUN\t_\t_\t0\troot\t2.1:x\t_\n2\tbark\t_\tVERB\t_\t_\t1\tx\t_\t_\n2.1\tof" + "\t_" * 8
    )
    [given] = conllu.parse(rows + "\n\n")
    [one, two] = trained.parse(given)
    assert two["deps"] == [("root", 0)]
    assert one["deps"] == [("nsubj", 2)]


def test_a_finished_run_can_get_them_and_lose_them(config, tmp_path):
    run = tmp_path / "run"
    assert train(config, run, "training.epochs=1") == 0
    for wanted in ("true", "false"):
        assert main(["train", "--resume", str(run), f"--set=parser.enhanced={wanted}"]) == 0
        model = load_models(ModelChoice((run / "model",)))
        assert (model.transducer is not None, model.settings.enhanced) == (wanted == "true",) * 2


def test_a_package_can_get_them(config, tmp_path, capsys):
    run, packed, with_them = tmp_path / "run", tmp_path / "a.stackparser", tmp_path / "b.stackparser"
    treebank, output = config.parent / "tiny.conllu", tmp_path / "out.conllu"
    assert train(config, run) == 0
    assert main(["pack", str(run / "model"), "-o", str(packed)]) == 0
    assert main(["pack", str(packed), "--learn-from", str(treebank), "-o", str(with_them)]) == 0
    assert main(["parse", str(with_them), str(treebank), "-o", str(output)]) == 0
    assert deps(output) == deps(treebank)
    bare = tmp_path / "bare.conllu"
    bare.write_text("1\tgo\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n")
    capsys.readouterr()
    without = tmp_path / "c.stackparser"
    assert main(["pack", str(packed), "--learn-from", str(bare), "-o", str(without)]) == 0
    told = capsys.readouterr().out
    assert "bare.conllu: DEPS has nothing but trees, so no enhanced dependencies are learned\n" in told
    assert "constraints learned: 0 pairs" in told
    bare.write_text(bare.read_text().replace("root\t_", "root\t9:root"))
    assert main(["pack", str(packed), "--learn-from", str(bare), "-o", str(without)]) == 2
    assert "bare.conllu: line 1: DEPS: there is no word 9" in capsys.readouterr().err
    assert main(["pack", str(packed), "--learn-from", str(treebank), "-o", str(treebank)]) == 2
    assert treebank.read_text().startswith(("#", "1\t"))
    assert load_models(ModelChoice((without,))).transducer is None


def test_a_treebank_without_them_is_refused_before_training(config_file, tmp_path, capsys):
    assert train(config_file, tmp_path / "run", "parser.enhanced=true") == 2
    assert (
        "tiny.conllu: no word has a value in DEPS, from which parser.enhanced could"
        in capsys.readouterr().err
    )
    treebank = config_file.parent / "tiny.conllu"
    text = treebank.read_text()
    for deps, fault in ("here", "'here' is not HEAD:LABEL"), ("99:nsubj", "there is no word 99"):
        treebank.write_text(text.replace("\tnsubj\t_", f"\tnsubj\t{deps}", 1))
        assert train(config_file, tmp_path / "run", "parser.enhanced=true") == 2
        assert f"tiny.conllu: line 2: DEPS: {fault}" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_broken_file_is_named(config, tmp_path, capsys):
    run = tmp_path / "run"
    assert train(config, run, "parser.enhanced=true", "training.epochs=1") == 0
    (run / "model" / "enhanced.json").write_text("{}")
    capsys.readouterr()
    assert main(["parse", str(run / "model"), str(config.parent / "tiny.conllu")]) == 2
    assert "enhanced.json" in capsys.readouterr().err
