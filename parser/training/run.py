"""A training run from its config to its result: the config is taken apart here."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from parser.batching.device import fix_workspaces
from parser.batching.functional import refuse_unsupported, set_precision
from parser.config.data_folder import data_path
from parser.evaluation.calibration import fit_calibration
from parser.evaluation.evaluate import evaluate_text
from parser.evaluation.measures import NAMES, OF_COLUMNS, OF_PREDICTED, shown
from parser.evaluation.text_scores import TextScores
from parser.evaluation.treebank_scores import TreebankScores, evaluate_treebanks, means_of_texts
from parser.models.model_files import SCORES
from parser.models.network_model import NetworkModel, load_network, with_kept_vectors
from parser.parsing.reparsing import with_bonus
from parser.system.console import counted, say, warn
from parser.system.device_choice import choose_device, described, warn_of_unused_gpu
from parser.system.files import refuse_to_overwrite
from parser.system.interruption import stop_request
from parser.system.provenance import stamp
from parser.system.pytorch import memory_use
from parser.text.of_model import text_reader
from parser.text.reading import TextPart, read_parts
from parser.training import data
from parser.training.checkpoint import (
    Progress,
    TrainingState,
    copy_checkpoint,
    load_checkpoint,
    refuse_other_data,
    refuse_other_format,
    save_checkpoint,
)
from parser.training.config import Config, changed_settings, for_its_treebank
from parser.training.folder import (
    CHECKPOINT,
    claim,
    earlier_config,
    refuse_other_config,
    refuse_taken,
    refuse_without_checkpoint,
    write_config,
)
from parser.training.from_trees import (
    can_be_read_again,
    learned_constraints,
    learned_transducer,
    refuse_without_graphs,
    whole_trees,
)
from parser.training.graphed_gradients import graphs_of
from parser.training.loop import TrainingLoop, has_stopped_early, progress_as_text
from parser.training.optimizer import MovingAverage, Schedule, make_optimizer, peak_learning_rate
from parser.training.prepared import cache_folder
from parser.training.processes import ALONE, ProcessGroup, device_of_process, watched
from parser.training.record import BEST_MODEL, RESULT, Record, write_curves, write_result
from parser.training.tokenizer import refuse_untrainable, tokenizer_training
from parser.training.training_step import TrainingStep
from parser.training.trees import TreebankSettings, read_held_out, read_training_trees
from parser.treebank.conllu_output import as_conllu
from parser.treebank.sentence import BLANK, WORD_COLUMNS, Sentence

BAD_BATCH = "bad-batch.conllu"
MANY_UNKNOWN = 0.2
"""A larger share of unknown tags in the dev set suggests that it uses a different tag set."""
MOST_UNKNOWN = 0.75
"""A larger share of unknown forms suggests that the dev set is of another language."""
FEW_STEPS, ENOUGH_STEPS = 500, 1000
"""Steps of training from random weights. Below the first, more epochs help much: see docs/accuracy.md."""
BONUSES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
ARC_BONUS_WITHOUT_DEV = 2.0
"""A value in the middle of `BONUSES`: without dev, there is nothing to fit the bonus on."""
ANALYSES_BONUSES = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
"""The last one: a form that training has seen gets no other analysis."""


class Plan(NamedTuple):
    """What is known of a run before its training data are read."""

    config: Config
    """For its treebank, without the section `small_treebank`."""
    device: torch.device
    """Of this process."""
    test: list[Sentence]
    """Of all treebanks; empty without a test set."""
    began: dict[str, Any]
    """The versions of the treebanks and of everything else when the run was started or last resumed."""


def prepare(config: Config, processes: ProcessGroup = ALONE) -> Plan:
    """Read the sizes and versions of the treebanks and the test set, and choose the device.

    Sets the number of threads and the precision of the process. Raises TreebankError, ValueError, OSError.
    """
    given, config = config, for_its_treebank(config)
    if given.small_treebank and processes.is_first and (changed := changed_settings(given, config)):
        limit = f"fewer than {given.small_treebank.words:,} words"
        say(f"small treebank ({limit}): {changed}; --set small_treebank=null keeps the config's values")
    if processes.is_first:
        warn_of_unused_gpu(config.device)
    device = device_of_process(torch.device(choose_device(config.device)))
    torch.set_num_threads(config.threads)
    set_precision("float32", device)  # PyTorch's default for cuDNN is tf32
    test = read_held_out(config.treebank.test_files, config.treebank.roots)
    return Plan(config, device, test, {"treebanks": data.provenances(config), **stamp()})


def train_and_score(
    config: Config, run: Path, resume: bool = False, processes: ProcessGroup = ALONE
) -> dict[str, Any] | None:
    """Train a parser; score the best model on the test set if there is one, and also on the raw text of the
    test set if the model has a tokenizer.

    Returns the content of `result.json`; None in all processes but the first. Raises what `prepare` and
    `train` raise.
    """
    config, device, test, began = prepare(config, processes)
    with ExitStack() as claimed:
        dev_scores = train(config, run, device, resume, processes, claimed)
        if not processes.is_first:
            return None
        scores: dict[str, dict[str, Any] | None] = {"test": None, "text": None}
        scores["dev"] = dev_scores.as_dict() if dev_scores else None
        if test:
            model = load_network(run / BEST_MODEL, device)
            scores["test"] = evaluate_treebanks(model, test).as_dict()
            if config.tokenizer:
                scores["text"] = means_of_texts(_scores_of_texts(model, run / BEST_MODEL, test))
        write_curves(run)
        return write_result(run, name_of(device), began, processes.count, scores, memory_use(device))


def _scores_of_texts(model: NetworkModel, folder: Path, test: Sequence[Sentence]) -> dict[str, TextScores]:
    """The scores on the raw text of each treebank, by its name. folder: of the model."""
    scores = {}
    for treebank, own in groupby(test, attrgetter("treebank")):
        gold, reader = list(own), text_reader(folder, "raw", treebank)
        found = read_parts(reader, [TextPart(0, reader.text_of(gold))])
        of_treebank = (replace(sentence, treebank=treebank) for sentence in found)
        scores[treebank] = evaluate_text(model, of_treebank, gold)
    return scores


def name_of(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)


def train(
    config: Config,
    run: Path,
    device: torch.device,
    resume: bool = False,
    processes: ProcessGroup = ALONE,
    claimed: ExitStack | None = None,
) -> TreebankScores | None:
    """Train a parser. Returns the dev scores of the best model; None without a dev set.

    The metrics are written to the folder `run`, and the model with the best dev score to `model/` in it;
    without a dev set, the model of the last epoch. An earlier run in that folder is moved aside, or continued
    if `resume`. processes: all of them call this function with the same arguments and share the work; only
    the first one uses the folder. claimed: no other process can use the folder until this is closed; by
    default, until this function returns. Raises StoppedError after a signal, ValueError, LostProcessError,
    and what `data.load` raises.
    """
    refuse_unsupported(config.training.precision, device)
    refuse_untrainable(config)
    if config.parser.enhanced:
        refuse_without_graphs(config.treebank)
    refuse_to_overwrite(run, data.files_needed(config))  # a new run moves its folder aside
    if processes.is_first:
        refuse_taken(run)
    if processes.is_first and resume:
        refuse_without_checkpoint(run)
        refuse_other_format(run / CHECKPOINT)
        refuse_other_config(run, config)
    in_all = f", {processes.count} processes in all" if processes.count > 1 else ""
    say(f"training on {described(device)}{in_all}")
    with ExitStack() as until_scored:
        best, dev = _run_epochs(config, run, device, resume, processes, claimed or until_scored)
        return _best_on_dev(config, run, dev, best, device, processes)


def _run_epochs(
    config: Config, run: Path, device: torch.device, resume: bool, processes: ProcessGroup, claimed: ExitStack
) -> tuple[TreebankScores, list[Sentence]]:
    """The dev scores of the best model, and the dev set. Arguments: as of `train`.

    In the end the network that was trained is freed, before the best one is loaded.
    """
    # Before the data are loaded: teachers and transformers compute then.
    fix_workspaces(config.training.deterministic, device)
    torch.manual_seed(config.training.seed)
    began = time.monotonic()
    with processes.first_before_others():
        model, training_data = data.load(config, device, cache_folder())
    preparation = time.monotonic() - began
    _say_data(model, training_data, config, preparation, resume)
    training = new_training(model, training_data, config, processes)
    refuse_other_data(processes, training.progress.data)

    with ExitStack() as stack:
        request = stack.enter_context(stop_request(says_so=processes.count == 1))
        record = tokenizer = None
        if processes.is_first:
            text = _claim_and_restore(config, run, training, resume, claimed)
            record = stack.enter_context(Record(run, text, training.progress.metrics_size))
            tokenizer = stack.enter_context(tokenizer_training(config, run))
        copy_checkpoint(processes, run / CHECKPOINT, training)
        # Only the first process knows whether the config now asks for more epochs.
        finished = processes.greatest(int(processes.is_first and training.progress.finished))
        training.progress.finished = bool(finished)
        measures = dict.fromkeys([*shown(config.parser.network.tags.predict), config.training.best_by])
        TrainingLoop(
            settings=config.training,
            measures=list(measures) if config.treebank.dev else [],
            model=model,
            training_data=training_data,
            training=training,
            folder=run,
            record=record,
            tokenizer=tokenizer,
            write_bad_batch=partial(_write_bad_batch, config.treebank, run),
            preparation_seconds=preparation,
            processes=processes,
            watch=stack.enter_context(watched(processes, device)),
        ).run(request)
    return training.progress.best, training_data.dev_sentences


def _best_on_dev(
    config: Config,
    run: Path,
    dev: list[Sentence],
    trained: TreebankScores,
    device: torch.device,
    processes: ProcessGroup,
) -> TreebankScores | None:
    """The dev scores of the best model, after fitting its bonuses and calibration if the config asks for it.

    Without a dev set, there are no scores and no calibration, and the bonuses are constants. trained: the
    scores before.
    """
    network = config.parser.network
    best = trained if dev else None
    if not processes.is_first:
        return best
    folder = run / BEST_MODEL
    # The transformer takes most of the time, and all of these read dev again and again.
    model = with_kept_vectors(load_network(folder, device))
    model = _with_learned(model, config, dev, folder)
    if network.arcs and network.arcs.bonus is None:
        if dev:
            model, best = fit_bonus(model, dev, folder)
        else:
            model = set_bonus(model, ARC_BONUS_WITHOUT_DEV, folder)
    if model.vocabulary.analyses.combinations and dev:
        model, best = fit_analyses(model, dev, folder)
    if dev:
        fit_calibration(model, dev, folder, config.parser.calibration)
    return best


def _with_learned(model: NetworkModel, config: Config, dev: list[Sentence], folder: Path) -> NetworkModel:
    """The model in a folder, with what is learned from the trees of train; it is saved if it changes."""
    wanted = config.parser.enhanced
    if model.constraints and wanted == model.settings.enhanced == bool(model.transducer):
        return model
    if not can_be_read_again(config.treebank):
        return model
    trees = whole_trees(config.treebank)
    changed = replace(
        model,
        settings=model.settings.model_copy(update={"enhanced": wanted}),
        transducer=learned_transducer(trees, ", ".join(config.treebank.train_files)) if wanted else None,
        constraints=learned_constraints(trees, dev),
    )
    changed.save(folder, json.loads((folder / SCORES).read_text(encoding="utf-8")))
    return changed


def new_training(
    model: NetworkModel, training_data: data.TrainingData, config: Config, processes: ProcessGroup = ALONE
) -> TrainingState:
    """The state of a new run: the training step with its optimizer, the schedule, and the progress."""
    settings = config.training
    optimizer = make_optimizer(model.network, settings.optimizer)
    peak = peak_learning_rate(settings.learning_rate, settings.batch_size)
    step = TrainingStep(
        model.network,
        model.inventory,
        optimizer,
        settings.max_grad_norm,
        average=MovingAverage(model.network, settings.average) if settings.average else None,
        forward=partial(model.network, objective=settings.objective),
    )
    return TrainingState(
        step,
        Schedule(optimizer, settings.learning_rate, peak, settings.epochs),
        totals=torch.zeros(3, device=model.device),
        progress=Progress(training_data.digest),
        graphs=graphs_of(settings, config.parser.network, training_data, step, processes),
    )


def _claim_and_restore(
    config: Config, run: Path, training: TrainingState, resume: bool, claimed: ExitStack
) -> str:
    """Claim the folder until `claimed` is closed, and restore or write its checkpoint.

    Returns the text of the config.
    """
    if moved := claimed.enter_context(claim(run, resume)):
        say(f"{run} held a run already: it is now {moved}")
    if resume:
        load_checkpoint(run / CHECKPOINT, training)
        _go_on_to_more_epochs(config, earlier_config(run), training, is_scored=(run / RESULT).is_file())
        say(f"resuming {progress_as_text(training.progress)}")
    else:
        save_checkpoint(run / CHECKPOINT, training)
    return write_config(run, config)


def _go_on_to_more_epochs(
    config: Config, before: Config | None, training: TrainingState, is_scored: bool
) -> None:
    """Update whether a resumed run is finished, by the current config, and report what has changed.

    before: the config of the run until now. is_scored: whether the run has a result. Raises ValueError if it
    already has more epochs than asked for.
    """
    progress, settings = training.progress, config.training
    ended = progress.epoch - 1
    begun = ended + bool(progress.batches)
    if settings.epochs < begun:
        raise ValueError(
            f"training.epochs={settings.epochs}: the run has {counted(begun, 'epoch')} already; "
            "it can go on to more, and not to fewer"
        )
    if not progress.batches and ended:
        progress.finished = ended >= settings.epochs or has_stopped_early(progress, ended, settings)
        if progress.finished and config.treebank.dev is None:
            progress.best_epoch = ended
    if progress.finished and before and before.tokenizer != config.tokenizer:
        say("this run is finished: only its tokenizer is another one from now on")
    elif progress.finished and ended < settings.epochs:
        say(
            f"this run stopped early, after {counted(ended, 'epoch')}: --set "
            f"training.early_stopping_patience=null goes on to {settings.epochs}, a larger number for a while"
        )
    elif progress.finished and not is_scored:
        say("this run is finished; only its scores are missing")
    elif progress.finished:
        say(
            "this run is finished: --set training.epochs=N continues it to N epochs; --from MODEL --run OTHER"
            " starts a new run with the weights of its model"
        )
    elif before and before.training.epochs != settings.epochs:
        consequence = "the learning rate is not changed by that"
        if settings.learning_rate.decay == "linear":
            consequence = "the learning rate, which falls to 0 in the last epoch, is another one from now on"
        say(f"{settings.epochs} epochs in place of {before.training.epochs}: {consequence}")


def _say_data(
    model: NetworkModel, training_data: data.TrainingData, config: Config, seconds: float, resume: bool
) -> None:
    """Print how much there is to learn from, and warn of what is unusual in it."""
    dev = training_data.dev_sentences
    outcome = "lifted" if config.treebank.non_projective == "lift" else "left out"
    say(
        f"{len(training_data.train):,} training trees "
        f"({training_data.mixture}{training_data.crossing:,} non-projective {outcome}), "
        f"{f'{len(dev):,} dev' if dev else 'no dev'}; read and prepared in {seconds:.1f} s"
    )
    batches = len(data.epoch_batches(training_data, config.training, 1))
    steps = config.training.epochs * batches
    if steps < FEW_STEPS and not (resume or config.initial_model):
        say(
            f"only {counted(steps, 'step')} of training in all: more epochs may help much, "
            f"such as --set training.epochs={-(-ENOUGH_STEPS // batches)}"
        )
    if (forms := model.dev_shares.get("form")) and forms.unknown > MOST_UNKNOWN:
        warn(f"{forms.unknown:.0%} of the words in dev are in no training tree: is it of the same language?")
    for name, shares in model.dev_shares.items():
        if WORD_COLUMNS[name].kind != "word" and shares.unknown > MANY_UNKNOWN:
            warn(
                f"{shares.unknown:.0%} of the {WORD_COLUMNS[name].title} in dev are in no training tree: "
                f"is it the same set of tags? parser.network.tag_sizes without {name} does not read them"
            )
    for name in model.vocabulary.predicted:
        if dev and all(value == BLANK for sentence in dev for value in sentence.column(name)):
            warn(
                f"the {WORD_COLUMNS[name].title} of all dev words is _, so its scores mean nothing; "
                f"if train has none either, leave {name} out of parser.network.tags.predict"
            )


def _write_bad_batch(treebank: TreebankSettings, run: Path, rows: Tensor) -> Path | None:
    """Write training trees to a file; returns it, or None if they cannot be read again. rows: [batch]"""
    if not all(Path(data_path(path)).is_file() for path in (*treebank.train_files, *treebank.silver_files)):
        return None  # a pipe can be read only once
    trees = read_training_trees(treebank).all
    path = run / BAD_BATCH
    path.write_bytes(as_conllu(trees[row] for row in rows.tolist()))
    return path


def fit_bonus(
    model: NetworkModel, dev: Sequence[Sentence], folder: Path
) -> tuple[NetworkModel, TreebankScores]:
    """Set `ArcSettings.bonus` of the model in a folder to the value with the best LAS on dev, and its scores.

    The bonus is None, for the parser's own trees, if no other value is better. Returns the model with it, and
    its scores on dev.
    """
    of_parser = evaluate_treebanks(with_bonus(model, None), dev)
    best, bonus = of_parser, None
    for each in BONUSES:
        scores = evaluate_treebanks(with_bonus(model, each), dev)
        if scores.las > best.las:
            best, bonus = scores, each
    fitted = set_bonus(model, bonus, folder, dev=best.as_dict())
    outcome = "the scorer of arcs does not improve it"
    if bonus is not None:
        outcome = f"{best.las:.2f} with the scorer of arcs and a bonus of {bonus:g} for the parser's own arcs"
    say(f"dev LAS of the parser's own trees {of_parser.las:.2f}; {outcome}")
    return fitted, best


def set_bonus(model: NetworkModel, bonus: float | None, folder: Path, **scores: Any) -> NetworkModel:
    """Replace the model in a folder by one with this bonus. scores: changes to its `scores.json`."""
    about = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    changed = with_bonus(model, bonus)
    changed.save(folder, about | scores)
    return changed


def fit_analyses(
    model: NetworkModel, dev: Sequence[Sentence], folder: Path
) -> tuple[NetworkModel, TreebankScores]:
    """Set `Analyses.bonus` of the model in a folder to the value with the best tags and lemmas on dev.

    Returns the model with it, and its scores on dev.
    """
    measures = [measure for measure in OF_COLUMNS if OF_PREDICTED.get(measure) in model.vocabulary.predicted]
    scored = {bonus: evaluate_treebanks(with_analyses_bonus(model, bonus), dev) for bonus in ANALYSES_BONUSES}
    bonus, best = max(scored.items(), key=lambda each: fmean(map(each[1].percent, measures)))
    about = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    fitted = with_analyses_bonus(model, bonus)
    fitted.save(folder, about | {"dev": best.as_dict()})
    told = ", ".join(f"{NAMES[measure]} {best.percent(measure):.2f}" for measure in measures)
    say(f"dev {told}, with a bonus of {bonus:g} for analyses of the same form in train")
    return fitted, best


def with_analyses_bonus(model: NetworkModel, bonus: float) -> NetworkModel:
    """The model with another `Analyses.bonus`."""
    analyses = replace(model.vocabulary.analyses, bonus=bonus)
    return replace(model, vocabulary=replace(model.vocabulary, analyses=analyses))
