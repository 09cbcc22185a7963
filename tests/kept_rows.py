"""The lines of tables on pages that follow from the rows that are kept of measurements."""

import re
import runpy
from functools import cache
from statistics import mean, median

from rows_of_measurements import ROOT, SPLITS, minutes, rows, scores, table

from parser.measures import TEXT_MEASURES
from parser.speed.findings import ratio
from parser.tables.differences import difference

PUBLISHED = {
    "English EWT": ("88.1", "86.2"),
    "French Sequoia": ("89.7", "88.1"),
    "Ancient Greek PTNK": ("", ""),
    "Uyghur UDT": ("74.4", "61.1"),
}
"""UAS and LAS of UDPipe's UD 2.5 models by its own documentation, gold tokenization and morphology."""


def treebanks(with_published):
    runs = {run["name"]: run for run in rows("accuracy-2026-11-22/treebanks/rows.jsonl")}
    which = "dev las", "test uas", "test las"
    return table(
        *(
            (name, *scores(runs[name], *which), minutes(runs[name]), *(published if with_published else ()))
            for name, published in PUBLISHED.items()
        )
    )


def english_ewt():
    plain, everything = rows("accuracy-2026-11-22/english-ewt/rows.jsonl")
    measures = "uas", "las", "las_full", "clas"
    which = "dev uas", "dev las", "test uas", "test las"
    return table(
        *((split, *scores(plain, *(f"{split} {measure}" for measure in measures))) for split in SPLITS),
        ("`ud-english-ewt-all`", *scores(everything, *which), minutes(everything)),
    )


TEXT = "text-2026-11-24/rows.jsonl"
UNTAGGED = "upos", "xpos", "ufeats", "lemmas", "uas", "las", "mlas", "blex"


def untagged():
    """Test scores of parsers that read forms and characters alone."""
    runs = {run["name"]: run for run in rows("accuracy-2026-11-23/untagged/rows.jsonl")}
    which = [f"test {measure}" for measure in UNTAGGED]
    return table(*((name, *scores(runs[name], "dev las", *which), minutes(runs[name])) for name in PUBLISHED))


def of_2026_11_24(name, *which):
    """Scores and minutes of the runs of a table, one seed each."""
    runs = rows(f"accuracy-2026-11-24/{name}/rows.jsonl")
    return table(*((run["name"], *scores(run, *which), minutes(run)) for run in runs))


OF_TEXT = "tokens", "sentences", "words", "upos", "lemmas", "uas", "las", "mlas", "blex"


def raw_text():
    """Scores of raw text, on test."""
    runs = {run["name"]: run for run in rows("text-2026-11-24/treebanks/rows.jsonl")}
    which = [f"text {measure}" for measure in OF_TEXT]
    return table(*((name, *scores(runs[name], *which)) for name in (*PUBLISHED, "shipped treebank")))


def beside_udpipe():
    """The same for this program and for UDPipe on the same words."""
    names, *lines = [line for line in printed("udpipe_pipeline", TEXT) if line.strip()]
    places = [names.split().index(TEXT_MEASURES[measure]) for measure in OF_TEXT]
    cells = [re.fullmatch(r"(\S.*?)\s+([\d. ]+)", line).groups() for line in lines]
    return table(*((name, *(numbers.split()[place] for place in places)) for name, numbers in cells))


def by_name(path):
    """The runs of each row of a table."""
    found = {}
    for run in rows(path):
        found.setdefault(run["name"], []).append(run)
    return found


def exploration():
    """Means of three seeds, and the difference to training without."""
    lines = []
    for name, runs in (found := by_name("accuracy-2026-11-24/exploration/rows.jsonl")).items():
        ours, base = ({run["seed"]: run["test"]["las"] for run in own} for own in (runs, found["none"]))
        gain = difference(ours, base).removesuffix(", 3 seeds") if name != "none" else ""
        lines.append((f"`{name}`", *(f"{mean(run[s]['las'] for run in runs):.2f}" for s in SPLITS), gain))
    return table(*lines)


