"""Figures in README.md and docs/ are those of the rows that are kept."""

import json
import re
from statistics import mean

import pytest
from kept_rows import expected, in_training, precision
from rows_of_accuracy import FEATURES, TEXT, features, gain
from rows_of_measurements import MEASURED, ROOT, SPLITS, printed, rows
from simulated_cuda.budgets import LAUNCHES

from parser.config import Config
from parser.config_file import read_config
from parser.former_names import with_new_names
from parser.speed.findings import ratio
from parser.speed.statistics import median_of

pytestmark = pytest.mark.extended

PAGES = ["README.md", *(f"docs/{page.name}" for page in sorted(ROOT.glob("docs/*.md")))]
HEADER = re.compile(r"^\|.*\n(?=\|---)", re.MULTILINE)
MEASURED_CELL = re.compile(r"\| *[+-]?\d[\d,]*\.\d|\| *\d{3,}")
"""The beginning of a cell that looks like a measurement."""


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_tables_have_the_figures_of_the_rows(page):
    lines = text_of(page).splitlines()
    assert [line for line in expected(page) if line not in lines] == []


def test_seven_pages_have_tables_of_measurements():
    assert sum(bool(expected(page)) for page in PAGES) == 7


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/settings.md"])
def test_no_figure_stands_in_a_table_without_a_row(page):
    lines = HEADER.sub("", text_of(page)).splitlines()
    told = [line for line in lines if MEASURED_CELL.search(line)]
    known = (*expected(page), *(f"| {settings} |" for settings in FEATURES))
    assert [line for line in told if not line.startswith(known)] == []


def test_what_a_feature_contributes_is_told_of_equal_seeds():
    lines = text_of("docs/accuracy.md").splitlines()
    for settings, *splits in features():
        line = next(line for line in lines if line.startswith(f"| {settings} |"))
        for cell, gains in zip(line.split("|")[3:5], splits, strict=True):
            assert re.findall(r"[+-]\d+\.\d\d", cell) == gains


def test_the_output_of_the_quick_start_is_what_was_printed():
    readme = text_of("README.md")
    [scores] = re.findall(r"\n\n((?:    (?:dev|test|text) .*\n){3})", readme)
    [tree] = re.findall(r"\n\n((?:    [╭╰│├─ ].*\n){6})", readme)
    for command, shown in (("quickstart.yaml", scores), ("draw --text", tree)):
        lines = [line.strip() for line in printed(command, TEXT)]
        assert [line for line in shown.splitlines() if line.strip() not in lines] == []


def test_the_costs_of_raw_text_are_told_as_printed():
    *_, speeds, share = printed("measure_tokenizing", TEXT)
    tokenized, parsed = (f"{float(speed):,.0f}" for speed in re.findall(r"([\d.]+) \[", speeds))
    share = re.search(r"[\d.]+ \[.*\]", share)[0]
    in_prose("docs/accuracy.md", f"{tokenized} sentences/s", f"{parsed} sentences/s", f"{share} of the time")
    [english] = [run for run in rows("text-2026-11-24/treebanks/rows.jsonl") if run["name"] == "English EWT"]
    in_prose("README.md", f"from raw text a LAS of {english['text']['las']:.2f}")


def test_the_gains_of_several_processes_are_told_as_printed():
    lines = printed("scripts", "processes-2026-11-24/rows.jsonl")
    gains = [line.rpartition(": ")[2] for line in lines if "processes over one" in line]
    assert len(gains) == 6
    in_prose("docs/scale.md", *gains)
    one, two = (
        line.rpartition(" ")[2]
        for line in printed("train", "processes-2026-11-24/rows.jsonl")
        if "UAS" in line
    )
    in_prose("docs/scale.md", f"a dev LAS of {one} by one process and of {two} by two")


def in_prose(page, *sentences):
    text = " ".join(text_of(page).split())
    assert [sentence for sentence in sentences if sentence not in text] == []


