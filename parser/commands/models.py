"""`stack-parser models` and `pack`: list models, or write one or an ensemble as one file or folder."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from parser.commands.errors import message_of
from parser.commands.treebank_table import table
from parser.evaluation.calibration import calibrations_on
from parser.evaluation.rounding import Rounding
from parser.models.loading import ModelChoice, load_models
from parser.models.model import Model
from parser.models.model_card import OF_TAGS, OF_TEXT, OF_TOKENS, ModelCard, read_card
from parser.models.model_files import (
    CALIBRATIONS_FILE,
    CARD,
    CONSTRAINTS,
    ENHANCED,
    SETTINGS,
    TRANSFORMER_CONFIG,
    Package,
    contents,
    in_half_precision,
    members_of,
    model_files,
    pack,
    with_files,
    with_rounded_products,
)
from parser.models.named_models import SUFFIX, models_in, name_of
from parser.models.settings import calibrations_as_json
from parser.models.wheel import wheel_of
from parser.system.console import LinesError, counted, say, shortened
from parser.system.files import real_path, refuse_to_overwrite, write_atomically
from parser.text.of_model import has_tokenizer, tokenizer_of
from parser.treebank.conllu import read_treebank

MEGABYTE = 1_000_000
COLUMNS = ["MB", f"LAS, {OF_TEXT}", f"LAS, {OF_TOKENS}", f"LAS, {OF_TAGS}", "licence"]
WHEELS = Path("dist")


def list_models(options: argparse.Namespace) -> None:
    """List the models. Raises ValueError if there is none, and in the end if some cannot be read."""
    rows, faults = [], list[str]()
    for name, path in models_in(options.folder).items():
        try:
            card = read_card(Package(path))
            scores = [card.score("las", given) if card else None for given in (OF_TEXT, OF_TOKENS, OF_TAGS)]
            cells = ["" if score is None else f"{score:.2f}" for score in scores]
            size, licence = f"{path.stat().st_size / MEGABYTE:.1f}", shortened(card.licence) if card else ""
            rows.append((name, [size, *cells, licence]))
        except (ValueError, OSError) as error:
            faults += message_of(error)
    if rows:
        say(*table(COLUMNS, rows))
    if faults:
        raise LinesError(*faults)


def pack_model(options: argparse.Namespace) -> None:
    if options.wheel:
        _make_wheel(options)
        return
    if options.hub:
        _make_hub_folder(options)
        return
    if options.model.is_file() and not (options.ensemble or options.precision or options.learn_from):
        raise ValueError(f"{options.model}: is a file; only the folder of a model is packed")
    if (options.ensemble or options.model.is_file()) and not options.output:
        raise ValueError("a package of several models, or of another package, needs a name: -o FILE")
    paths = (options.model, *options.ensemble)
    folder = real_path(options.model)
    output = options.output or folder.with_name(folder.name + SUFFIX)
    refuse_to_overwrite(output, (*paths, *filter(None, (options.learn_from, options.dev))))
    pack(_contents(options), output)
    say(f"{output}: {output.stat().st_size:,} bytes")


def _make_wheel(options: argparse.Namespace) -> None:
    files, card = _checked(options)
    folder = options.output or WHEELS
    wheel = wheel_of(name_of(options.model), files, card, _extras_of((options.model, *options.ensemble)))
    refuse_to_overwrite(folder / wheel.file, [options.model, *options.ensemble])
    folder.mkdir(parents=True, exist_ok=True)
    pack(wheel.content, folder / wheel.file)
    say(
        f"{folder / wheel.file}: {(folder / wheel.file).stat().st_size:,} bytes, licence {card.licence}; "
        f'after pip install it is load("{wheel.package}")'
    )


def _make_hub_folder(options: argparse.Namespace) -> None:
    files, card = _checked(options)
    folder = options.output
    if not folder:
        raise ValueError("a folder for the hub needs a name: -o FOLDER")
    refuse_to_overwrite(folder, [options.model, *options.ensemble])
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder}: is there already, and not empty; choose another name with -o")
    # The settings are written last: without them, a folder that is incomplete is not a model.
    for name, content in sorted(files.items(), key=lambda file: file[0] == SETTINGS):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / name, content)
    say(f"{folder}: {counted(len(files), 'file')}, licence {card.licence}")


def _checked(options: argparse.Namespace) -> tuple[dict[str, bytes], ModelCard]:
    """Return the files of a valid model, and its card.

    Raises ValueError if there is no model, if it is broken, if its card contains no licence, or if there are
    several licences.
    """
    files = _contents(options)
    cards: list[ModelCard] = []
    for path in (options.model, *options.ensemble):
        for card in map(read_card, members_of(model_files(path))):
            if not card or not card.licence:
                raise ValueError(
                    f"{path}: has no licence, so nobody else may use it: write a {CARD} that begins with the "
                    "lines `---`, `license: NAME` and `---` into the model's folder, and pack that folder; "
                    "train-all writes one if the treebank names its licence"
                )
            cards.append(card)
    if len(licences := {card.licence for card in cards}) > 1:
        raise ValueError(
            f"the models have several licences, {', '.join(sorted(licences))}: give each away alone"
        )
    return files, cards[0]


def _contents(options: argparse.Namespace) -> dict[str, bytes]:
    """Return the files of the models. Raises ValueError if they cannot be read, or do not fit together."""
    if options.precision == "int8" and not options.dev:
        raise ValueError("--precision int8 needs --dev FILE, which shows what rounding changes")
    if options.dev and not (options.precision == "int8" or options.learn_from):
        raise ValueError("--dev FILE is for --precision int8 and --learn-from")
    paths = (options.model, *options.ensemble)
    model = load_models(ModelChoice(paths))
    files = contents(paths)
    if options.learn_from:
        files = with_files(files, _learned(model, options.learn_from, options.dev))
    if not options.precision:
        return files
    if options.precision == "float16":
        return in_half_precision(files)
    rounding = Rounding.of(model, read_treebank(options.dev))
    if rounding.fault:
        raise ValueError(f"{options.model}: products should not round to 8 bits: {rounding.fault}")
    say(f"{options.dev}: {rounding}")
    return with_rounded_products(files, f"On {Path(options.dev).name}, {rounding}")


def _learned(model: Model, train: str, dev: str | None) -> dict[str, str]:
    """The files of constraints, of enhanced dependencies if train has them, and of calibrations on dev."""
    # Imported here because they import PyTorch, which packing does not need otherwise.
    from parser.training.from_trees import (
        has_enhanced,
        learned_constraints,
        learned_transducer,
        whole_trees,
    )
    from parser.training.trees import TreebankSettings

    trees, held_out = whole_trees(TreebankSettings(train=train, dev=None)), read_treebank(dev) if dev else []
    constraints = learned_constraints(trees, held_out)
    files = {CONSTRAINTS: constraints.as_json()}
    if has_enhanced(trees, train):
        files[ENHANCED] = learned_transducer(trees, train).as_json()
    else:
        stay = "; those of the model stay" if model.transducer else ""
        say(f"{train}: DEPS has nothing but trees, so no enhanced dependencies are learned{stay}")
    if held_out:
        _, calibrations = calibrations_on(replace(model, constraints=constraints), held_out)
        files[CALIBRATIONS_FILE] = calibrations_as_json(calibrations)
    return files


def _extras_of(models: Sequence[Path]) -> list[str]:
    """The extras of this program that the models, folders or packages, need to parse sentences or text."""
    first = models[0]  # its tokenizer divides the text
    tokenizers = [tokenizer_of(first, "raw").settings.extra] if has_tokenizer(first) else []
    members = [files for model in models for files in members_of(model_files(model))]
    transformers = any(files.has(TRANSFORMER_CONFIG) for files in members)
    return sorted({*filter(None, tokenizers), *(["transformers"] if transformers else [])})
