"""The script that counts errors before and behind the first one of a sentence."""

import re
import sys
from pathlib import Path

import pytest
import torch
from plain_parser import make_inventory
from programs import script
from small_parsers import SOME_TREES, examples

from parser.parsing.model import Model
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")


def plain_counts(is_wrong):
    found, behind = [0, 0, 0, 0], False
    for wrong in is_wrong:
        found[2 * behind] += 1
        found[2 * behind + 1] += wrong
        behind = behind or wrong
    return found


def test_transitions_up_to_the_first_error_and_behind_it():
    count = script("count_errors")
    for number in range(2**6):
        is_wrong = [bool(number >> place & 1) for place in range(6)]
        assert count.counts(torch.tensor(is_wrong)).tolist() == plain_counts(is_wrong)


@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
def test_gold_trajectories_have_all_that_is_optimal(system):
    """The static oracle names one transition for each step, and others may be as good."""
    inventory = make_inventory(system)
    prepared = examples(inventory, SOME_TREES)
    found = script("count_errors").gold_trajectory(inventory, prepared.gold, prepared.steps)
    taken = found.transitions != inventory.no_op
    assert torch.equal(found.transitions[taken], prepared.steps.values[:, 0])
    ours, static = (
        inventory.with_optimal_labels(labels)
        for labels in (found.optimal_labels[taken], prepared.optimal_labels.values)
    )
    assert (ours | ~static).all()
    assert ours.sum() > static.sum()


def test_a_parser_is_counted_in_both_ways(monkeypatch, capsys):
    """On trees that it parsed itself, it makes no errors but for what was lifted in them."""
    path = "tests/model"
    asked = ["count_errors.py", path, "--treebank", f"{path}/parsed.conllu"]
    monkeypatch.setattr(sys, "argv", asked)
    script("count_errors").main()
    words = sum(len(sentence) for sentence in read_treebank(f"{path}/parsed.conllu"))
    for way, line in zip(("parsing", "gold"), capsys.readouterr().out.splitlines(), strict=True):
        wrong, transitions, behind = re.fullmatch(
            rf"{path}, {way}: ([.\d]+)% of (\d+) transitions .*, [.\d]+% of (\d+) behind it", line
        ).groups()
        assert float(wrong) < 0.5
        assert int(transitions) + int(behind) == 2 * words  # each is shifted, and gets a head


def test_a_system_without_a_dynamic_oracle(monkeypatch, tmp_path):
    path = "tests/model"
    model = Model.load(Path(path), CPU)
    settings = model.settings.model_copy(update={"system": "arc-standard"})
    Model.build(settings, model.vocabulary, CPU).save(tmp_path, {})
    asked = ["count_errors.py", str(tmp_path), "--treebank", f"{path}/parsed.conllu"]
    monkeypatch.setattr(sys, "argv", asked)
    with pytest.raises(SystemExit, match="arc-standard has no dynamic oracle"):
        script("count_errors").main()
