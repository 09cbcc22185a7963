"""The card of a treebank's parser, a README.md in the format of the Hugging Face hub, from its run's row."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from parser.config.data_folder import data_path
from parser.evaluation.measures import MEASURES, NAMES, shown
from parser.models.model_card import OF_TAGS, OF_TEXT, OF_TOKENS, Given, read_card
from parser.models.model_files import members_of, model_files
from parser.models.named_models import SUFFIX, name_of
from parser.system.console import counted
from parser.training.config import Config
from parser.training.data import models_needed
from parser.training.runs import Row
from parser.training.treebanks import FoundTreebank

OF_DIVISION = "tokens", "sentences", "words"
HUB_LICENCES = re.compile(r"cc-by(-nc)?(-sa|-nd)?-[1-4]\.0|cc0-1\.0|lgpl-lr")
"""Licences of treebanks that the hub knows, as the hub writes them."""
OTHER_LICENCE = "other"
DIGITS = 2
"""Digits of scores after the decimal point."""


class CardScores(NamedTuple):
    """Scores for one kind of input to the parser, on one part of the treebank."""

    given: Given
    split: str
    scores: Mapping[str, float]
    """The scores by measure."""
    las_error: float | None = None
    """The standard error of LAS; None for raw text, and for fewer than two sentences."""


def scores_of(config: Config, row: Row) -> Iterator[CardScores]:
    """The CoNLL 2018 scores that say something about this parser; on test, or on dev if there is no test."""
    tags = config.parser.network.tags.predict
    if row["text"]:
        measures = (*OF_DIVISION, *shown(tags), "clas")
        yield CardScores(OF_TEXT, "test", {name: row["text"][name] for name in measures})
    given: Given = OF_TAGS if config.parser.network.tag_sizes else OF_TOKENS
    for split in ("test", "dev"):
        if row[split]:
            found: dict[str, float] = {name: row[split][name] for name in (*shown(tags), "clas")}
            yield CardScores(given, split, found, row[split]["las_error"])
            return


def model_card(found: FoundTreebank, config: Config, row: Row, weights: int) -> str:
    """The text of the card. weights: the number of the network's weights."""
    treebank = found.treebank
    content = {
        "language": [treebank.code],
        **_licence(treebank.licence, config),
        "library_name": "stack-parser",
        "pipeline_tag": "token-classification",
        "tags": ["dependency-parsing", "universal-dependencies", "conll-u"],
        "datasets": ["universal_dependencies"],
        "model-index": [
            {
                "name": treebank.model_name,
                "results": [_result(found, row, scores) for scores in scores_of(config, row)],
            }
        ],
    }
    front = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n\n" + "\n\n".join(_sections(found, config, row, weights)) + "\n"


def _licence(of_treebank: str | None, config: Config) -> dict[str, str]:
    """The entries for the distinct licences of what the model is made of, as the hub names them if it knows
    them; empty if the treebank names none.
    """
    if not of_treebank:
        return {}
    others = [licence for _, licence in _models_learnt_from(config) if licence]
    spelled: dict[str, str] = {}
    for name in (of_treebank, *others):
        spelled.setdefault("-".join(name.lower().split()), name)
    known, all_names = "-and-".join(spelled), " and ".join(spelled.values())
    if HUB_LICENCES.fullmatch(known):
        return {"license": known}
    return {"license": OTHER_LICENCE, "license_name": all_names}


def _models_learnt_from(config: Config) -> list[tuple[str, str]]:
    """Name and licence, possibly empty, of the model that training started from, and of each teacher.

    Raises ValueError if one is missing: its licence would be lost.
    """
    learnt_from: dict[tuple[str, str], None] = {}
    for path in models_needed(config):
        if not path.exists():
            raise ValueError(
                f"{path}: is not there any more, and its licence is needed for the card of a model"
            )
        for card in map(read_card, members_of(model_files(path))):
            learnt_from[name_of(path), card.licence if card else ""] = None
    return list(learnt_from)


