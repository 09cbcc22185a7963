"""Training on all treebanks of a folder: results, failures, and continuing after a kill."""

import json
import shutil
import socket
import sys

import psutil
import pytest
import yaml
from programs import children_of, running, wait_until
from ud_folders import HEAD, LEMMA, blanked, make_treebank, sentences

from parser import load
from parser.cli import main
from parser.models.model_files import Package
from parser.tables import model_card
from parser.training.config import Config

OTHERS = {"raw text": {"las": 12.3}, "gold tokens": {"uas": 45.6}}
TRAIN, DEV, TEST = sentences("train", 40), sentences("dev", 8), sentences("test", 8)
CONFIG = """
treebank: {train: x, dev: x}
parser:
  network:
    word_size: 8
    tag_sizes: {}
    characters: {size: 4, filters: 4}
    tags: {predict: [upos, lemma]}
    token_size: 12
    hidden_size: 16
    layers: 1
training:
  epochs: 2
  batch_size: 8
  learning_rate: {start: 1e-2, peak: 1e-2, warmup_epochs: 1}
tokenizer: {kind: blanks}
small_treebank: {words: 100, steps: 6, set: {parser.network.hidden_size: 6}}
device: cpu
"""


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "toys.yaml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def folder(tmp_path):
    """A folder of two treebanks, one of which lacks much."""
    make_treebank(tmp_path / "ud", "UD_Old_Toy-Whole", train=TRAIN, dev=DEV, test=TEST)
    make_treebank(tmp_path / "ud", "UD_Toy-Few", train=blanked(sentences("train", 20), LEMMA))
    return tmp_path / "ud"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture
def made(folder, config, out):
    """A function that runs `train-all` with options, and returns its exit code."""
    return lambda *options: main(["train-all", str(folder), str(config), "-o", str(out), *options])


def rows_of(out):
    return [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()]


@pytest.mark.extended
def test_a_treebank_goes_on_from_the_parser_of_another(made, config, out, tmp_path, capsys):
    """That parser's network is kept: it predicts lemmas, although the treebank has none."""
    assert made("--only", "UD_Old_Toy-Whole") == 0
    first = out / "old_toy-whole.stackparser"
    config.write_text(f"{CONFIG}initial_model: {first}\n")
    assert made("-o", str(tmp_path / "second"), "--only", "UD_Toy-Few") == 0
    assert "LEMMA" not in capsys.readouterr().out
    few = tmp_path / "second/toy-few.stackparser"
    assert load(few).parse(["Cats", "sleep"]).lemmas
    card = Package(few).content("README.md").decode()
    assert "old_toy-whole, under cc-by-sa-4.0." in card
    assert str(tmp_path) not in card
    assert made() == 2
    assert f"{first}, which is read" in capsys.readouterr().err


@pytest.mark.extended
def test_a_treebank_that_has_changed_needs_another_folder(folder, made, capsys):
    assert made("--only", "*-Few") == 0
    train = folder / "UD_Toy-Few/toy_few-ud-train.conllu"
    train.write_text(train.read_text().replace("\troot\t", "\troot:other\t"))
    assert made("--only", "*-Few") == 2
    assert "UD_Toy-Few was trained before" in capsys.readouterr().err


def cells(report, name):
    """The cells in a treebank's line of the report, by the titles of columns."""
    lines = [line.strip("| ").split(" | ") for line in report.splitlines() if line.startswith("|")]
    [found] = [line for line in lines if line[0] == name]
    return dict(zip(["", *lines[0]], found, strict=False))


def test_folders_that_cannot_be_used_are_told(config, tmp_path, out, capsys):
    ud = tmp_path / "ud"
    make_treebank(ud, "UD_Toy-Two", train=TRAIN, **{"dev-a": DEV, "dev-b": DEV})
    make_treebank(ud, "UD_Old Toy-Whole", train=TRAIN, dev=DEV)
    make_treebank(ud, "UD_Toy-PUD", test=TEST)
    train = ud / "UD_Toy-Loop/toy_loop-ud-train.conllu"
    train.parent.mkdir()
    train.symlink_to(train.name)  # which even root cannot read
    assert main(["train-all", str(ud), str(config), "-o", str(out)]) == 2
    told = {
        "UD_Old Toy-Whole": "its name is not of the form of UD_English-EWT",
        "UD_Toy-Two": "toy_two-ud-dev-a.conllu, toy_two-ud-dev-b.conllu: only train may be several files",
        "UD_Toy-Loop": f"{train}: Too many levels of symbolic links",
        "UD_Toy-PUD": "it has no train file",
    }
    written = capsys.readouterr()
    left_out = json.loads((out / "choices.json").read_text())["left_out"]
    assert left_out.keys() == told.keys()
    for name, why in told.items():
        assert why in left_out[name]
        assert f"{name}: left out: {left_out[name]}\n" in written.out
    assert "no treebank can be trained" in written.err


