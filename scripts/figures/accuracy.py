"""Tables of parsers' scores: by treebank, by input, from raw text, and with changed settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import mean, median

from figures.kept import (
    MEASUREMENTS,
    OUTPUT,
    SMALL,
    SPLITS,
    TREEBANKS,
    Row,
    code,
    las_difference,
    mean_las,
    mean_minutes,
    minutes,
    only_runs,
    printed,
    runs_of_table,
    scores,
    spread_las,
    table,
    training_runs,
)
from parser.config.measures import ATTACHMENT, TEXT_MEASURES, TextMeasure
from parser.models.model_card import OF_TAGS
from parser.tables.published_scores import read_published

UDPIPE = "accuracy/udpipe-ud-2.5.json"
"""The scores that UDPipe's authors publish for its models."""
TRAINING = {
    "Ancient Greek PTNK": (727, 18_440),
    "Uyghur UDT": (1_656, 19_262),
    "French Sequoia": (2_231, 50_502),
    "English EWT": (12_544, 204_577),
}
"""The numbers of trees and words of the training sets."""
SHIPPED = "english-ewt"
QUICK_START = "stack-parser train configs/quickstart.yaml"
UNTAGGED: tuple[TextMeasure, ...] = "upos", "xpos", "ufeats", "lemmas", "uas", "las", "mlas", "blex"
OF_TEXT: tuple[TextMeasure, ...] = (
    "tokens",
    "sentences",
    "words",
    "upos",
    "lemmas",
    "uas",
    "las",
    "mlas",
    "blex",
)
DEFAULT_ARCS = "weight 0.5"
"""The row of the table `arcs` that is the unchanged `ud-fast`."""
TARGETS = 82, 84, 85, 86, 88
SIZES = 8, 16, 32, 64, 128, 256
ENGLISH = ", from English"


def treebanks_beside_udpipe() -> str:
    runs = only_runs("treebanks")
    header = ("", "dev LAS", "test UAS", "test LAS", "minutes", "UDPipe 1, test UAS", "test LAS")
    which = "dev las", "test uas", "test las"
    lines = ((name, *scores(runs[name], *which), minutes(runs[name]), *udpipe_of(name)) for name in TREEBANKS)
    return table(header, lines)


def udpipe_of(name: str) -> list[str]:
    """UDPipe's UAS and LAS with gold tokens and morphology; empty for a treebank without published scores."""
    language, _, own = name.rpartition(" ")
    published = read_published(MEASUREMENTS / UDPIPE).scores
    found = published.get(f"UD_{language.replace(' ', '_')}-{own}", {}).get(OF_TAGS, {})
    return [f"{found[measure]:.1f}" if measure in found else "" for measure in ATTACHMENT]


def treebanks() -> str:
    """Scores by treebank, with the settings from before the search and from after it."""
    runs = only_runs("treebanks")
    header = ("", "dev LAS", "test UAS", "test LAS", "minutes", "before, dev LAS", "test LAS")
    return table(
        header,
        (
            (
                name,
                *scores(runs[name], "dev las", "test uas", "test las"),
                minutes(runs[name]),
                *scores(runs[f"{name}, before"], "dev las", "test las"),
            )
            for name in TREEBANKS
        ),
    )


def crossing_arcs() -> str:
    runs = only_runs("treebanks")
    names = [name + end for end in ("", ", before") for name in TREEBANKS]
    found = ((name, runs[name]["test"]) for name in names)
    return table(
        ("", "crossing arcs of test", "with the right head"),
        ((name, test["crossing_arcs"], f"{test['crossing_recall']:.0f} %") for name, test in found),
    )


def english_by_input() -> str:
    """Test LAS on English EWT of parsers with different inputs."""
    plain, untagged = only_runs("treebanks")["English EWT"], only_runs("arcs-untagged")["English EWT"]
    fast = runs_of_table("arcs")[DEFAULT_ARCS]
    return table(
        ("English EWT", "reads", "test LAS", "minutes of training"),
        (
            ("`ud-any`", "gold words and tags", *scores(plain, "test las"), minutes(plain)),
            (
                "`ud-fast`, mean of three seeds",
                "gold words and UPOS",
                mean_las(fast, "test"),
                mean_minutes(fast),
            ),
            ("`ud-untagged`", "gold words", *scores(untagged, "test las"), minutes(untagged)),
            ("`ud-untagged`", "raw text", *scores(untagged, "text las"), ""),
        ),
    )


