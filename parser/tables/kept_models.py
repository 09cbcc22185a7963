"""The models of a table of treebanks: each as a single file with its card, and an index of all models."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path

from parser.models.model_files import CARD, LICENCE, WEIGHTS, Folder, contents, pack
from parser.models.named_models import SUFFIX
from parser.system.files import refuse_unwritable, write_atomically
from parser.tables.model_card import model_card, scores_of
from parser.training.record import BEST_MODEL
from parser.training.runs import Job, Row
from parser.training.treebanks import FoundTreebank

INDEX = "models.json"


def keep_model(job: Job, found: FoundTreebank, row: Row, folder: Path) -> None:
    """Write the card of a trained model, and pack both into `folder`, unless this is done already.

    The package of a model whose run has been deleted is left unchanged.
    """
    model = job.run_in(folder) / BEST_MODEL
    package = package_of(found, folder)
    if not (model / WEIGHTS).is_file():
        return
    weights = sum(prod(array.shape) for array in Folder(model).stored(WEIGHTS).values())
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
    entries = []
    for job, row in done.items():
        treebank, package = found[job.name].treebank, package_of(found[job.name], folder)
        entries.append(
            {
                "name": treebank.model_name,
                "file": package.name if package.is_file() else None,
                "bytes": package.stat().st_size if package.is_file() else None,
                "treebank": treebank.name,
                "language": treebank.language,
                "code": treebank.code,
                "licence": treebank.licence,
                "training_sentences": found[job.name].size.sentences,
                "training_words": found[job.name].size.words,
                "choices": found[job.name].choices,
                "seconds": row["seconds"],
                "commit": row["commit"],
                "scores": [
                    {
                        "from": scores.given,
                        "on": scores.split,
                        **scores.scores,
                        **({} if scores.las_error is None else {"las_error": scores.las_error}),
                    }
                    for scores in scores_of(job.config, row)
                ],
            }
        )
    content = json.dumps({"models": entries}, indent=2, ensure_ascii=False) + "\n"
    write_atomically(folder / INDEX, content.encode())
