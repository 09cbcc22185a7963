"""Training a parser for each treebank of a folder, like the rows of a table: the config is changed for what
each treebank of Universal Dependencies lacks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from parser.config.data_folder import path_in_configs
from parser.evaluation.measures import OF_COLUMNS
from parser.system.console import counted, say
from parser.system.files import write_atomically
from parser.text.treebank_text import has_text
from parser.training.config import Config, changed_settings, read_config
from parser.training.data import provenances
from parser.training.from_trees import has_enhanced
from parser.training.runs import ROWS, Job, read_rows, rows_of
from parser.training.table import RowSettings, TableConfig, jobs_of
from parser.training.trees import read_training_file
from parser.treebank.conllu import TreebankSize
from parser.treebank.conllu_output import as_conllu
from parser.treebank.sentence import BLANK, NO_SPACE, WORD_COLUMNS, Sentence
from parser.treebank.ud_folders import TreebankFolders, UDTreebank

PREPARED = "treebanks"
"""The folder of prepared files that the treebanks lack."""
CHOICES = "choices.json"
HELD_OUT, LEAST_HELD_OUT = 10, 5
"""Without dev, the last tenth of the training sentences is held out, but at least `LEAST_HELD_OUT`."""
LEAST_FOR_HELD_OUT = 100
"""A treebank with test, but without dev, is trained without dev if it has fewer sentences: with so few, each
counts, and scores on a tenth of them would say nothing."""
SETTINGS_WITHOUT_DEV = {
    "training.learning_rate.decay": "linear",
    "training.early_stopping_patience": None,
    "training.best_by": "las",
}
"""Settings for training without dev; other values make no sense then."""
LEAST_SENTENCES = 10
"""Minimum number of training sentences for a treebank to be trained on."""
HAS_VALUES = 0.01
"""A column counts as missing if a smaller share of words has a value in it."""
HAS_FORMS = 0.5
OF_TAGS = "parser.network.tags."
"""Prefix of the settings of predicted tags."""


class FoundTreebank(NamedTuple):
    treebank: UDTreebank
    row: RowSettings
    size: TreebankSize
    """The size of the part that is trained on."""
    choices: tuple[str, ...]
    """Descriptions of what differs from the config, and why."""


class TreebankPlan(NamedTuple):
    title: str
    jobs: list[Job]
    """Jobs, the longest first."""
    found: dict[str, FoundTreebank]
    """Treebanks by name."""
    skipped: dict[str, str]
    """Reasons why treebanks are not trained, by name."""


def plan_treebanks(
    folders: TreebankFolders, base: Path, title: str, folder: Path, why: Callable[[Exception], str]
) -> TreebankPlan:
    """The runs of all treebanks that can be trained.

    base: the config that is changed for each treebank. folder: for files that treebanks lack. why: returns
    the reason to leave out a treebank, from the error. Raises ConfigError, FileNotFoundError.
    """
    config = read_config(base)
    jobs: list[Job] = []
    found, skipped = {}, dict(folders.left_out)
    for treebank in folders.treebanks:
        try:
            row = found_row(treebank, config, folder / PREPARED)
            table = TableConfig(title=title, base=str(base), rows={treebank.name: row.row})
            jobs += jobs_of(table, base.stem)
        except (ValueError, OSError) as error:
            skipped[treebank.name] = why(error)
        else:
            found[treebank.name] = row
    rule = config.small_treebank
    for job in jobs:
        row = found[job.name]
        if rule and row.size.words < rule.words and (changed := changed_settings(config, job.config)):
            choice = f"small, with {counted(row.size.words, 'word')}: {changed}"
            found[job.name] = row._replace(choices=(*row.choices, choice))
    # Sorted by their approximate duration.
    jobs.sort(key=lambda job: -job.config.training.epochs * found[job.name].size.words)
    return TreebankPlan(title, jobs, found, skipped)


def refuse_other_treebanks(jobs: Sequence[Job], folder: Path) -> None:
    """Raises ValueError if a finished run was trained with files that have changed since."""
    for job, row in rows_of(jobs, read_rows(folder / ROWS)).items():
        for path, version in provenances(job.config).items():
            before = row["treebanks"].get(path)
            if before and version and before["sha256"] != version["sha256"]:
                raise ValueError(
                    f"{folder}: {job.name} was trained before {path} changed; give another folder with -o"
                )


def tell_choices(plan: TreebankPlan, folder: Path) -> None:
    """Print and save which treebanks are trained, with which settings, and which are not."""
    for name, why in plan.skipped.items():
        say(f"{name}: left out: {why}")
    for name, found in plan.found.items():
        say(*(f"{name}: {choice}" for choice in found.choices))
    content = {
        "choices": {name: found.choices for name, found in plan.found.items()},
        "left_out": plan.skipped,
    }
    write_atomically(folder / CHOICES, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def found_row(treebank: UDTreebank, config: Config, folder: Path) -> FoundTreebank:
    """The row for a treebank; its choices depend only on the treebank's files.

    folder: for files that the treebank lacks, which are written there. Raises ValueError if no parser can be
    trained on the treebank, and OSError.
    """
    sentences = _training_sentences(treebank, config)
    held_out = 0  # how many of the last training sentences become the dev set
    if not treebank.dev and not (treebank.test and len(sentences) < LEAST_FOR_HELD_OUT):
        held_out = max(len(sentences) // HELD_OUT, LEAST_HELD_OUT)
    train = sentences[: len(sentences) - held_out]
    first, *others = treebank.train
    changes: dict[str, Any] = {
        "treebank.train": path_in_configs(first),
        "treebank.dev": path_in_configs(treebank.dev) if treebank.dev else None,
        "treebank.test": path_in_configs(treebank.test) if treebank.test else None,
    }
    if held_out or others:
        changes["treebank.train"] = _written(folder / treebank.name / first.name, train)
    if held_out:
        dev = folder / treebank.name / first.name.replace("-ud-train", "-ud-dev")
        changes["treebank.dev"] = _written(dev, sentences[len(train) :])
    if changes["treebank.dev"] is None:
        changes |= SETTINGS_WITHOUT_DEV
    choices = list(_choices_of_files(treebank, len(sentences), held_out))
    of_columns, why = _columns(config, train)
    changes |= of_columns
    choices += why
    try:
        has_graphs = has_enhanced(train, first.name)
        told = "are learned from DEPS" if has_graphs else "are not learned: DEPS has nothing but trees"
    except ValueError as error:
        has_graphs, told = False, f"are not learned: {error}"
    if has_graphs != config.parser.enhanced:
        changes["parser.enhanced"] = has_graphs
        choices.append(f"enhanced dependencies {told}")
    if config.tokenizer and config.tokenizer.is_trained and not any(map(has_text, train)):
        changes["tokenizer"] = None
        choices.append(f"no tokenizer: train has neither `# text` nor `{NO_SPACE}`")
    if changes["treebank.dev"] is None and config.small_treebank:
        rule = changes.get("small_treebank.set", config.small_treebank.set)
        changes["small_treebank.set"] = {
            key: value for key, value in rule.items() if key not in SETTINGS_WITHOUT_DEV
        }
    learnt = train[: config.treebank.train_sentences]
    size = TreebankSize(len(learnt), sum(map(len, learnt)))
    return FoundTreebank(treebank, RowSettings(set=changes), size, tuple(choices))


def _training_sentences(treebank: UDTreebank, config: Config) -> list[Sentence]:
    """The sentences of all training files. Raises ValueError if they are too few, or have no forms."""
    if not treebank.train:
        raise ValueError("it has no train file")
    sentences = [
        sentence for path in treebank.train for sentence in read_training_file(str(path), config.treebank)
    ]
    if len(sentences) < LEAST_SENTENCES:
        raise ValueError(
            f"train has {len(sentences)} sentences, of which at least {LEAST_SENTENCES} are needed"
        )
    if _share(sentences, "form") < HAS_FORMS:
        raise ValueError("its forms are not there: most are `_`")
    return sentences


def _share(sentences: Sequence[Sentence], column: str) -> float:
    """The share of words that have a value in a column."""
    values = [value for sentence in sentences for value in sentence.column(column)]
    return sum(value != BLANK for value in values) / len(values)


def _written(path: Path, sentences: Sequence[Sentence]) -> str:
    """Write sentences to a file, unless it contains them already; returns its name in configs."""
    content = as_conllu(sentences)
    if not path.is_file() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    return path_in_configs(path)


def _choices_of_files(treebank: UDTreebank, sentences: int, held_out: int) -> Iterator[str]:
    if len(treebank.train) > 1:
        yield f"train: {len(treebank.train)} files, joined"
    if held_out:
        yield f"no dev: the last {held_out:,} of {sentences:,} sentences of train, which are not trained on"
    elif not treebank.dev:
        yield (
            f"no dev, and only {sentences:,} sentences of train: all are trained on, with linear decay, and "
            "the model of the last epoch is kept"
        )
    if not treebank.test:
        yield "no test: only the scores on dev"


def _columns(config: Config, train: Sequence[Sentence]) -> tuple[dict[str, Any], list[str]]:
    """The settings that change because of missing columns, and the descriptions of these changes."""
    network, training = config.parser.network, config.training
    wanted = [*network.tags.predict, *network.tag_sizes]
    missing = [name for name in wanted if _share(train, name) < HAS_VALUES]
    if not missing or config.initial_model is not None:  # its network is kept
        return {}, []
    predicted = [name for name in network.tags.predict if name not in missing]
    read = {name: size for name, size in network.tag_sizes.items() if name not in missing}
    kinds = {WORD_COLUMNS[name].kind for name in read}
    changes: dict[str, Any] = {
        "parser.network.tags.predict": predicted,
        "parser.network.tag_sizes": read,
        "parser.network.tags.layers_above": network.tags.layers_above if predicted else 0,
        "training.tag_dropout": training.tag_dropout if "tag" in kinds else 0.0,
        "training.feature_dropout": training.feature_dropout if "features" in kinds else 0.0,
    }
    left = network.model_copy(update={"tag_sizes": read})
    impossible = {
        OF_TAGS: not predicted,
        "training.tag_dropout": "tag" not in kinds,
        "training.feature_dropout": "features" not in kinds,
        "parser.network.embedding_dropout": left.embeddings == 1,
    }
    if (columns := OF_COLUMNS.get(training.best_by)) and columns.isdisjoint(predicted):
        changes["training.best_by"] = "las"
    if impossible["parser.network.embedding_dropout"]:
        changes["parser.network.embedding_dropout"] = 0.0
    if rule := config.small_treebank:
        names = tuple(name for name, is_so in impossible.items() if is_so)
        settings = {key: value for key, value in rule.set.items() if not f"{key}.".startswith(names)}
        columns = OF_COLUMNS.get(settings.get("training.best_by", training.best_by))
        if columns and columns.isdisjoint(predicted):
            settings.pop("training.best_by", None)
        changes["small_treebank.set"] = settings
    titles = ", ".join(WORD_COLUMNS[name].title for name in missing)
    return changes, [f"no {titles}: neither predicted nor read"]