def english_ewt_all() -> str:
    _, run = training_runs(None)
    which = "dev uas", "dev las", "test uas", "test las"
    header = ("", "dev UAS", "LAS", "test UAS", "LAS", "minutes")
    return table(header, [("`ud-english-ewt-all`", *scores(run, *which), minutes(run))])


def plain_parser() -> str:
    run, _ = training_runs(None)
    header = ("", "UAS", "LAS", "LAS, full labels", "CLAS", "crossing arcs with the right head")
    return table(
        header,
        (
            (
                split,
                *scores(run, *(f"{split} {measure}" for measure in ("uas", "las", "las_full", "clas"))),
                f"{run[split]['crossing_recall']:.0f} % of {run[split]['crossing_arcs']}",
            )
            for split in SPLITS
        ),
    )


def untagged() -> str:
    """Test scores of parsers that read only forms and characters."""
    runs = only_runs("untagged")
    which = ["dev las", *(f"test {measure}" for measure in UNTAGGED)]
    header = ("", "dev LAS", *(TEXT_MEASURES[measure] for measure in UNTAGGED), "minutes")
    return table(header, ((name, *scores(runs[name], *which), minutes(runs[name])) for name in TREEBANKS))


def raw_text() -> str:
    """Test scores from raw text."""
    runs = only_runs("text")
    which = [f"text {measure}" for measure in OF_TEXT]
    lines = ((name, *scores(runs[name], *which)) for name in (*TREEBANKS, "shipped treebank"))
    return table(("", *(TEXT_MEASURES[measure] for measure in OF_TEXT)), lines)


def raw_text_beside_udpipe() -> str:
    """Scores from raw text of this program and of UDPipe, on the same words."""
    names, *lines = [line for line in printed(OUTPUT, "udpipe_pipeline") if line.strip()]
    places = [names.split().index(TEXT_MEASURES[measure]) for measure in OF_TEXT]
    found = []
    for line in lines:
        match = re.fullmatch(r"(\S.*?)\s+([\d. ]+)", line)
        assert match, line
        found.append((match[1], *(match[2].split()[place] for place in places)))
    return table(("", *(TEXT_MEASURES[measure] for measure in OF_TEXT)), found)


def time_to_accuracy() -> str:
    """Means of three seeds, and the median seconds until each dev LAS is reached."""
    header = ("config", "dev LAS", "test LAS", "minutes", *TARGETS)
    return table(
        header,
        (
            (
                f"`{name}`" if "," not in name else name,
                *(mean_las(runs, split) for split in SPLITS),
                mean_minutes(runs),
                *(_seconds_to(runs, target) for target in TARGETS),
            )
            for name, runs in runs_of_table("time-to-accuracy").items()
        ),
    )


def _seconds_to(runs: Sequence[Row], target: float) -> str:
    times = []
    for run in runs:
        passed = 0.0
        for epoch in run["curve"]:
            passed += epoch["seconds"] + epoch["preparation_seconds"]
            if epoch["dev_las"] >= target:
                times.append(passed)
                break
    return f"{median(times):.0f}" if len(times) == len(runs) else ""


def parts() -> str:
    """LAS when a part is added to the plain parser; differences are between equal seeds."""
    found = runs_of_table("parts")

    def line(name: str, runs: Sequence[Row]) -> list[str]:
        cells = [f"{name} (three seeds)" if len(runs) > 1 else name]
        for split in SPLITS:
            cells += [
                mean_las(runs, split),
                las_difference(runs, found["plain"], split) if name != "plain" else "",
            ]
        return [*cells, mean_minutes(runs)]

    header = ("", "dev LAS", "over plain", "test LAS", "over plain", "minutes")
    return table(header, (line(name, runs) for name, runs in found.items()))