@pytest.mark.extended
def test_what_comes_out(folder, made, out, tmp_path, capsys):
    make_treebank(folder, "UD_Toy-PUD", test=TEST)
    published = {"name": "Other 1", "source": "here", "scores": {"UD_Old_Toy-Whole": OTHERS}}
    (tmp_path / "others.json").write_text(json.dumps(published))
    assert made("--processes", "2", "--published", str(tmp_path / "others.json")) == 0
    printed = capsys.readouterr().out
    assert "UD_Toy-Few: small, with 97 words: training.epochs 3, parser.network.hidden_size 6" in printed
    assert len(json.loads((out / "choices.json").read_text())["choices"]["UD_Toy-Few"]) == 4

    report = (out / "report.md").read_text()
    assert "**UD_Toy-Few**: no dev: the last 5 of 20 sentences of train" in report
    assert "UD_Toy-PUD" in (out / "report.html").read_text()
    rows = {row["name"]: row for row in rows_of(out)}
    whole = rows["UD_Old_Toy-Whole"]
    assert f" | {whole['text']['las']:.2f} | " in report
    assert f" | {whole['test']['las']:.2f} ± {whole['test']['las_error']:.2f} | " in report
    assert rows["UD_Toy-Few"]["config"]["parser"]["network"]["tags"]["predict"] == ["upos"]
    assert cells(report, "UD_Old_Toy-Whole")["raw text: LAS, Other 1"] == "12.30"

    entries = {entry["name"]: entry for entry in json.loads((out / "models.json").read_text())["models"]}
    assert entries.keys() == {"old_toy-whole", "toy-few"}
    few = entries["toy-few"]
    assert few["bytes"] == (out / few["file"]).stat().st_size
    assert (few["training_sentences"], few["licence"], few["language"]) == (15, "CC BY-SA 4.0", "Toy")
    assert [score["on"] for score in few["scores"]] == ["dev"]
    raw, gold = entries["old_toy-whole"]["scores"]
    assert "las_error" not in raw
    assert gold["las_error"] == whole["test"]["las_error"]

    assert main(["models", str(out)]) == 0
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("old_toy-whole ")]
    assert f"{whole['text']['las']:.2f}" in line
    assert line.endswith("cc-by-sa-4.0")
    tree = load("Old Toy", folder=out).parse_text("The cat sleeps .")[0]
    assert len(tree.heads) == 4


@pytest.mark.extended
def test_a_treebank_of_few_sentences_is_trained_without_dev(folder, made, out):
    make_treebank(folder, "UD_Toy-Dozen", train=sentences("train", 12), test=TEST)
    assert made("--only", "*-Dozen") == 0
    [row] = rows_of(out)
    assert row["dev"] is None
    assert row["config"]["treebank"]["train"].endswith("UD_Toy-Dozen/toy_dozen-ud-train.conllu")
    assert cells((out / "report.md").read_text(), "UD_Toy-Dozen")["raw text: LAS"] != ""
    card = Package(out / "toy-dozen.stackparser").content("README.md").decode()
    assert "weights; the last epoch, without dev\n" in card
    assert made("--only", "*-Dozen") == 0
    assert len(rows_of(out)) == 1


@pytest.mark.extended
def test_a_model_of_a_treebank_without_a_licence_is_not_given_away(folder, made, out, tmp_path, capsys):
    (folder / "UD_Toy-Few" / "README.md").unlink()
    assert made("--only", "*-Few") == 0
    assert main(["pack", str(out / "toy-few.stackparser"), "--wheel", "-o", str(tmp_path / "dist")]) == 2
    assert "has no licence, so nobody else may use it" in capsys.readouterr().err
    assert main(["models", str(out)]) == 0


def test_the_licences_of_all_that_a_model_learnt_from_are_named(tmp_path):
    """For single models, and for all models of an ensemble."""
    for name, licences in (("a", ["MIT"]), ("b", ["LGPL-LR", "GPL-3.0"])):
        for number, licence in enumerate(licences, 1):
            member = tmp_path / name / "toy" / (f"model-{number}" if len(licences) > 1 else "")
            member.mkdir(parents=True)
            (member / "settings.json").write_text("{}")
            (member / "README.md").write_text(f"---\nlicense: {licence}\n---\n")
    teachers = [str(tmp_path / name / "toy") for name in "ab"]
    config = Config.model_validate(
        {"treebank": {"train": "x", "dev": "y"}, "training": {"distillation": {"models": teachers}}}
    )
    licence = model_card._licence("CC BY-SA 4.0", config)
    assert licence == {"license": "other", "license_name": "CC BY-SA 4.0 and MIT and LGPL-LR and GPL-3.0"}


