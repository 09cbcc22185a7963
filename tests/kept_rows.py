"""The lines of tables on pages that follow from the rows that are kept of measurements."""

import re
import runpy
from functools import cache

from rows_of_accuracy import accuracy, differences_to_none, treebanks
from rows_of_measurements import ROOT, printed, rows, table

from parser.speed.findings import ratio


def in_training(experiment, method, size, found):
    return next(
        row
        for row in found
        if (row["experiment"], row["method"], row["batch_size"]) == (experiment, method, size)
        and row["mode"] == "train"
    )


def stack_lstm():
    found = rows("stack-lstm-2026-11-21/rows.jsonl")
    methods = {
        "sentence by sentence": ("none", (1,)),
        "by step, as the paper's authors": ("step-naive", (1, 8, 64, 256)),
        "by step, our implementation": ("step", (1, 8, 64, 256)),
        "by replay": ("replay", (1, 8, 64, 256)),
    }

    def speed(method, size):
        value = in_training("ding-koehn-2019", method, size, found)["sentences_per_second"]
        return f"{value:.1f}" if value < 100 else f"{value:.0f}"

    return table(
        *(
            (label, *(speed(method, size) if size in sizes else "" for size in (1, 8, 64, 256)))
            for label, (method, sizes) in methods.items()
        )
    )


def on_the_fly():
    found = rows("on-the-fly-2026-11-23/rows.jsonl")
    tasks = "tagger", "char-tagger", "trees", "parser"
    agenda, none, manual = (
        [in_training(task, method, 64, found) for task in tasks] for method in ("agenda", "none", "manual")
    )
    return table(
        ("agenda, examples/s", *(f"{row['sentences_per_second']:.0f}" for row in agenda)),
        ("speed-up over no batching (the paper: 9.3, 8.4, 7.1, 3.6)", *ratios(agenda, none, 1)),
        ("share of the speed of batching by hand", *ratios(agenda, manual, 2)),
    )


def ratios(first, second, digits):
    return [f"{ratio(one, other).value:.{digits}f}" for one, other in zip(first, second, strict=True)]


def recurrence():
    found = rows("recurrence-2026-11-22/rows.jsonl")
    networks = "elman", "peephole-lstm"

    def cells(method, size):
        return [in_training(network, method, size, found) for network in networks]

    components = cells("components", 1)
    over = "speed-up over running every connection frame by frame (the paper: over 10)"
    return table(
        ("words a second in training", *(f"{row['tokens_per_second']:,.0f}" for row in components)),
        (over, *ratios(components, cells("none", 1), 1)),
        (
            "the same, if the baseline computes each weight's gradient in one product",
            *ratios(components, cells("late-gradients", 1), 1),
        ),
        ("share of the speed of 1,024 streams", *ratios(components, cells("both", 1024), 2)),
    )


NETWORKS = {
    "ding-koehn-2019": "StackLSTM parser, Ding & Koehn 2019",
    "dyer-2015": "StackLSTM parser, Dyer et al. 2015",
    "parsing": "Ding & Koehn 2019, parsing",
    "tagger": "BiLSTM tagger of 256 units",
    "trees": "Tree-LSTM of 256 units",
    "peephole-lstm": "peephole LSTM of 512 units",
}


def precision():
    """Every cell in float32 and in bfloat16, and the gain."""
    cells = {}
    for row in rows("precision-2026-11-23/rows.jsonl"):
        key = row["experiment"], row["method"], row["batch_size"]
        cells.setdefault(key, {})[row["precision"]] = row
    order = list(NETWORKS)
    return table(
        *(
            (
                NETWORKS[experiment],
                method,
                size,
                *(f"{both[each]['sentences_per_second']:,.0f}" for each in ("float32", "bfloat16")),
                ratio(both["bfloat16"], both["float32"]),
            )
            for (experiment, method, size), both in sorted(
                cells.items(), key=lambda item: (order.index(item[0][0]), *item[0][1:])
            )
        )
    )


def single_figures():
    check, memory = " ".join(printed("check")), " ".join(printed("measure_memory"))
    words = re.search(r"words +([\d,]+),", check)[1]
    seconds = re.search(r"read in +([\d.]+ s)", check)[1]
    each = sorted(re.findall(r"trajectories in ([\d.]+) s", check))
    speed = re.search(r"[\d,]+ sentences/s", " ".join(printed("stack-parser parse")))[0]
    five, fifty, again, most = (f"{float(size):.0f}" for size in re.findall(r"([\d.]+) MiB", memory))
    test = "parsing the test set of EWT, reading and writing included"
    return table(
        (f"reading the training set of EWT, {words} words", seconds, "`stack-parser check`"),
        (
            "its oracle trajectories, each transition system",
            f"{each[0]} to {each[-1]} s",
            "`stack-parser check`",
        ),
        (test, speed, "`stack-parser parse`"),
        (
            "peak memory of parsing it 5, 50 and 150 times over as one stream",
            f"{five}, {again} to {fifty} (two runs) and {most} MiB",
            "`python scripts/measure_memory.py`",
        ),
    )


def headline():
    """The lines of the table that `make headline` writes."""
    script = runpy.run_path(str(ROOT / "scripts/headline.py"))
    written = script["table"](script["headlines"](ROOT / "docs/measurements/headline.yaml"))
    return [line for line in written.splitlines()[2:] if line.startswith("|")]


def corpus_plan():
    """The tables that `scripts/plan_corpus.py` printed."""
    found = printed("plan_corpus", "corpus-2026-11-24/plan.jsonl")
    return [line for line in found if line.startswith("|") and "---" not in line]


@cache
def expected(page):
    """The lines of a page's tables that tell what was measured."""
    lines = {
        "README.md": lambda: [*treebanks(with_published=True), *headline()],
        "docs/accuracy.md": accuracy,
        "docs/batching.md": on_the_fly,
        "docs/recurrence.md": recurrence,
        "docs/scale.md": corpus_plan,
        "docs/speed.md": lambda: [*stack_lstm(), *single_figures()],
        "docs/transformers.md": lambda: differences_to_none("transformer-2026-11-24/table/rows.jsonl"),
    }
    return tuple(lines[page]()) if page in lines else ()
