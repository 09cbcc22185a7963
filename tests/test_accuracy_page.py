"""What docs/accuracy.md tells of the rows of 2026-11-24."""

import re
from statistics import mean

import pytest
from rows_of_accuracy import by_name
from rows_of_measurements import ROOT, SPLITS, rows

from parser.config_file import read_config
from parser.tables.differences import difference

pytestmark = pytest.mark.extended

SEARCH = "accuracy-2026-11-24/search/rows.jsonl"
TEXT = " ".join((ROOT / "docs/accuracy.md").read_text(encoding="utf-8").split())


def test_what_was_tried_around_ud_any():
    *short, long = (f"{run['dev']['las']:.2f}" for run in rows(SEARCH))
    assert f"forty epochs with linear decay had a dev LAS of {long}" in TEXT
    for las in short:
        assert las in TEXT


def test_what_the_search_gains_in_full_length():
    now, before = (
        {run["name"]: run["dev"]["las"] for run in rows(f"accuracy-2026-11-{day}/treebanks/rows.jsonl")}
        for day in (24, 22)
    )
    gains = [f"{now[name] - before[name]:.2f}" for name in ("Uyghur UDT", "Ancient Greek PTNK")]
    assert f"by {gains[0]} (Uyghur) and {gains[1]} (Ancient Greek) on dev" in TEXT
    own, _, former, *_ = ensemble_runs()
    means = [f"{mean(run['dev']['las'] for run in runs):.2f}" for runs in (own, former)]
    assert f"have {means[0]} on dev with the new ones and {means[1]} with the former" in TEXT


def printed_las(path):
    """Of the commands `evaluate` whose output is kept, by split."""
    found = {}
    for row in rows(path):
        split = re.search(r"-ud-(dev|test)", row["command"][-1])[1]
        found[split] = next(line.split()[1] for line in row["printed"] if line.startswith("LAS "))
    return found


ENSEMBLE = "accuracy-2026-11-24/ensemble"


def ensemble_runs():
    """Plain seeds and taught ones; and before the search: three seeds, with silver trees, with teachers."""
    runs = rows(f"{ENSEMBLE}/rows.jsonl")
    own = [run for run in runs if run["name"] == "ud-any"]
    taught = [run for run in runs if run["name"].endswith("three teachers")]
    *former, silver, formerly_taught = (run for run in runs if run not in own and run not in taught)
    return own, taught, former, silver, formerly_taught


def extremes(runs, split):
    scores = [run[split]["las"] for run in runs]
    return f"from {min(scores):.2f} to {max(scores):.2f}"


def test_what_three_models_gain_together():
    own, taught, *_ = ensemble_runs()
    assert (len(own), len(taught)) == (3, 2)
    together, with_taught = (printed_las(f"{ENSEMBLE}/{name}.jsonl") for name in ("three", "taught"))
    for split, text in (("test", "have a test LAS"), ("dev", "on dev")):
        assert f"{text} {extremes(own, split)}, and together {together[split]}" in TEXT
    first, second = ({split: f"{run[split]['las']:.2f}" for split in SPLITS} for run in taught)
    assert (
        f"have {first['dev']} and {second['dev']} on dev, {first['test']} and {second['test']} on test"
        in TEXT
    )
    assert f"with the first seed have {with_taught['dev']} and {with_taught['test']}" in TEXT


def test_what_silver_trees_and_teachers_gained_before_the_search():
    own, _, former, silver, taught = ensemble_runs()
    together, others, with_taught, teachers = (
        printed_las(f"{ENSEMBLE}/{name}.jsonl")
        for name in ("together", "with-silver", "with-taught", "teachers")
    )
    assert f"had a test LAS {extremes(former, 'test')}, and together {together['test']}" in TEXT
    means = [f"{mean(run['test']['las'] for run in runs):.2f}" for runs in (former, own)]
    assert f"had a mean of {means[0]} on test; with the new settings it is {means[1]}" in TEXT
    las = {split: [f"{run[split]['las']:.2f}" for run in (silver, taught)] for split in SPLITS}
    assert f"silver trees alone one parser had {las['dev'][0]} on dev and {las['test'][0]} on test" in TEXT
    assert f"with four teachers, too, {las['dev'][1]} and {las['test'][1]}" in TEXT
    assert f"The four together had {teachers['dev']} and {teachers['test']}" in TEXT
    assert f"gave {others['test']} and {with_taught['test']} on test" in TEXT


def test_what_french_adds_to_english():
    uyghur, with_french, greek, greek_with_french = rows("accuracy-2026-11-24/treebanks-together/rows.jsonl")
    pairs = (uyghur, with_french), (greek, greek_with_french)
    gains = {
        split: [f"{abs(more[split]['las'] - less[split]['las']):.2f}" for less, more in pairs]
        for split in SPLITS
    }
    assert f"On dev French adds {' and '.join(gains['dev'])} to English" in TEXT
    assert f"on test it takes {' and '.join(gains['test'])} away" in TEXT


def test_what_errors_gain_with_arc_eager():
    runs = by_name("accuracy-2026-11-24/exploration/rows.jsonl")
    gains = {
        split: difference(
            *(
                {run["seed"]: run[split]["las"] for run in runs[f"{follow}, arc-eager"]}
                for follow in ("errors", "none")
            )
        )
        for split in SPLITS
    }
    on_test, on_dev = gains["test"].removesuffix(", 3 seeds"), gains["dev"].partition(" ")[0]
    assert f"errors have {on_test} on test and {on_dev} on dev" in TEXT


def test_what_the_worst_seed_has_with_a_margin():
    runs = rows("accuracy-2026-11-24/exploration/rows.jsonl")
    worst = {
        name: min(run["test"]["las"] for run in runs if run["name"] == name)
        for name in ("none, margin", "errors, margin")
    }
    assert (
        f"one has a test LAS of {worst['none, margin']:.2f}, and of {worst['errors, margin']:.2f} with"
        in TEXT
    )


def test_the_distilled_parser_has_the_network_of_the_small_one():
    small, distilled = (
        read_config(ROOT / f"configs/{name}.yaml") for name in ("ud-fast", "ud-fast-distilled")
    )
    assert distilled.parser == small.parser