def composition() -> str:
    """LAS of `ud-fast` with and without composition, for the first seed, the only one trained with it."""
    runs = {"without": runs_of_table("arcs")[DEFAULT_ARCS], **runs_of_table("composition")}
    lines = [(name, *scores(own[0], "dev las", "test las")) for name, own in runs.items()]
    by_side = re.findall(r"LAS ([\d.]+)", " ".join(printed(OUTPUT, "composition by side")))
    header = ("`ud-fast`, composition", "dev LAS", "test LAS")
    return table(header, [*lines, ("a matrix for each side of the head", *by_side)])


def batch_sizes() -> str:
    """Mean scores of three seeds, with the lowest and the highest, by batch size."""
    found = runs_of_table("batch-size")
    both = ("warm-up", "none")
    header = ("batch", "dev LAS, warm-up of 5 epochs", "test LAS", "dev LAS, none", "test LAS", "best epochs")
    return table(
        header,
        (
            (
                size,
                *(spread_las(found[f"{size}, {how}"], split) for how in both for split in SPLITS),
                " and ".join(
                    f"{mean(run['best_epoch'] for run in found[f'{size}, {how}']):.0f}" for how in both
                ),
            )
            for size in SIZES
        ),
    )


def predicted_tags() -> str:
    """Mean scores with the lowest and the highest, and the accuracy of the predicted tags."""
    lines = printed(OUTPUT, "predict_tags.py")
    right = [
        next(match[1] for line in lines if (match := re.search(rf"/{split}\.conllu.* UPOS ([\d.]+) %", line)))
        for split in SPLITS
    ]
    kinds = {
        "gold": (["100", "100"], runs_of_table("batch-size")["64, warm-up"]),
        "predicted": (right, runs_of_table("predicted-tags")["predicted tags"]),
    }
    return table(
        ("tags", "right in dev, %", "in test", "runs", "dev LAS", "test LAS"),
        (
            (kind, *shares, len(runs), *(spread_las(runs, split) for split in SPLITS))
            for kind, (shares, runs) in kinds.items()
        ),
    )


def large_batches() -> str:
    return runs_of_one_seed("large-batches", "dev las", "test las")


def search() -> str:
    return runs_of_one_seed("search", "dev las")


def distillation() -> str:
    return runs_of_one_seed("distillation", "dev las", "test uas", "test las")


def runs_of_one_seed(name: str, *which: str) -> str:
    """Scores and training minutes of all rows of a table of runs with one seed."""
    header = ("", *(each.replace("las", "LAS").replace("uas", "UAS") for each in which), "minutes")
    return table(
        header, ((name, *scores(run, *which), minutes(run)) for name, run in only_runs(name).items())
    )


def random_search() -> str:
    """Dev LAS of the same settings on a small and a large treebank, sorted by the small one, best first."""
    small, large = (only_runs(f"search-{size}") for size in ("small", "large"))
    header = (
        *("", "learning rate", "L2", "`average`", "`word_dropout`", "`dropout`", "`embedding_dropout`"),
        *("of characters", "Uyghur", "English"),
    )
    by_las = sorted(small.values(), key=lambda run: -run["dev"]["las"])
    return table(header, (_searched(run, large.get(run["name"])) for run in by_las))


def _searched(run: Row, on_large: Row | None) -> list[object]:
    training, network = run["config"]["training"], run["config"]["parser"]["network"]
    return [
        run["name"].partition(":")[0].replace("as it is", "before"),
        f"{training['learning_rate']['peak']:.4f}",
        f"{training['optimizer']['weight_decay']:g}",
        training["average"],
        training["word_dropout"],
        network["dropout"],
        network["embedding_dropout"],
        network["characters"]["dropout"],
        *scores(run, "dev las"),
        *(scores(on_large, "dev las") if on_large else [""]),
    ]


def exploration() -> str:
    found = runs_of_table("exploration")
    header = ("`follow`", "dev LAS", "test LAS", "difference on test")
    return table(header, (_over_none(name, found) for name in found))


