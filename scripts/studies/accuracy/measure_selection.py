"""Measure learning curves of annotation: sentences selected by a parser, compared with random sentences.

    python scripts/studies/accuracy/measure_selection.py configs/ud-fast.yaml --run runs/selection/ewt

The gold trees of the training file stand for what people would annotate. Each seed starts with the same
random sentences for all ways of selection. Each step trains a parser from random weights, uses it to select
sentences from the rest (`parser/evaluation/selection.py`), and adds their trees. For `disagreement` several
parsers with different seeds are trained, and the first one is scored. The script prints a line of JSON for
each step: way, seed, step, sentences, words and the scores on dev and test. Finished steps are kept below the
folder, so that the same command continues, and other processes can train other seeds.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from parser.config.data_folder import data_path
from parser.evaluation.selection import By, FileSentence, select
from parser.models.loading import load_model
from parser.models.model import Model
from parser.system.pytorch import tune_process
from parser.training.config import Config, read_config
from parser.training.run import train_and_score
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import as_conllu
from parser.treebank.sentence import Sentence


def trained(
    config: Path, changes: Sequence[str], sentences: Sequence[Sentence], folder: Path
) -> dict[str, Any]:
    """The result of training on sentences; if the folder contains a finished training, its result.

    Raises SystemExit if the training in the folder used other sentences.
    """
    result, treebank = folder / "result.json", folder.with_name(f"{folder.name}.conllu")
    content = as_conllu(sentences)
    if result.is_file():
        if treebank.read_bytes() != content:
            sys.exit(f"{folder}: is of other sentences; choose another folder with --run")
        kept: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return kept
    folder.parent.mkdir(parents=True, exist_ok=True)
    treebank.write_bytes(content)
    own_changes = [*changes, f"treebank.train={treebank}", "tokenizer=null"]
    scores = train_and_score(read_config(config, own_changes), folder)
    assert scores
    return scores


def uas_and_las(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """UAS and LAS on dev and test, if the config has them."""
    return {
        part: {name: result[part][name] for name in ("uas", "las")}
        for part in ("dev", "test")
        if result[part]
    }


def committee(folders: Sequence[Path]) -> Model:
    first, *others = (load_model(folder / "model") for folder in folders)
    return replace(first, others=tuple(others))


def curve(given: argparse.Namespace, pool: Sequence[Sentence], by: By, seed: int) -> None:
    """Train at all steps for one way of selection and one seed, and print the scores."""
    drawn = random.Random(seed).sample(range(len(pool)), given.start)
    known = [pool[number] for number in drawn]
    rest = [sentence for number, sentence in enumerate(pool) if number not in set(drawn)]
    members = given.members if by == "disagreement" else 1
    for step in range(given.steps + 1):
        folder_of_step = given.run / (f"{by}-{seed}" if step else f"start-{seed}")
        folders = [folder_of_step / f"{step}-{member}" for member in range(members)]
        results = [
            trained(given.config, [*given.set, f"training.seed={seed + 1000 * member}"], known, folder)
            for member, folder in enumerate(folders)
        ]
        row = {"by": by, "seed": seed, "step": step, "sentences": len(known), "words": sum(map(len, known))}
        print(json.dumps(row | uas_and_las(results[0])), flush=True)
        if step < given.steps:
            sources = (FileSentence("", sentence) for sentence in rest)
            selected = select(committee(folders), sources, given.words, by, seed=1000 * seed + step)
            chosen = {one.sentence.line: one.sentence for one in selected}
            known += chosen.values()
            rest = [sentence for sentence in rest if sentence.line not in chosen]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path, help="of the trainings; treebank.train is one file")
    arguments.add_argument("--run", type=Path, required=True, help="folder of all trainings")
    arguments.add_argument("--by", nargs="+", choices=get_args(By), default=["random", "confidence"])
    arguments.add_argument("--start", type=int, default=500, help="sentences")
    arguments.add_argument("--words", type=int, default=8_000, help="that a step adds")
    arguments.add_argument("--steps", type=int, default=6)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    arguments.add_argument("--members", type=int, default=3, help="parsers that may disagree")
    arguments.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = arguments.parse_args()
    tune_process()
    config: Config = read_config(given.config, given.set)
    [path] = config.treebank.train_files
    pool = read_treebank(data_path(path))
    for seed in given.seeds:
        for by in given.by:
            curve(given, pool, by, seed)


if __name__ == "__main__":
    main()