def test_the_shipped_treebank_is_told_as_printed():
    lines = printed("make_treebank.py")
    sentences = {line.split()[0]: f"{int(line.split()[1]):,}" for line in lines[1:4]}
    guessed = max(float(line.split()[-2]) for line in lines[-3:])
    assert sentences["dev"] == sentences["test"]
    in_prose("docs/treebanks.md", f"{sentences['train']} training sentences and {sentences['dev']} each")
    in_prose("docs/treebanks.md", f"reaches a LAS of {guessed:.0f} on dev")


def test_levels_and_steps_are_told_as_printed():
    lines = "\n".join(printed("measure_levels"))
    (level, most_levels), (step, most_steps) = re.findall(r"median (\d+), greatest (\d+)", lines)
    assert re.search(rf"steps of the deepest .*\b{most_steps}$", lines, re.MULTILINE)
    in_prose(
        "README.md",
        f"a median of {step} steps but {level} levels",
        f"the longest has {most_steps} steps and {most_levels} levels",
    )


def test_accuracy_is_told_in_prose_as_in_the_rows():
    plain = rows("accuracy-2026-11-22/english-ewt/rows.jsonl")[0]
    dev, test = (
        (
            round(plain[split]["crossing_recall"] * plain[split]["crossing_arcs"] / 100),
            plain[split]["crossing_arcs"],
        )
        for split in SPLITS
    )
    assert test[0] == 0
    english = next(
        run for run in rows("accuracy-2026-11-22/treebanks/rows.jsonl") if run["name"] == "English EWT"
    )
    seeds = [run[split]["las"] for split in SPLITS for run in rows("accuracy-2026-11-22/parts/rows.jsonl")
             if run["name"] == "plain"]  # fmt: skip
    assert max(seeds[:3]) - min(seeds[:3]) < 0.3
    in_prose(
        "docs/accuracy.md",
        f"This is {plain['epochs']} epochs on one thread of an AMD EPYC, "
        f"in {plain['seconds'] / 60:.1f} minutes",
        f"{dev[0]} of {dev[1]} on dev and none of {test[1]} on test",
        f"this took {english['epochs']} epochs; the best was epoch {english['best_epoch']}",
    )


def test_batch_sizes_are_told_in_prose_as_in_the_rows():
    found = {}
    for run in rows("accuracy-2026-11-22/batch-size/rows.jsonl"):
        found.setdefault(run["name"], []).append(run["test"]["las"])
    las = {name: mean(values) for name, values in found.items()}
    large = {run["name"]: run["test"]["las"] for run in rows("accuracy-2026-11-22/large-batches/rows.jsonl")}
    best = large["falling linearly, dropout 0.33"]
    assert best > max(las.values())
    in_prose(
        "docs/accuracy.md",
        f"{las['8, warm-up'] - las['256, warm-up']:.1f} points of LAS behind batches of 8",
        f"another {las['256, warm-up'] - las['256, none']:.0f} points without warm-up",
        f"256 reaches {best:.2f}",
    )


def test_messages_are_told_in_prose_as_in_the_rows():
    found = rows("messages-2026-11-23/rows.jsonl")

    def times(experiment, first, second, digits):
        one, other = (in_training(experiment, method, 100, found) for method in (first, second))
        return f"{ratio(one, other).value:.{digits}f}"

    in_prose(
        "docs/messages.md",
        f"16 active instances are {times('mnist', 'active-16', 'active-1', 1)} times as fast as one",
        f"({times('mnist-update-after-4', 'active-16', 'active-1', 1)} with fewer updates)",
        f"{times('mnist', 'active-16', 'none', 2)} of the speed of plain training",
        f"On lists they have {times('lists', 'active-16', 'none', 2)} of that speed",
    )