def fine_tuning():
    """Test LAS from random weights and from English, in the order of the rows."""
    runs = [
        *rows("accuracy-2026-11-22/treebanks/rows.jsonl"),
        *rows("accuracy-2026-11-24/fine-tuning/rows.jsonl"),
    ]
    las = {run["name"].removesuffix(", all sentences"): f"{run['test']['las']:.2f}" for run in runs}
    end = ", from English"
    names = [run["name"].removesuffix(end) for run in runs if run["name"].endswith(end)]
    return table(*((name, las[name.removesuffix(", all sentences")], las[f"{name}{end}"]) for name in names))


def time_to_accuracy():
    """Means of three seeds, and medians of the seconds to each dev LAS."""
    return table(
        *(
            (
                f"`{name}`" if "," not in name else name,
                *(f"{mean(run[split]['las'] for run in runs):.2f}" for split in SPLITS),
                f"{mean(run['seconds'] for run in runs) / 60:.1f}",
                *(seconds_to(runs, target) for target in (82, 84, 85, 86, 88)),
            )
            for name, runs in by_name("accuracy-2026-11-23/time-to-accuracy/rows.jsonl").items()
        )
    )


def seconds_to(runs, target):
    times = []
    for run in runs:
        passed = 0.0
        for epoch in run["curve"]:
            passed += epoch["seconds"] + epoch["preparation_seconds"]
            if epoch["dev_las"] >= target:
                times.append(passed)
                break
    return f"{median(times):.0f}" if len(times) == len(runs) else ""


def gain(name, split, base="plain"):
    """In LAS over the same seeds without it."""
    runs = {(run["name"], run["seed"]): run for run in rows("accuracy-2026-11-22/parts/rows.jsonl")}
    seeds = [seed for own, seed in runs if own == name]
    gained = mean(runs[name, seed][split]["las"] - runs[base, seed][split]["las"] for seed in seeds)
    return f"{gained:+.2f}"


TAGS = "XPOS and FEATS"
FEATURES = {
    "`tag_sizes`": (TAGS, "lemmas"),
    "`sentence_encoder`": ("LSTM over the sentence",),
    "`composition`": ("composition",),
    "`word_features`": ("words shown",),
    "`characters`": ("characters",),
    "`pretrained`, `train_pretrained`": ("GloVe vectors", "GloVe vectors, trained on"),
    "`average`": ("averaged weights",),
    "`exploration`": ("exploration",),
    "`word_dropout`": ("words forgotten by their counts",),
    "`tag_dropout`, `feature_dropout`": (
        f"{TAGS}, 5 % of tags forgotten",
        f"{TAGS}, 5 % of features forgotten",
    ),
}
"""The settings in a line of docs/accuracy.md, and the rows that have their gains."""


def features():
    for settings, names in FEATURES.items():
        gains = [
            [gain(name, split, TAGS if name.startswith(f"{TAGS},") else "plain") for name in names]
            for split in SPLITS
        ]
        yield settings, *gains


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


def printed(command, file="single-figures-2026-11-22/rows.jsonl"):
    """What a kept command printed, of all its runs."""
    kept = rows(file)
    return [line for row in kept if command in " ".join(row["command"]) for line in row["printed"]]


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
        "docs/accuracy.md": lambda: [
            *treebanks(with_published=False),
            *time_to_accuracy(),
            *english_ewt(),
            *untagged(),
            *raw_text(),
            *beside_udpipe(),
            *exploration(),
            *fine_tuning(),
            *of_2026_11_24("distillation", "dev las", "test uas", "test las"),
        ],
        "docs/batching.md": on_the_fly,
        "docs/recurrence.md": recurrence,
        "docs/scale.md": corpus_plan,
        "docs/speed.md": lambda: [*stack_lstm(), *single_figures()],
    }
    return tuple(lines[page]()) if page in lines else ()