def _result(found: FoundTreebank, row: Row, scores: CardScores) -> dict[str, Any]:
    treebank = found.treebank
    release = _release(row)
    return {
        "task": {"type": "token-classification", "name": f"Dependency parsing, from {scores.given}"},
        "dataset": {
            "type": "universal_dependencies",
            "name": treebank.name,
            "config": treebank.train[0].name.partition("-ud-")[0],
            "split": scores.split,
            **({"revision": release} if release else {}),
        },
        "metrics": [
            {"type": name, "name": NAMES[name], "value": round(score, DIGITS)}
            for name, score in scores.scores.items()
        ],
    }


def _release(row: Row) -> str | None:
    """The release of the treebank, or its commit; None if it is not from a clone of its repository."""
    versions = [version for version in row["treebanks"].values() if version]
    releases = {version["release"] or version["commit"] for version in versions} - {None}
    return releases.pop() if len(releases) == 1 else None


def _sections(found: FoundTreebank, config: Config, row: Row, weights: int) -> Iterator[str]:
    treebank = found.treebank
    release = _release(row)
    yield f"# {treebank.model_name}"
    yield (
        f"A dependency parser of {treebank.language}, trained on {treebank.name} of Universal Dependencies"
        f"{f' ({release})' if release else ''} by stack-parser {row['versions']['parser']}, "
        f"commit {row['commit'] or 'unknown'}."
    )
    source = "--text letters.txt" if config.tokenizer else "words.conllu"
    yield f"    stack-parser parse {treebank.model_name}{SUFFIX} {source} -o letters.conllu"
    yield "Scores of the CoNLL 2018 shared task, in per cent:"
    yield _score_table(list(scores_of(config, row)))
    yield "## Training"
    yield "\n".join(f"- {line}" for line in _facts(found, config, row, weights))
    settings = config.model_dump(mode="json", exclude_defaults=True)
    settings["treebank"] |= {
        split: Path(settings["treebank"][split]).name
        for split in ("train", "dev", "test")
        if isinstance(settings["treebank"].get(split), str)
    }
    content = yaml.safe_dump(_without_folders(settings), sort_keys=False, allow_unicode=True)
    yield f"```yaml\n{content}```"
    yield "## Licence"
    by = f" by {treebank.contributors}," if treebank.contributors else ""
    name = treebank.licence or "that its authors name"
    own = " LICENSE.txt is that of the treebank." if treebank.licence_text else ""
    yield (
        f"The treebank, [{treebank.name}]({treebank.repository}),{by} is under the licence {name}, "
        f"and the model is made of it.{own}"
    )
    for model, licence in _models_learnt_from(config):
        yield f"It also learnt from the model {model}, under {licence or 'a licence that it does not name'}."


def _score_table(rows: Sequence[CardScores]) -> str:
    measures = list(dict.fromkeys(name for row in rows for name in row.scores))
    lines = [["from", "on", *(NAMES[name] for name in measures)], ["---"] * (len(measures) + 2)]
    for row in rows:
        cells = [f"{row.scores[name]:.{DIGITS}f}" if name in row.scores else "" for name in measures]
        lines.append([row.given, row.split, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _facts(found: FoundTreebank, config: Config, row: Row, weights: int) -> Iterator[str]:
    size = found.size
    yield f"{counted(size.sentences, 'sentence')} with {counted(size.words, 'word')} to learn from"
    yield from found.choices
    by_dev = f"epoch {row['best_epoch']} of {row['epochs']}, by {MEASURES[config.training.best_by]} on dev"
    yield f"{counted(weights, 'weight')}; {by_dev if row['dev'] else 'the last epoch, without dev'}"
    device = row["machine"]["cpu"] if row["device"] == "cpu" else row["device"]
    yield f"{row['seconds']:.1f} seconds on {device}, {row['date']}"
    for path, version in row["treebanks"].items():
        if version:
            yield f"`{Path(path).name}`: SHA-256 {version['sha256']}"


def _without_folders(value: Any) -> Any:
    """Settings with file names instead of paths, whose folders concern this machine only."""
    if isinstance(value, Mapping):
        return {key: _without_folders(own) for key, own in value.items()}
    if isinstance(value, list):
        return list(map(_without_folders, value))
    is_file = isinstance(value, str) and (
        value.startswith(("/", "~", "${")) or os.path.exists(data_path(value))
    )
    return Path(value).name if is_file else value
