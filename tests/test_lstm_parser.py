"""The script that starts the C++ parser of Dyer et al. 2015."""

import sys
from dataclasses import replace
from functools import cache

import pytest
from plain_parser import projective_trees
from programs import script

from parser.treebank.conllu import read_treebank

WORDS = ["Cats", "-", ",", "sleep", "."]


@cache
def first_sentence():
    return read_treebank("data/quickstart/dev.conllu")[0]


def sentence(heads):
    count = len(heads)
    return replace(
        first_sentence(),
        forms=tuple(WORDS[:count]),
        upos=("X",) * count,
        heads=tuple(heads),
        labels=tuple(f"of{head}" for head in heads),
    )


def tree_of(actions, count):
    """The heads that transitions of arc-standard make; ROOT is the last word, and 0 as a head."""
    stack, waiting, heads = [], list(range(1, count + 2)), [None] * count
    for action in actions:
        if action == "SHIFT":
            # The program does not allow pushing ROOT onto more than one word.
            assert len(waiting) > 1 or len(stack) == 1
            stack.append(waiting.pop(0))
            continue
        below, top = stack[-2:]
        head, dependent = (top, below) if action.startswith("LEFT") else (below, top)
        heads[dependent - 1] = head % (count + 1)
        assert action.endswith(f"-ARC(of{heads[dependent - 1]})")
        stack.remove(dependent)
    assert (stack, waiting) == ([count + 1], [])
    return tuple(heads)


@pytest.mark.parametrize("length", [1, 2, 4, 5])
def test_transitions_make_the_tree(length):
    program = script("lstm_parser")
    for heads in projective_trees(length):
        assert tree_of(program.actions(sentence(heads)), length) == tuple(heads)


def test_what_the_program_reads_of_a_tree():
    assert script("lstm_parser").as_block(sentence((2, 0, 2))) == (
        "\n[][Cats-X, --X, ,-X, ROOT-ROOT]\nSHIFT\n"
        "[][]\nSHIFT\n"
        "[][]\nLEFT-ARC(of2)\n"
        "[][]\nSHIFT\n"
        "[][]\nRIGHT-ARC(of2)\n"
        "[][]\nSHIFT\n"
        "[][]\nLEFT-ARC(of0)\n"
    )


PROGRAM = """#!/bin/sh
echo "NUMBER OF TRAINING SENTENCES: 2" >&2
for number in 0 1 2 3 4 5; do echo "[epoch=0 eta=0.1] update #$number (epoch 0.1)" >&2; done
"""


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts a program that prints six lines of progress, and measures the given number of them."""
    program, transitions = tmp_path / "lstm-parse", tmp_path / "transitions.txt"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    transitions.write_text(script("lstm_parser").as_block(sentence((2, 0))))

    def start(lines):
        arguments = ["lstm_parser.py", "train", str(program), str(transitions), "--lines", str(lines)]
        monkeypatch.setattr(sys, "argv", arguments)
        script("lstm_parser").main()

    return start


def test_the_speed_of_training_is_printed(started, capsys):
    started(2)
    assert capsys.readouterr().out.endswith(" sentences/s\n")


def test_a_program_that_ends_too_early_is_named(started):
    with pytest.raises(SystemExit, match=r"(?s)lstm-parse.*it ended before 7 lines of progress.*update #5"):
        started(3)