def transformer() -> str:
    found = runs_of_table("transformer")
    header = ("`train`", "dev LAS", "test LAS", "difference on test", "minutes")
    return table(header, ((*_over_none(name, found), mean_minutes(runs)) for name, runs in found.items()))


def _over_none(name: str, found: Mapping[str, Sequence[Row]]) -> list[str]:
    """The mean LAS over the seeds, and the difference on test to the row called `none`."""
    gain = las_difference(found[name], found["none"], "test") if name != "none" else ""
    return [f"`{name}`", *(mean_las(found[name], split) for split in SPLITS), gain]


def exploration_arc_eager() -> str:
    """The gain of `errors` over no exploration with the arc-eager system, on dev and test."""
    found = runs_of_table("exploration")
    errors, none = found["errors, arc-eager"], found["none, arc-eager"]
    header = ("arc-eager", *(f"difference on {split}" for split in SPLITS))
    return table(
        header, [("`errors` over `none`", *(las_difference(errors, none, split) for split in SPLITS))]
    )


def exploration_errors() -> str:
    """Percentages of wrong transitions, means of three seeds."""
    found: dict[tuple[str, str], list[list[float]]] = {}
    for line in printed(OUTPUT, "count_errors"):
        match = re.search(r"runs/(\w+)-seed-.*, (\w+):", line)
        assert match, line
        shares = [float(share) for share in re.findall(r"([\d.]+)%", line)]
        found.setdefault((match[1], match[2]), []).append(shares)
    means = {key: [mean(column) for column in zip(*seeds, strict=True)] for key, seeds in found.items()}
    ways = ("parsing", "gold")
    header = [f"{way}, {where}" for way in ways for where in ("up to the first error", "after it")]
    return table(
        ("`follow`", *header),
        (
            (f"`{name}`", *(f"{share:.2f} %" for way in ways for share in means[name, way]))
            for name in ("none", "errors", "samples")
        ),
    )


def fine_tuning() -> str:
    """Test LAS of trainings started from random weights and from English, in the order of the rows."""
    tuned, whole = only_runs("fine-tuning"), only_runs("treebanks")

    def from_random(name: str) -> Row:
        return tuned[name] if name in tuned else whole[f"{name.removesuffix(', all sentences')}, before"]

    names = [name.removesuffix(ENGLISH) for name in tuned if name.endswith(ENGLISH)]
    return table(
        ("training trees", "from random weights", "from English"),
        (
            (name, *scores(from_random(name), "test las"), *scores(tuned[name + ENGLISH], "test las"))
            for name in names
        ),
    )


def several_treebanks() -> str:
    """LAS of small treebanks when trained alone, after English, and together with others."""
    found = only_runs("treebanks") | only_runs("fine-tuning") | only_runs("treebanks-together")
    ends = ", before", ENGLISH, ", with English", ", with English and French"
    return table(
        ("", "alone", "after English", "with English", "with English and French"),
        (
            (f"{name}, {split} LAS", *(scores(found[name + end], f"{split} las")[0] for end in ends))
            for name in SMALL
            for split in SPLITS
        ),
    )


def precision_of_training() -> str:
    found = runs_of_table("precision")
    lines = ((name, *(spread_las(runs, split) for split in SPLITS)) for name, runs in found.items())
    return table(("three seeds each", "dev LAS", "test LAS"), lines)


def pretraining() -> str:
    """The mean loss of a masked piece after some epochs of pretraining."""
    told = json.loads((MEASUREMENTS / "accuracy/pretraining.json").read_text(encoding="utf-8"))
    losses = told["losses"]
    epochs = (1, 9, len(losses))
    return table(
        ("", *(f"epoch {epoch}" for epoch in epochs), "held-out text", "sentences", "minutes of one core"),
        [
            (
                f"{told['layers']} layers of {told['hidden']} numbers, mean loss of a masked piece",
                *(f"{losses[epoch - 1]:.2f}" for epoch in epochs),
                f"{told['held_out_loss']:.2f}",
                f"{told['sentences']:,}",
                f"{told['minutes']:.0f}",
            )
        ],
    )


