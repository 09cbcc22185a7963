"""What README.md and docs/ name exists, and figures are those of the rows that are kept."""

import json
import re
from pathlib import Path
from statistics import mean

import pytest

from parser.config import Config
from parser.config_file import read_config
from parser.former_names import with_new_names

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
REPORTS = [path for path in DOCUMENTS if "| to repeat |" in path.read_text(encoding="utf-8")]
FILE = re.compile(r"(?:THIS_FOLDER|configs|scripts|runs|docs)/[\w./-]+\.(?:yaml|py)\b")
COMMAND = re.compile(r"(?:stack-parser (?:train|speed|table)\s+|CONFIG=)([\w./-]+\.yaml)")


def named(document):
    """Configs and scripts; THIS_FOLDER is the document's."""
    text = document.read_text(encoding="utf-8")
    for name in {*FILE.findall(text), *COMMAND.findall(text)}:
        folder, _, rest = name.partition("/")
        yield document.parent / rest if folder == "THIS_FOLDER" else ROOT / name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_configs_and_scripts_that_a_document_names_exist(document):
    assert [str(path) for path in named(document) if not path.is_file()] == []


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_a_report_can_be_repeated_from_its_own_folder(report):
    line = next(line for line in report.read_text(encoding="utf-8").splitlines() if "| to repeat |" in line)
    for command in line.split(" | ", 1)[1].split("; "):
        assert command.startswith("stack-parser speed THIS_FOLDER/config.yaml --run ANOTHER_FOLDER")


def rows(path):
    return [json.loads(line) for line in (ROOT / "docs/measurements" / path).read_text().splitlines()]


def figures_of(run):
    """The line of a table that README.md has of one run: dev UAS and LAS, test UAS and LAS."""
    return [f"{run[split][measure]:.2f}" for split in ("dev", "test") for measure in ("uas", "las")]


def test_readme_has_the_scores_of_the_rows():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    plain, *others = rows("accuracy-2026-11-22/english-ewt/rows.jsonl")
    for split in ("dev", "test"):
        cells = [f"{plain[split][measure]:.2f}" for measure in ("uas", "las", "las_full", "clas")]
        assert f"| {split} | {' | '.join(cells)} |" in text
    for run in others:
        assert f" | {' | '.join(figures_of(run))} | {run['seconds'] / 60:.0f} |" in text


def test_single_runs_are_of_the_configs_they_are_named_after():
    for run in rows("accuracy-2026-11-22/english-ewt/rows.jsonl"):
        config = read_config(ROOT / "configs" / f"{run['name']}.yaml")
        assert Config.model_validate_json(json.dumps(with_new_names(run["config"]))) == config


PARTS = {
    "XPOS and FEATS": "XPOS and FEATS",
    "LSTM over the sentence": "LSTM over the sentence",
    "composition (3)": "composition",
    "exploration (3)": "exploration",
    "words shown to the scores": "words shown",
    "lemmas": "lemmas",
    "characters": "characters",
    "averaged weights": "averaged weights",
}


@pytest.mark.parametrize(("label", "name"), PARTS.items())
def test_what_a_part_gives_is_told_of_equal_seeds(label, name):
    text = (ROOT / "docs/measurements/README.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| {label} |"))
    runs = {(run["name"], run["seed"]): run for run in rows("accuracy-2026-11-22/parts/rows.jsonl")}
    seeds = [seed for own, seed in runs if own == name]
    for split, column in (("dev", 3), ("test", 5)):
        gained = mean(runs[name, seed][split]["las"] - runs["plain", seed][split]["las"] for seed in seeds)
        assert line.split("|")[column].strip(" *") == f"{gained:+.2f}"


def test_late_gradients_are_told_as_they_are_kept():
    text = (ROOT / "docs/measurements/README.md").read_text(encoding="utf-8")
    found = {}
    for row in rows("late-gradients-2026-11-22/rows.jsonl"):
        found.setdefault((row["late"], row["settings"]["learning_rate"]), []).append(100 * row["scores"][-1])
    for scores in found.values():
        assert f"| {', '.join(f'{score:.2f}' for score in sorted(scores))} |" in text


def test_programs_are_told_as_they_are_kept():
    text = (ROOT / "docs/measurements/README.md").read_text(encoding="utf-8")
    kept = sorted(rows("programs-2026-11-22/rows.jsonl"), key=lambda row: (row["epoch"], row["method"]))
    for kind, guessed in kept[0]["majority"].items():
        cells = [guessed, *(row["accuracy"][kind] for row in kept)]
        assert f"| {kind.replace('_', ' ')} | {' | '.join(f'{cell:.1f}' for cell in cells)} |" in text