def test_the_machine_is_told_as_in_the_rows():
    found = rows("stack-lstm-2026-11-21/rows.jsonl")
    torch = {row["versions"]["torch"].partition("+")[0] for row in found}
    assert torch == {"2.13.0"}
    share = in_training("ding-koehn-2019", "replay", 64, found)["mfu"]
    assert share == pytest.approx(2 / 3, abs=0.05)
    assert 110 in {round(row["ceiling"] / 1e9) for row in found}
    in_prose("docs/speed.md", "PyTorch 2.13.0", "at two thirds of the machine's own speed")
    in_prose("docs/speed.md", "at 110 GFLOP/s on one thread")
    source = ROOT / "docs/example-plugin/packed_gru.py"
    in_prose("docs/speed.md", f"an example of {len(source.read_text().splitlines())} lines")


def test_single_runs_are_of_the_configs_they_are_named_after():
    for run in rows("accuracy-2026-11-22/english-ewt/rows.jsonl"):
        config = read_config(ROOT / "configs" / f"{run['name']}.yaml")
        assert Config.model_validate_json(json.dumps(with_new_names(run["config"]))) == config


def test_the_figures_without_gold_tags_are_those_of_the_rows():
    [english] = [
        run for run in rows("accuracy-2026-11-23/untagged/rows.jsonl") if run["name"] == "English EWT"
    ]
    told = (
        f"a test LAS of {english['test']['las']:.2f} and a UPOS of {english['test']['upos']:.2f} on English"
    )
    in_prose("README.md", told)


PARTS = {
    "XPOS and FEATS": "XPOS and FEATS",
    "LSTM over the sentence": "LSTM over the sentence",
    "composition (3)": "composition",
    "exploration (3)": "exploration",
    "word features": "words shown",
    "lemmas": "lemmas",
    "characters": "characters",
    "averaged weights": "averaged weights",
}


