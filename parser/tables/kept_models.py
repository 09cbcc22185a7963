"""The models of a table of treebanks: each as a single file with its card, and an index of all models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from parser.models.model_files import CARD, LICENCE, WEIGHTS, Folder, contents, pack
from parser.models.named_models import SUFFIX
from parser.system.files import refuse_unwritable, write_atomically
from parser.tables.model_card import CardScores, model_card, scores_of
from parser.training.folder import BEST_MODEL
from parser.training.runs import RUNS, Job, Row
from parser.training.treebanks import FoundTreebank

INDEX = "models.json"


def keep_model(job: Job, found: FoundTreebank, row: Row, folder: Path) -> None:
    """Write the card of a trained model, and pack both into `folder`, unless this is done already.

    The package of a model whose run has been deleted is left unchanged.
    """
    model = folder / RUNS / job.folder_name / BEST_MODEL
    package = package_of(found, folder)
    if not (model / WEIGHTS).is_file():
        return
    weights = sum(map(prod, Folder(model).shapes(WEIGHTS).values()))
    card = model_card(found, job.config, row, weights).encode()
    if package.is_file() and (model / CARD).is_file() and (model / CARD).read_bytes() == card:
        return
    refuse_unwritable(package)
    package.unlink(missing_ok=True)  # a new card with an old package would look as if everything were done
    if found.treebank.licence_text:
        write_atomically(model / LICENCE, found.treebank.licence_text.encode())
    write_atomically(model / CARD, card)
    pack(contents([model]), package)


def package_of(found: FoundTreebank, folder: Path) -> Path:
    return folder / f"{found.treebank.model_name}{SUFFIX}"


def write_index(done: Mapping[Job, Row], found: Mapping[str, FoundTreebank], folder: Path) -> None:
    """Write the machine-readable index, an entry for each model. found: by name of the treebank."""
    entries = [_entry(job, row, found[job.name], folder) for job, row in done.items()]
    content = json.dumps({"models": entries}, indent=2, ensure_ascii=False) + "\n"
    write_atomically(folder / INDEX, content.encode())


def _entry(job: Job, row: Row, found: FoundTreebank, folder: Path) -> dict[str, Any]:
    treebank, package = found.treebank, package_of(found, folder)
    return {
        "name": treebank.model_name,
        "file": package.name if package.is_file() else None,
        "bytes": package.stat().st_size if package.is_file() else None,
        "treebank": treebank.name,
        "language": treebank.language,
        "code": treebank.code,
        "licence": treebank.licence,
        "training_sentences": found.size.sentences,
        "training_words": found.size.words,
        "choices": found.choices,
        "seconds": row["seconds"],
        "commit": row["commit"],
        "scores": [_scores(own) for own in scores_of(job.config, row)],
    }


def _scores(scores: CardScores) -> dict[str, Any]:
    error = {} if scores.las_error is None else {"las_error": scores.las_error}
    return {"from": scores.given, "on": scores.split, **scores.scores, **error}
