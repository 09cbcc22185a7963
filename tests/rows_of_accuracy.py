"""The lines of the tables in docs/accuracy.md that follow from kept rows."""

import re
from statistics import mean, median

from rows_of_measurements import SPLITS, minutes, printed, rows, scores, table

from parser.measures import TEXT_MEASURES
from parser.tables.differences import difference

PUBLISHED = {
    "English EWT": ("88.1", "86.2"),
    "French Sequoia": ("89.7", "88.1"),
    "Ancient Greek PTNK": ("", ""),
    "Uyghur UDT": ("74.4", "61.1"),
}
"""UAS and LAS of UDPipe's UD 2.5 models by its own documentation, gold tokenization and morphology."""


def treebanks(with_published):
    runs = {run["name"]: run for run in rows("accuracy-2026-11-24/treebanks/rows.jsonl")}
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


def differences_to_none(path):
    """Means of three seeds, and the difference on test to the row that is called so."""
    lines = []
    for name, runs in (found := by_name(path)).items():
        ours, base = ({run["seed"]: run["test"]["las"] for run in own} for own in (runs, found["none"]))
        gain = difference(ours, base).removesuffix(", 3 seeds") if name != "none" else ""
        lines.append((f"`{name}`", *(f"{mean(run[s]['las'] for run in runs):.2f}" for s in SPLITS), gain))
    return table(*lines)


def errors_of_exploration():
    """Percentages of wrong transitions, means of three seeds."""
    found = {}
    for line in printed("count_errors", "accuracy-2026-11-24/exploration/errors.jsonl"):
        name, way = re.search(r"runs/(\w+)-seed-.*, (\w+):", line).groups()
        found.setdefault((name, way), []).append([float(share) for share in re.findall(r"([\d.]+)%", line)])
    shares = {key: [mean(column) for column in zip(*seeds, strict=True)] for key, seeds in found.items()}
    return table(
        *(
            (f"`{name}`", *(f"{share:.2f} %" for way in ("parsing", "gold") for share in shares[name, way]))
            for name in ("none", "errors", "samples")
        )
    )


def together():
    """Test LAS of small treebanks, alone, after English, and together with others."""
    files = ("22/treebanks", "24/fine-tuning", "24/treebanks-together")
    runs = [run for file in files for run in rows(f"accuracy-2026-11-{file}/rows.jsonl")]
    las = {run["name"]: f"{run['test']['las']:.2f}" for run in runs}
    ends = "", ", from English", ", with English", ", with English and French"
    return table(
        *((name, *(las[name + end] for end in ends)) for name in ("Uyghur UDT", "Ancient Greek PTNK"))
    )


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


def searched():
    """Dev LAS of equal settings on a small and on a large treebank, the best on the small one first."""
    small, large = (
        {run["name"]: run for run in rows(f"accuracy-2026-11-24/search-{size}/rows.jsonl")}
        for size in ("small", "large")
    )
    by_las = sorted(small.values(), key=lambda run: -run["dev"]["las"])
    return table(*(searched_line(run, large.get(run["name"])) for run in by_las))


def searched_line(run, on_large):
    training, network = run["config"]["training"], run["config"]["parser"]["network"]
    return (
        run["name"].partition(":")[0].replace("as it is", "before"),
        f"{training['learning_rate']['peak']:.4f}",
        f"{training['optimizer']['weight_decay']:g}",
        training["average"],
        training["word_dropout"],
        network["dropout"],
        network["embedding_dropout"],
        network["characters"]["dropout"],
        f"{run['dev']['las']:.2f}",
        f"{on_large['dev']['las']:.2f}" if on_large else "",
    )


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


def accuracy():
    """All of them."""
    return [
        *treebanks(with_published=False),
        *time_to_accuracy(),
        *english_ewt(),
        *untagged(),
        *raw_text(),
        *beside_udpipe(),
        *differences_to_none("accuracy-2026-11-24/exploration/rows.jsonl"),
        *errors_of_exploration(),
        *fine_tuning(),
        *together(),
        *searched(),
        *of_2026_11_24("distillation", "dev las", "test uas", "test las"),
    ]
