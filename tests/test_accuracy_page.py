"""What docs/accuracy.md tells of the rows of 2026-11-24."""

import re

from rows_of_measurements import ROOT, SPLITS, rows

from parser.config_file import read_config

SEARCH = "accuracy-2026-11-24/search/rows.jsonl"
TEXT = " ".join((ROOT / "docs/accuracy.md").read_text(encoding="utf-8").split())


def test_what_was_tried_around_ud_any():
    *short, long = (f"{run['dev']['las']:.2f}" for run in rows(SEARCH))
    assert f"instead have a dev LAS of {long}" in TEXT
    for las in short:
        assert las in TEXT


def printed_las(path):
    """Of the commands `evaluate` whose output is kept, by split."""
    found = {}
    for row in rows(path):
        split = re.search(r"-ud-(dev|test)", row["command"][-1])[1]
        found[split] = next(line.split()[1] for line in row["printed"] if line.startswith("LAS "))
    return found


def test_what_three_models_gain_together():
    *own, silver, taught = rows("accuracy-2026-11-24/ensemble/rows.jsonl")
    together, others, with_taught, teachers = (
        printed_las(f"accuracy-2026-11-24/ensemble/{name}.jsonl")
        for name in ("together", "with-silver", "with-taught", "teachers")
    )
    for split, text in (("test", "have test LAS"), ("dev", "on dev")):
        scores = [run[split]["las"] for run in own]
        lowest, highest = f"{min(scores):.2f}", f"{max(scores):.2f}"
        assert f"{text} from {lowest} to {highest}, and together {together[split]}" in TEXT
    assert f"has {silver['dev']['las']:.2f} on dev and {silver['test']['las']:.2f} on test" in TEXT
    assert f"it gives {others['dev']} and {others['test']} together" in TEXT
    assert f"The four together have {teachers['dev']} and {teachers['test']}" in TEXT
    las = {split: f"{taught[split]['las']:.2f}" for split in SPLITS}
    place = f"in the same place {with_taught['dev']} and {with_taught['test']}"
    assert f"has {las['dev']} and {las['test']}, and {place}" in TEXT
    gains = {split: f"{taught[split]['las'] - silver[split]['las']:.2f}" for split in SPLITS}
    assert f"{gains['dev']} more on dev and {gains['test']} more on test than without" in TEXT


def test_what_french_adds_to_english():
    uyghur, with_french, greek, greek_with_french = rows("accuracy-2026-11-24/treebanks-together/rows.jsonl")
    pairs = (uyghur, with_french), (greek, greek_with_french)
    gains = {
        split: [f"{abs(more[split]['las'] - less[split]['las']):.2f}" for less, more in pairs]
        for split in SPLITS
    }
    assert f"On dev French adds {' and '.join(gains['dev'])} to English" in TEXT
    assert f"on test it takes {' and '.join(gains['test'])} away" in TEXT


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