@pytest.mark.extended
def test_the_card_of_a_model(made, out, tmp_path):
    assert made("--only", "*-Whole") == 0
    [row] = rows_of(out)
    package = Package(out / "old_toy-whole.stackparser")
    assert package.content("LICENSE.txt") == b"Share alike.\n"
    card = package.content("README.md").decode()
    _, front, text = card.split("---\n", 2)
    matter = yaml.safe_load(front)
    assert (matter["license"], matter["language"]) == ("cc-by-sa-4.0", ["old"])
    [model] = matter["model-index"]
    raw, gold = model["results"]
    for result, scores in ((raw, row["text"]), (gold, row["test"])):
        assert result["dataset"]["name"] == "UD_Old_Toy-Whole"
        assert result["dataset"]["split"] == "test"
        metrics = {metric["type"]: metric["value"] for metric in result["metrics"]}
        assert metrics.keys() >= {"uas", "las", "upos", "lemmas", "mlas", "blex", "clas"}
        assert all(metrics[name] == pytest.approx(scores[name], abs=0.006) for name in metrics)
    assert "raw text" in raw["task"]["name"]
    assert "gold tokens" in gold["task"]["name"]
    assert row["commit"] is None or row["commit"] in text
    for version in row["treebanks"].values():
        assert version["sha256"] in text
    assert "https://github.com/UniversalDependencies/UD_Old_Toy-Whole), by Writer, A; Writer, Another" in text
    assert str(tmp_path) not in card  # local folders are private
    settings = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    assert settings["training"]["epochs"] == 2


@pytest.mark.extended
def test_one_that_fails_does_not_end_the_others(folder, made, out, capsys):
    make_treebank(folder, "UD_Toy-Bad", train=TRAIN, dev=blanked(DEV, HEAD))
    assert made() == 2
    assert "UD_Toy-Bad, seed 1: failed: " in capsys.readouterr().err
    assert "Not trained, or not yet: UD_Toy-Bad." in (out / "report.md").read_text()
    assert {path.stem for path in out.glob("*.stackparser")} == {"old_toy-whole", "toy-few"}
    (folder / "UD_Toy-Bad/toy_bad-ud-dev.conllu").write_text(DEV)
    assert made() == 0
    assert capsys.readouterr().out.count("running in") == 1
    assert "Not trained" not in (out / "report.md").read_text()
    assert len(list(out.glob("*.stackparser"))) == 3


@pytest.mark.extended
def test_going_on_after_a_kill(folder, config, made, out, capsys):
    config.write_text(config.read_text().replace("epochs: 2", "epochs: 40"))
    command = [sys.executable, "-m", "parser", "train-all", str(folder), str(config), "-o", str(out)]
    with running(command) as killed:
        # During the second run, which is for the smaller treebank.
        wait_until(
            lambda: any(path.stat().st_size for path in out.glob("runs/UD_Toy*/metrics.jsonl")), killed
        )
        children = children_of(killed)
        killed.kill()
        _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    assert len(rows_of(out)) == 1
    before = (out / "old_toy-whole.stackparser").read_bytes()
    assert made() == 0
    assert capsys.readouterr().out.count("running in") == 1
    assert "resuming" in next(out.glob("runs/UD_Toy*.log")).read_text()
    assert (out / "old_toy-whole.stackparser").read_bytes() == before

    # As if the kill had come between a row and its model.
    (out / "old_toy-whole.stackparser").unlink()
    assert made() == 0
    assert "running in" not in capsys.readouterr().out
    assert (out / "old_toy-whole.stackparser").read_bytes() == before
    shutil.rmtree(out / "runs")  # a model that was packed does not need its run
    assert made() == 0
    assert (out / "old_toy-whole.stackparser").read_bytes() == before


def test_slips_are_told_before_anything_runs(folder, config, tmp_path, out, capsys):
    welsh, published = ["--only", "UD_Welsh*"], ["--published", str(config)]
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # but nothing listens there
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        for treebanks, output, options, message in (
            (folder, out, welsh, "--only UD_Welsh*: "),
            (tmp_path, out, [], "has no folder with a name such as UD_English-EWT"),
            (folder, folder / "UD_Toy-Few" / "out", [], "choose another name"),
            (folder, out, published, "toys.yaml: Invalid JSON"),
            (folder, out, ["--address", address], f"--address {address}: no cluster: tried port"),
        ):
            assert main(["train-all", str(treebanks), str(config), "-o", str(output), *options]) == 2
            printed = capsys.readouterr()
            assert message in printed.err
            assert "left out" not in printed.out
            assert not output.exists()
    out.mkdir()
    (out / "letter.txt").write_text("theirs")
    assert main(["train-all", str(folder), str(config), "-o", str(out)]) == 2
    assert "holds something that is not a run" in capsys.readouterr().err