def shipped_treebank() -> str:
    """The sizes of data/quickstart, and the scores of baselines that only guess."""
    lines = [line.split("  ") for line in printed("speed/printed.jsonl", "make_treebank.py")]
    guesses = [[part.strip() for part in line if part] for line in lines[-3:]]
    return table(("guess on dev", "UAS", "LAS"), guesses)


def quick_start_scores() -> str:
    lines = printed(OUTPUT, QUICK_START)
    return code(line for line in lines if re.match(r"(dev|test|text) +\S", line))


def shipped_model_scores() -> str:
    [line] = (line for line in printed(OUTPUT, f"evaluate {SHIPPED}") if line.startswith("{"))
    found = json.loads(line)
    return code(["  ".join(f"{TEXT_MEASURES[name]} {found[name]:.2f}" for name in OF_TEXT)])


def quick_start_tree() -> str:
    lines = printed(OUTPUT, f"parse {SHIPPED} --text")
    return code(line for line in lines if re.match(r"[╭╰│├─ ]", line))


def weights_in_16_bits() -> str:
    return code(printed(OUTPUT, "compare_precisions.py"))


def small_treebanks() -> str:
    """Scores of configs on Wolof WTB and on a part of it, sorted by size and score."""
    found = sorted(training_runs("sizes"), key=lambda run: (_trees_in_name(run), run["test"]["las"]))
    which = "dev las", "test uas", "test las"

    def lines() -> Iterable[tuple[object, ...]]:
        for run in found:
            config = run["name"].split(", ")[1]
            yield f"{_trees_in_name(run):,}", f"`{config}`", run["epochs"], *scores(run, *which)

    return table(("training trees", "config", "epochs", "dev LAS", "test UAS", "test LAS"), lines())


def _trees_in_name(run: Row) -> int:
    """The number of trees with which the run's name starts."""
    return int(run["name"].partition(", ")[0].replace(",", ""))


def minutes_by_size() -> str:
    """Training minutes by treebank, with the configs' epochs. Only English was trained with `ud-fast`."""
    fast = {"English EWT": mean_minutes(runs_of_table("arcs")[DEFAULT_ARCS])}
    tagged, untagged = only_runs("treebanks"), only_runs("untagged") | only_runs("arcs-untagged")
    return table(
        ("", "training trees", "words", "`ud-fast`", "`ud-any`", "`ud-untagged`"),
        (
            (
                name,
                f"{trees:,}",
                f"{words:,}",
                fast.get(name, ""),
                minutes(tagged[name]),
                minutes(untagged[name]),
            )
            for name, (trees, words) in TRAINING.items()
        ),
    )


FIGURES: dict[str, Callable[[], str]] = {
    "batch-sizes": batch_sizes,
    "composition": composition,
    "crossing-arcs": crossing_arcs,
    "distillation": distillation,
    "english-by-input": english_by_input,
    "english-ewt-all": english_ewt_all,
    "exploration": exploration,
    "exploration-arc-eager": exploration_arc_eager,
    "exploration-errors": exploration_errors,
    "fine-tuning": fine_tuning,
    "large-batches": large_batches,
    "minutes-by-size": minutes_by_size,
    "parts": parts,
    "plain-parser": plain_parser,
    "precision-of-training": precision_of_training,
    "predicted-tags": predicted_tags,
    "pretraining": pretraining,
    "quick-start-scores": quick_start_scores,
    "quick-start-tree": quick_start_tree,
    "shipped-model-scores": shipped_model_scores,
    "random-search": random_search,
    "raw-text": raw_text,
    "raw-text-beside-udpipe": raw_text_beside_udpipe,
    "search": search,
    "small-treebanks": small_treebanks,
    "several-treebanks": several_treebanks,
    "shipped-treebank": shipped_treebank,
    "time-to-accuracy": time_to_accuracy,
    "transformer": transformer,
    "treebanks": treebanks,
    "treebanks-beside-udpipe": treebanks_beside_udpipe,
    "untagged": untagged,
    "weights-in-16-bits": weights_in_16_bits,
}
