"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO, get_args

import torch
from tqdm import tqdm

from parser import __version__
from parser.check import describe
from parser.config import data_path
from parser.config_file import read_config
from parser.console import LONG_WORK, warn
from parser.evaluation.evaluate import evaluate
from parser.evaluation.report import compared, report
from parser.evaluation.significance import compare
from parser.files import whole_file
from parser.machine import choose_device, one_memory_error, peak_memory, tune_process
from parser.parsing.model import Model
from parser.parsing.parse import BATCH_SIZE, parse_stream
from parser.stamp import stamp
from parser.training.folder import BEST_MODEL
from parser.training.interruption import StoppedError, broken_off
from parser.training.loop import train
from parser.training.result import write_result
from parser.treebank.conllu import Roots, read_treebank, stream_sentences, with_probabilities, with_tree
from parser.treebank.sentence import Sentence

DONE, USER_ERROR, INTERRUPTED = 0, 2, 130
SIGNALLED = 128
"""Plus a signal's number: what a shell makes of a process that it ended."""
WHAT_NEEDS_LESS = (
    "training needs less with a lower training.batch_size, training.max_batch_words, or sizes in "
    "parser.network; parsing with a lower --batch-size"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 2 what the user gave is wrong, 130 interrupted."""
    options = _arguments().parse_args(arguments)
    tune_process()
    try:
        with one_memory_error():
            options.command(options)
    except torch.OutOfMemoryError as error:
        why = f": {error}" if str(error) else ""
        print(f"out of memory{why}\n{WHAT_NEEDS_LESS}", file=sys.stderr)
        return USER_ERROR
    except (ValueError, OSError) as error:
        if isinstance(error, BrokenPipeError) and options.command is not _train:
            # Whoever read our output has seen enough; nothing more may be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return DONE
        print(_message(error), file=sys.stderr)
        return USER_ERROR
    except StoppedError as stopped:
        print(stopped, file=sys.stderr)
        return SIGNALLED + stopped.signal
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return DONE


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.strerror:
        return f"writing the output: {error.strerror}"
    return str(error)


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="stack-parser", description="Train and use StackLSTM dependency parsers."
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    command = commands.add_parser("train", help="train a parser as a config says")
    command.add_argument("config", type=Path, metavar="CONFIG", help="YAML file, as those in configs/")
    command.add_argument(
        "--run", type=Path, help="folder of the run; runs/NAME for configs/NAME.yaml unless said"
    )
    _add_overrides(command)
    command.add_argument(
        "--resume", action="store_true", help="go on with a run that was stopped, as if it had not been"
    )
    command.set_defaults(command=_train)

    command = commands.add_parser("evaluate", help="score a trained parser on a treebank")
    _add_model(command)
    command.add_argument("treebank", metavar="FILE", help="CoNLL file with gold trees, may be .gz")
    _add_roots(command)
    command.add_argument("--json", action="store_true", help="print one object instead of a report")
    command.add_argument("--no-punct", action="store_true", help="leave punctuation out of the scores")
    command.set_defaults(command=_evaluate)

    command = commands.add_parser("parse", help="write trees into a CoNLL file")
    _add_model(command)
    command.add_argument("input", metavar="IN", help="CoNLL file, may be .gz; - for standard input")
    command.add_argument("-o", "--output", default="-", metavar="OUT", help="standard output unless said")
    command.add_argument(
        "--scores", action="store_true", help="write the probability of each arc and its label to MISC"
    )
    command.set_defaults(command=_parse)

    command = commands.add_parser("compare", help="say whether one parser is better than another")
    command.add_argument("first", type=Path, metavar="MODEL_A", help="folder of a trained model")
    _add_model(command, "MODEL_B")
    command.add_argument("treebank", metavar="FILE", help="CoNLL file with gold trees, may be .gz")
    _add_roots(command)
    command.add_argument("--no-punct", action="store_true", help="leave punctuation out of the scores")
    command.set_defaults(command=_compare)

    command = commands.add_parser("check", help="validate treebanks and describe them")
    command.add_argument("treebanks", nargs="+", metavar="FILE", help="CoNLL file, may be .gz")
    _add_roots(command)
    command.set_defaults(command=_check)

    command = commands.add_parser("table", help="train what a table asks for, and write it")
    command.add_argument("config", type=Path, metavar="CONFIG", help="YAML file, as those in configs/tables/")
    command.add_argument(
        "--run", type=Path, help="folder; runs/tables/NAME for configs/tables/NAME.yaml unless said"
    )
    command.set_defaults(command=_table)

    command = commands.add_parser("speed", help="measure batching methods side by side, as a config says")
    command.add_argument("config", type=Path, metavar="CONFIG", help="YAML file, as those in configs/speed/")
    command.add_argument(
        "--run", type=Path, help="folder of the run; runs/speed/NAME for configs/speed/NAME.yaml unless said"
    )
    _add_overrides(command)
    command.add_argument(
        "--only",
        default="",
        metavar="KEY=VALUE|VALUE,…",
        help="measure just these cells: method=step,batch_size=1|64",
    )
    command.add_argument(
        "--ratio", action="append", default=[], metavar="A/B", help="print it: method=replay/method=step"
    )
    command.set_defaults(command=_speed)

    command = commands.add_parser("plots", help="draw and tell again what a speed run measured")
    command.add_argument("run", type=Path, metavar="RUN", help="folder, as runs/speed/quick")
    command.set_defaults(command=_plots)

    command = commands.add_parser("plugins", help="list what can be measured, or check a plugin")
    command.add_argument("--check", metavar="NAME", help="try whether the plugin does what every plugin must")
    command.set_defaults(command=_plugins)
    return parser


def _add_overrides(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="change the config, as with --set training.batch_size=32; may be given several times",
    )


def _add_roots(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--roots",
        choices=get_args(Roots),
        default="refuse",
        help="what to do with trees that have several roots (%(default)s)",
    )


def _add_model(command: argparse.ArgumentParser, name: str = "MODEL") -> None:
    command.add_argument("model", type=Path, metavar=name, help="folder of a trained model")
    command.add_argument(
        "--device", default="auto", help="cpu, cuda, ...; CUDA where there is one unless said"
    )
    command.add_argument("--threads", type=_positive, default=1, help="CPU threads (%(default)s)")
    command.add_argument(
        "--batch-size",
        type=_positive,
        default=BATCH_SIZE,
        help="sentences parsed at the same time (%(default)s)",
    )
    command.add_argument("--slots", type=_renamed("--batch-size"), help=argparse.SUPPRESS)


def _train(options: argparse.Namespace) -> None:
    config = read_config(options.config, options.overrides)
    run = options.run or Path("runs") / options.config.stem
    device = choose_device(config.device)
    torch.set_num_threads(config.threads)
    test = None
    if config.treebank.test:
        test = read_treebank(data_path(config.treebank.test), config.treebank.roots)
    began = stamp()
    scores = train(config, run, device, options.resume)
    test_scores = evaluate(Model.load(run / BEST_MODEL, device), test) if test else None
    result = write_result(run, scores, test_scores, device, began)
    epochs = f"epoch {result['best_epoch']} of {result['epochs']}"
    took = f"{result['seconds']:.0f} s of training and dev on {device}"
    print(f"\nbest model: {run / BEST_MODEL}, {epochs}, {took}")
    print(f"dev   UAS {scores.uas:.2f}  LAS {scores.las:.2f}")
    if test_scores:
        print(f"test  UAS {test_scores.uas:.2f}  LAS {test_scores.las:.2f}")
    print(f"peak memory {peak_memory(device)}")


def _evaluate(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    model = Model.load(options.model, choose_device(options.device))
    gold = list(_watched(model, read_treebank(options.treebank, options.roots), options.treebank))
    scores = evaluate(model, gold, options.batch_size, punctuation=not options.no_punct)
    print(json.dumps(scores.as_dict()) if options.json else report(scores))


def _compare(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    gold = read_treebank(options.treebank, options.roots)
    device = choose_device(options.device)
    folders = options.first, options.model
    models = [Model.load(folder, device) for folder in folders]
    for folder, model in zip(folders, models, strict=True):
        gold = list(_watched(model, gold, f"{folder}: {options.treebank}"))
    first, second = ([tree for _, tree in parse_stream(model, gold, options.batch_size)] for model in models)
    comparison = compare(gold, first, second, punctuation=not options.no_punct)
    print(compared(comparison, str(options.first), str(options.model)))


def _parse(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    model = Model.load(options.model, choose_device(options.device))
    sentences = words = 0
    began = time.monotonic()
    with broken_off(), _open_output(options.output, options.input) as output:
        sentences_read = _watched(model, stream_sentences(options.input, tree=False), options.input)
        parsed = parse_stream(model, sentences_read, options.batch_size, probabilities=options.scores)
        hidden = {"disable": True} if options.output == "-" else {}
        for sentence, tree in tqdm(parsed, desc="parsing", unit=" sentences", **{**LONG_WORK, **hidden}):
            if tree.probabilities:
                sentence = with_probabilities(sentence, tree.probabilities)
            output.write(with_tree(sentence, tree.heads, tree.labels))
            sentences += 1
            words += len(sentence)
    seconds = time.monotonic() - began
    speed = sentences / seconds
    print(
        f"{sentences:,} sentences, {words:,} words in {seconds:.1f} s: {speed:,.0f} sentences/s",
        file=sys.stderr,
    )


def _watched(model: Model, sentences: Iterable[Sentence], about: str) -> Iterator[Sentence]:
    """The sentences; warns if they lack what the model reads. about: where they come from."""
    return model.watch().over(sentences, lambda text: warn(f"warning: {about}: {text}"))


@contextmanager
def _open_output(path: str, source: str) -> Iterator[TextIO]:
    """A file that takes its name when it is whole, or standard output."""
    if path == "-":
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape", newline="")  # type: ignore[union-attr]
        yield sys.stdout
        return
    if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
        raise ValueError(f"{path}: output would overwrite the input while it is read; choose another name")
    with whole_file(path) as file:
        yield file


def _check(options: argparse.Namespace) -> None:
    failures = []
    for treebank in options.treebanks:
        try:
            print(describe(treebank, options.roots))
        except BrokenPipeError:
            raise
        except (ValueError, OSError) as error:
            failures.append(_message(error))
    if failures:
        raise ValueError("\n".join(failures))


def _table(options: argparse.Namespace) -> None:
    from parser.tables import commands  # takes half a second, which the other commands need not wait

    commands.make_table(options.config, options.run or Path("runs") / "tables" / options.config.stem)


def _speed(options: argparse.Namespace) -> None:
    from parser.speed import commands  # as above

    folder = options.run or Path("runs") / "speed" / options.config.stem
    commands.speed(options.config, options.overrides, folder, options.only, options.ratio)


def _plots(options: argparse.Namespace) -> None:
    from parser.speed import commands

    commands.plots(options.run)


def _plugins(options: argparse.Namespace) -> None:
    from parser.speed import commands

    if options.check:
        commands.check_plugin(options.check)
    else:
        commands.list_plugins()


def _renamed(now: str) -> Callable[[str], None]:
    """The type of an option that has another name now."""

    def refuse(text: str) -> None:
        raise argparse.ArgumentTypeError(f"this option is now called {now}")

    return refuse


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)