@pytest.mark.parametrize(("label", "name"), PARTS.items())
def test_what_a_part_gives_is_told_of_equal_seeds(label, name):
    text = (MEASURED / "README.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if line.startswith(f"| {label} |"))
    for split, column in (("dev", 3), ("test", 5)):
        assert line.split("|")[column].strip(" *") == gain(name, split)


def test_late_gradients_are_told_as_they_are_kept():
    text = (MEASURED / "README.md").read_text(encoding="utf-8")
    found = {}
    for row in rows("late-gradients-2026-11-22/rows.jsonl"):
        found.setdefault((row["late"], row["settings"]["learning_rate"]), []).append(100 * row["scores"][-1])
    for right in found.values():
        assert f"| {', '.join(f'{score:.2f}' for score in sorted(right))} |" in text


def test_programs_are_told_as_they_are_kept():
    text = (MEASURED / "README.md").read_text(encoding="utf-8")
    kept = sorted(rows("programs-2026-11-22/rows.jsonl"), key=lambda row: (row["epoch"], row["method"]))
    for kind, guessed in kept[0]["majority"].items():
        cells = [guessed, *(row["accuracy"][kind] for row in kept)]
        assert f"| {kind.replace('_', ' ')} | {' | '.join(f'{cell:.1f}' for cell in cells)} |" in text


def test_the_speeds_of_whole_parsers_are_those_of_the_rows():
    speeds = {
        run["name"]: f"{median_of(run['speeds']).value:,.0f}"
        for run in rows("peers-2026-11-23/external.jsonl")
    }
    in_prose(
        "README.md",
        f"it parses {speeds['ud-fast']} sentences/s of that test set",
        f"parses {speeds['spaCy, efficiency']}, UDPipe 1 {speeds['UDPipe 1']}",
    )
    las = mean(
        run["test"]["las"]
        for run in rows("accuracy-2026-11-23/time-to-accuracy/rows.jsonl")
        if run["name"] == "ud-fast"
    )
    in_prose("README.md", f"has a test LAS of {las:.2f} on English EWT")


def test_what_bfloat16_gains_is_told_as_in_the_rows():
    lines = (MEASURED / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in precision() if line not in lines] == []


def test_the_accuracy_in_bfloat16_is_that_of_the_rows():
    runs = rows("accuracy-2026-11-23/precision/rows.jsonl")
    las = {
        (precision, split): f"{mean(run[split]['las'] for run in runs if precision_of(run) == precision):.2f}"
        for precision in ("bfloat16", "float32")
        for split in ("dev", "test")
    }
    in_prose(
        "docs/measurements/README.md",
        f"dev LAS is {las['bfloat16', 'dev']} in bfloat16 and {las['float32', 'dev']} in float32, "
        f"test LAS {las['bfloat16', 'test']} and {las['float32', 'test']}",
    )


def precision_of(run):
    """Of older runs, which have no such setting, float32."""
    return run["config"]["training"].get("precision", "float32")


def test_what_is_predicted_for_a_gpu_is_told_as_in_the_rows():
    speeds = {}
    for row in rows("predicted-gpu/rows.jsonl"):
        if (row["device"], row["precision"]) == ("H100 SXM", "float32"):
            speeds[row["method"], row["batch_size"]] = row
            assert row["binds"] == "host" or row["method"] == "replay-graph"

    def told(method, size, how="sentences_per_second"):
        return f"{float(f'{speeds[method, size][how]:.3g}'):,.0f}"

    overlapped = [told("replay", size, "sentences_per_second_side_by_side") for size in (64, 256)]
    in_prose(
        "docs/speed.md",
        f"replay {told('replay', 64)} sentences per second at 64 and {told('replay', 256)} at 256",
        f"and {overlapped[0]} and {overlapped[1]} where the thread",
        f"is given {told('step-naive', 64)} and {told('step-naive', 256)}",
        f"With CUDA graphs replay is given {told('replay-graph', 64)} and {told('replay-graph', 256)}",
        "come within 30 % of what is measured",
        *(
            f"launches of a training step by {name}: {once}, and {repeated} for each"
            for name, (once, repeated) in LAUNCHES.items()
        ),
    )


def test_what_graphs_need_is_told_as_in_the_rows():
    found = {row["batch_size"]: row for row in rows("shapes-2026-11-23/rows.jsonl")}
    shapes, shares, padding = (
        [spec.format(found[size][what]) for size in (64, 256)]
        for what, spec in (("shapes", "{}"), ("share", "{:.1%}"), ("padding", "{:.1%}"))
    )
    shares, padding = ([number.replace("%", " %") for number in part] for part in (shares, padding))
    in_prose(
        "docs/speed.md",
        f"makes {shapes[0]} graphs at batch size 64 and {shapes[1]} at 256",
        f"serve {shares[0]} and {shares[1]} of the batches",
        f"run over {padding[0]} and {padding[1]} more rows",
    )


def test_the_counts_give_a_cpus_speed():
    """The fastest of two rounds, since the machine is shared."""
    found = {}
    for row in rows("predicted-gpu/this-cpu.jsonl"):
        found.setdefault((row["method"], row["batch_size"]), []).append(row)
    assert len(found) == 12
    for cell in found.values():
        fastest = min(cell, key=lambda row: row["measured"])
        assert 0.7 <= fastest["predicted"] / fastest["measured"] <= 1.3


def test_the_speed_and_the_memory_of_tagging_are_those_of_the_rows():
    tagging, memory = (run["printed"] for run in rows("tagging-2026-11-23/rows.jsonl"))
    with_tags, without = re.fullmatch(r"with tags (.*), without (.*) sentences/s", tagging[-2]).groups()
    parsing = [speed.replace(".00", "") for speed in (with_tags, without)]
    most = [int(re.search(r"(\d+) at most", line)[1]) for line in memory]
    in_prose(
        "docs/measurements/README.md",
        f"writes {parsing[0]} sentences/s with tags and lemmas, and {parsing[1]} with as many layers",
        f"{tagging[-1].split(': ')[1]} of the speed",
        f"{memory[-1].split()[0]} sentences by `Parser.parse_all` within {most[-1]} MiB, {most[0]} of them",
    )
