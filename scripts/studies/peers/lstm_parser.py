"""The parser of Dyer et al. 2015 in C++, compared with ours: its training speed, with the paper's sizes.

python scripts/studies/peers/lstm_parser.py transitions TREEBANK.conllu TRANSITIONS
python scripts/studies/peers/lstm_parser.py train PROGRAM TRANSITIONS [--lines N]

PROGRAM is `lstm-parse` of https://github.com/clab/lstm-parser, built for this processor. `transitions` writes
the transitions of the projective trees in the program's format. `train` starts the training, prints the
number of sentences per second, and stops it. Reading the file and the first sentences do not count.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import is_projective
from parser.treebank.sentence import Sentence

SIZES = {
    "layers": 2,
    "hidden_dim": 100,
    "lstm_input_dim": 100,
    "input_dim": 32,
    "pos_dim": 12,
    "action_dim": 20,
    "rel_dim": 20,
}
"""The sizes of Dyer et al. 2015. `input_dim` is the size of a word, `lstm_input_dim` the size of a token."""
SENTENCES = 100
"""Sentences between two lines that the program prints. It makes an update after each sentence."""
WARM_UP = 3
"""Lines before the measurement. Before the second one the program parses its dev set, here one sentence."""
LINE = re.compile(r"update #\d+ ")


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = arguments.add_subparsers(dest="command", required=True)
    command = commands.add_parser("transitions")
    command.add_argument("treebank")
    command.add_argument("output", type=Path)
    command = commands.add_parser("train")
    command.add_argument("program", type=Path)
    command.add_argument("transitions", type=Path)
    command.add_argument("--lines", type=int, default=20, help=f"of {SENTENCES} sentences (default: 20)")
    given = arguments.parse_args()
    if given.command == "transitions":
        projective = (tree for tree in read_treebank(given.treebank) if is_projective(tree.heads))
        given.output.parent.mkdir(parents=True, exist_ok=True)
        given.output.write_text("".join(map(as_block, projective)), encoding="utf-8")
    else:
        print(f"{trained_per_second(given.program, given.transitions, given.lines):,.1f} sentences/s")


def as_block(tree: Sentence) -> str:
    """A tree in the program's format: its words, and each transition below the state, which can be empty."""
    words = ", ".join(f"{form}-{tag}" for form, tag in zip(tree.forms, tree.upos, strict=True))
    states = [f"[][{words}, ROOT-ROOT]", *["[][]"] * (2 * len(tree.forms))]
    return "\n" + "".join(f"{state}\n{action}\n" for state, action in zip(states, actions(tree), strict=True))


def actions(tree: Sentence) -> Iterator[str]:
    """The transitions of the arc-standard system with ROOT as the last word."""
    root = len(tree.heads) + 1
    heads = [root if head == 0 else head for head in tree.heads]
    missing = [heads.count(word) for word in range(root + 1)]  # number of dependents that a word still lacks
    stack: list[int] = []
    for word in range(1, root + 1):
        yield "SHIFT"
        stack.append(word)
        while len(stack) > 1:
            below, top = stack[-2:]
            if heads[below - 1] == top:
                kind, dependent = "LEFT", below
            elif top < root and heads[top - 1] == below and not missing[top]:
                kind, dependent = "RIGHT", top
            else:
                break
            yield f"{kind}-ARC({tree.labels[dependent - 1]})"
            missing[heads[dependent - 1]] -= 1
            stack.remove(dependent)


def trained_per_second(program: Path, transitions: Path, lines: int) -> float:
    with tempfile.TemporaryDirectory() as folder:  # where it writes its model
        dev = Path(folder, "dev.txt")
        dev.write_text(transitions.read_text(encoding="utf-8").split("\n\n", 1)[0] + "\n", encoding="utf-8")
        files = ["--training_data", str(transitions.resolve()), "--dev_data", str(dev)]
        sizes = [part for name, size in SIZES.items() for part in (f"--{name}", str(size))]
        command = [str(program.resolve()), *files, *sizes, "--use_pos_tags", "--train"]
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                times = _times_of_lines(process, WARM_UP + lines + 1)
            finally:
                process.kill()
    return SENTENCES * lines / (times[-1] - times[WARM_UP])


def _times_of_lines(process: subprocess.Popen[str], count: int) -> Sequence[float]:
    """The times of the program's first lines of progress, in seconds."""
    times: list[float] = []
    told: list[str] = []
    assert process.stderr
    for line in process.stderr:
        told.append(line)
        if LINE.search(line):
            times.append(time.perf_counter())
        if len(times) == count:
            return times
    raise SystemExit(f"{process.args}: it ended before {count} lines of progress: {''.join(told[-5:])}")


if __name__ == "__main__":
    main()
