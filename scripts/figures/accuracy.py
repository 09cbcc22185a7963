"""Tables of parsers' scores: by treebank, by input, from raw text, and with changed settings."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import PurePosixPath
from statistics import fmean, mean, median
from typing import NamedTuple

from figures.kept import (
    MEASUREMENTS,
    SMALL,
    SPLITS,
    TREEBANKS,
    Row,
    RunTable,
    cells,
    code,
    grid,
    grouped,
    matches,
    only_runs,
    printed,
    printed_json,
    printed_rows,
    runs_of_table,
    shown,
    table,
    training_runs,
)
from parser.evaluation.measures import ATTACHMENT, TEXT_MEASURES, TextMeasure
from parser.models.model_card import OF_TAGS, OF_TEXT, OF_TOKENS, Given
from parser.tables.treebank_report import LARGE, TreebankScore, mean_score, read_published
from parser.training.trees import treebank_names

PUBLISHED, PUBLISHED_OF_FEW = "accuracy/udpipe-ud-2.5.json", "accuracy/udpipe-conll-2018.json"
"""The scores that UDPipe's authors publish for its models, and those at CoNLL 2018."""
PUBLISHED_BY_STANZA = "accuracy/stanza-ud-2.12.json"
GIVEN: tuple[Given, ...] = OF_TEXT, OF_TOKENS
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
OF_FORMS: tuple[TextMeasure, ...] = "upos", "xpos", "ufeats", "lemmas", "las"
RAW_TEXT: tuple[TextMeasure, ...] = (
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
RAW_TEXT_HEADINGS = [TEXT_MEASURES[measure] for measure in RAW_TEXT]
DEFAULT_ARCS = "weight 0.5"
"""The row of the table `arcs` that is the unchanged `ud-fast`."""
LAS = ("dev LAS", "dev las"), ("test LAS", "test las")
LAS_SPREAD = ("dev LAS", "dev las spread"), ("test LAS", "test las spread")
SCORES = LAS[0], ("test UAS", "test uas"), LAS[1]
MINUTES, MEAN_MINUTES = ("minutes", "minutes"), ("minutes", "mean minutes")


def treebanks_beside_udpipe() -> str:
    runs, published = runs_of_table("treebanks"), read_published(MEASUREMENTS / PUBLISHED).scores

    def udpipe(name: str) -> list[str]:
        """UDPipe's UAS and LAS with gold tokens and morphology, where they are published."""
        language, _, treebank = name.rpartition(" ")
        scores = published.get(f"UD_{language.replace(' ', '_')}-{treebank}", {}).get(OF_TAGS, {})
        return [f"{scores[measure]:.1f}" if measure in scores else "" for measure in ATTACHMENT]

    header = ("", "dev LAS", "test UAS", "test LAS", "minutes", "UDPipe 1, test UAS", "test LAS")
    which = "dev las", "test uas", "test las", "minutes"
    return table(header, ((name, *cells(runs[name], *which), *udpipe(name)) for name in TREEBANKS))


def crossing_arcs() -> str:
    runs = only_runs("treebanks")
    tests = {name + end: runs[name + end]["test"] for end in ("", ", before") for name in TREEBANKS}
    return table(
        ("", "crossing arcs of test", "with the right head"),
        ((name, test["crossing_arcs"], f"{test['crossing_recall']:.0f} %") for name, test in tests.items()),
    )


def english_by_input() -> str:
    """Test LAS on English EWT of parsers with different inputs."""
    tagged, untagged = (runs_of_table(name)["English EWT"] for name in ("treebanks", "arcs-untagged"))
    fast = runs_of_table("arcs")[DEFAULT_ARCS]
    [shipped] = printed_json(f"evaluate {SHIPPED}")
    return table(
        ("English EWT", "reads", "test LAS", "minutes of training"),
        (
            ("`ud-any`", "gold words and tags", *cells(tagged, "test las", "minutes")),
            ("`ud-fast`, mean of three seeds", "gold words and UPOS", *cells(fast, "test las", "minutes")),
            ("`ud-untagged`", "gold words", *cells(untagged, "test las", "minutes")),
            ("`english-ewt`", "raw text", f"{shipped['las']:.2f}", ""),
        ),
    )


def plain_parser() -> str:
    run = training_runs(None)[0]
    columns = {"UAS": "uas", "LAS": "las", "LAS, full labels": "las_full", "CLAS": "clas"}
    return table(
        ("", *columns, "crossing arcs with the right head"),
        (
            (
                split,
                *cells([run], *(f"{split} {measure}" for measure in columns.values())),
                f"{run[split]['crossing_recall']:.0f} % of {run[split]['crossing_arcs']}",
            )
            for split in SPLITS
        ),
    )


def raw_text_beside_udpipe() -> str:
    """Scores of this program and of UDPipe on English, from raw text and with gold words."""
    names, *lines = [line for line in printed("udpipe_pipeline") if line.strip()]
    positions = [names.split().index(heading) for heading in RAW_TEXT_HEADINGS]
    theirs = {
        name: [numbers.split()[position] for position in positions]
        for name, numbers in matches(r"UDPipe 1, (\S.*?)\s+([\d. ]+)", lines)
    }
    [english] = (model for model in _models() if model["name"] == SHIPPED)
    scores = {given: _scores_on_test(english, given) for given in GIVEN}
    whole = dict.fromkeys(("tokens", "sentences", "words"), 100.0)
    ours = {
        name: [f"{({**whole, **scores[given]})[measure]:.2f}" for measure in RAW_TEXT]
        for name, given in zip(theirs, GIVEN, strict=True)
    }
    programs = {"this program": ours, "UDPipe 1": theirs}
    return table(
        ("", *RAW_TEXT_HEADINGS),
        [(f"{program}, {name}", *cells[name]) for name in theirs for program, cells in programs.items()],
    )


def unseen_forms() -> str:
    """Scores of words whose form train has / has not, with gold words."""
    columns = {"UPOS": "upos", "FEATS": "feats", "lemmas": "lemma", "LAS": "las"}
    return table(
        ("forms that train has / the others", "others", *columns),
        (
            (
                _title(row["treebank"]),
                f"{row['unknown_forms']:.0%}".replace("%", " %"),
                *("{:.1f} / {:.1f}".format(*row[column]) for column in columns.values()),
            )
            for row in printed_json("measure_unseen_forms.py")
        ),
    )


def time_to_accuracy() -> str:
    """Means of three seeds, and the median seconds until each dev LAS is reached."""
    targets = 82, 84, 85, 86, 88

    def seconds_to(runs: Sequence[Row], target: float) -> str:
        times = []
        for run in runs:
            passed = 0.0
            for epoch in run["curve"]:
                passed += epoch["seconds"] + epoch["preparation_seconds"]
                if epoch["dev_las"] >= target:
                    times.append(passed)
                    break
        return f"{median(times):.0f}" if len(times) == len(runs) else ""

    return table(
        ("config", "dev LAS", "test LAS", "minutes", *targets),
        (
            (
                f"`{name}`" if "," not in name else name,
                *cells(runs, "dev las", "test las", "mean minutes"),
                *(seconds_to(runs, target) for target in targets),
            )
            for name, runs in runs_of_table("time-to-accuracy").items()
        ),
    )


def parts() -> str:
    """LAS when a part is added to the plain parser; differences are between equal seeds."""
    by_name = runs_of_table("parts")

    def line(name: str, runs: Sequence[Row]) -> list[str]:
        texts = [f"{name} (three seeds)" if len(runs) > 1 else name]
        for split in SPLITS:
            over = shown(runs, f"{split} las over", by_name["plain"]) if name != "plain" else ""
            texts += [shown(runs, f"{split} las"), over]
        return [*texts, shown(runs, "mean minutes")]

    header = ("", "dev LAS", "over plain", "test LAS", "over plain", "minutes")
    return table(header, (line(name, runs) for name, runs in by_name.items()))


def composition() -> str:
    """LAS of `ud-fast` with and without composition, for the first seed, the only one trained with it."""
    runs = {"without": runs_of_table("arcs")[DEFAULT_ARCS], **runs_of_table("composition")}
    by_side = re.findall(r"LAS ([\d.]+)", " ".join(printed("composition by side")))
    lines = [(name, *cells(of_row[:1], "dev las", "test las")) for name, of_row in runs.items()]
    header = ("`ud-fast`, composition", "dev LAS", "test LAS")
    return table(header, [*lines, ("a matrix for each side of the head", *by_side)])


def batch_sizes() -> str:
    """Mean scores of three seeds, with the lowest and the highest, by batch size."""
    by_name, ways = runs_of_table("batch-size"), ("warm-up", "none")

    def line(size: int) -> list[object]:
        runs = [by_name[f"{size}, {way}"] for way in ways]
        scores = [text for of_way in runs for text in cells(of_way, "dev las spread", "test las spread")]
        return [
            size,
            *scores,
            " and ".join(f"{mean(run['best_epoch'] for run in of_way):.0f}" for of_way in runs),
        ]

    header = ("batch", "dev LAS, warm-up of 5 epochs", "test LAS", "dev LAS, none", "test LAS", "best epochs")
    return table(header, map(line, (8, 16, 32, 64, 128, 256)))


def predicted_tags() -> str:
    """Mean scores with the lowest and the highest, and the accuracy of the predicted tags."""
    lines = matches(r".*/(dev|test)\.conllu.* UPOS ([\d.]+) %.*", printed("predict_tags.py"))
    right = [share for _, share in sorted(lines)]
    kinds = {
        "gold": (["100", "100"], runs_of_table("batch-size")["64, warm-up"]),
        "predicted": (right, runs_of_table("predicted-tags")["predicted tags"]),
    }
    return table(
        ("tags", "right in dev, %", "in test", "runs", "dev LAS", "test LAS"),
        (
            (kind, *shares, len(runs), *cells(runs, "dev las spread", "test las spread"))
            for kind, (shares, runs) in kinds.items()
        ),
    )


def random_search() -> str:
    """Dev LAS of the same settings on a small and a large treebank, sorted by the small one, best first."""
    small, large = (only_runs(f"search-{size}") for size in ("small", "large"))

    def line(run: Row) -> list[object]:
        training, network = run["config"]["training"], run["config"]["parser"]["network"]
        on_large = large.get(run["name"])
        return [
            run["name"].partition(":")[0].replace("as it is", "before"),
            f"{training['learning_rate']['peak']:.4f}",
            f"{training['optimizer']['weight_decay']:g}",
            training["average"],
            training["word_dropout"],
            network["dropout"],
            network["embedding_dropout"],
            network["characters"]["dropout"],
            shown([run], "dev las"),
            shown([on_large], "dev las") if on_large else "",
        ]

    header = (
        *("", "learning rate", "L2", "`average`", "`word_dropout`", "`dropout`", "`embedding_dropout`"),
        *("of characters", "Uyghur", "English"),
    )
    return table(header, map(line, sorted(small.values(), key=lambda run: -run["dev"]["las"])))


def exploration_errors() -> str:
    """Percentages of wrong transitions, means of three seeds."""
    lines = printed("count_errors")
    pattern = r"runs/(\w+)-seed-.*, (\w+):"
    named = [(re.search(pattern, line), re.findall(r"([\d.]+)%", line)) for line in lines]
    shares = grouped((match.groups(), list(map(float, numbers))) for match, numbers in named if match)
    means = {key: [mean(column) for column in zip(*seeds, strict=True)] for key, seeds in shares.items()}
    ways = "parsing", "gold"
    return table(
        ("`follow`", *(f"{way}, {where}" for way in ways for where in ("up to the first error", "after it"))),
        (
            (f"`{name}`", *(f"{share:.2f} %" for way in ways for share in means[name, way]))
            for name in ("none", "errors", "samples")
        ),
    )


def fine_tuning() -> str:
    """Test LAS of trainings started from random weights and from English, in the order of the rows."""
    tuned, whole = runs_of_table("fine-tuning"), runs_of_table("treebanks")
    names = [name.removesuffix(", from English") for name in tuned if name.endswith(", from English")]
    from_random = {f"{name}, all sentences": whole[f"{name}, before"] for name in TREEBANKS}
    from_random |= {name: whole[f"{name}, before"] for name in TREEBANKS} | tuned
    return table(
        ("training trees", "from random weights", "from English"),
        (
            (name, shown(from_random[name], "test las"), shown(tuned[f"{name}, from English"], "test las"))
            for name in names
        ),
    )


def several_treebanks() -> str:
    """LAS of small treebanks when trained alone, after English, and together with others."""
    runs = runs_of_table("treebanks") | runs_of_table("fine-tuning") | runs_of_table("treebanks-together")
    return grid(
        "",
        {
            "alone": ", before",
            "after English": ", from English",
            "with English": ", with English",
            "with English and French": ", with English and French",
        },
        {f"{name}, {split} LAS": (name, split) for name in SMALL for split in SPLITS},
        lambda line, end: shown(runs[line[0] + end], f"{line[1]} las"),
    )


def pretraining() -> str:
    """The mean loss of a masked piece after some epochs of pretraining."""
    told = json.loads((MEASUREMENTS / "accuracy/pretraining.json").read_text(encoding="utf-8"))
    epochs = (1, 9, len(told["losses"]))
    return table(
        ("", *(f"epoch {epoch}" for epoch in epochs), "held-out text", "sentences", "minutes of one core"),
        [
            (
                f"{told['layers']} layers of {told['hidden']} numbers, mean loss of a masked piece",
                *(f"{told['losses'][epoch - 1]:.2f}" for epoch in epochs),
                f"{told['held_out_loss']:.2f}",
                f"{told['sentences']:,}",
                f"{told['minutes']:.0f}",
            )
        ],
    )


def shipped_treebank() -> str:
    """The scores on data/quickstart of baselines that only guess."""
    lines = printed("make_treebank.py")[-3:]
    return table(
        ("guess on dev", "UAS", "LAS"),
        ([part.strip() for part in line.split("  ") if part] for line in lines),
    )


def shipped_model_scores() -> str:
    [scores] = printed_json(f"evaluate {SHIPPED}")
    return code(["  ".join(f"{TEXT_MEASURES[name]} {scores[name]:.2f}" for name in RAW_TEXT)])


def lines_like(words: str, pattern: str) -> str:
    """The printed lines that begin with the pattern."""
    return code(line for line in printed(words) if re.match(pattern, line))


def runtimes() -> str:
    """What parsing in arrays changes in the trees of PyTorch, by treebank."""
    lines = []
    for row in printed_rows("compare_runtimes.py"):
        name, part = re.findall(r"UD_(.+?)/.*-(dev|test)\.conllu", row["command"][-1])[0]
        equal, rounded, of_text = (line.partition(": ")[2] for line in row["printed"])
        las = [" / ".join(re.findall(r"\d+\.\d\d(?= instead|;|$)", each)[:2]) for each in (rounded, of_text)]
        [trees] = re.findall(r"[\d,]+ of [\d,]+", equal)
        tags = min(map(float, re.findall(r"([\d.]+) % of", rounded)))
        lines.append((f"{name.replace('_', ' ').replace('-', ' ')}, {part}", trees, *las, f"{tags:.2f} %"))
    return table(
        (
            "treebank",
            "equal trees, float32",
            "LAS of int8 / float32",
            "from raw text",
            "equal tags, int8",
        ),
        lines,
    )


def small_treebanks() -> str:
    """Scores of configs on Wolof WTB and on a part of it, sorted by size and score."""
    by_size = grouped(
        (int(run["name"].partition(", ")[0].replace(",", "")), run) for run in training_runs("sizes")
    )
    return table(
        ("training trees", "config", "epochs", "dev LAS", "test UAS", "test LAS"),
        (
            (
                f"{trees:,}",
                f"`{run['name'].split(', ')[1]}`",
                run["epochs"],
                *cells([run], "dev las", "test uas", "test las"),
            )
            for trees, runs in sorted(by_size.items())
            for run in sorted(runs, key=lambda run: run["test"]["las"])
        ),
    )


def minutes_by_size() -> str:
    """Training minutes by treebank, with the configs' epochs. Only English was trained with `ud-fast`."""
    fast = {"English EWT": shown(runs_of_table("arcs")[DEFAULT_ARCS], "mean minutes")}
    tagged = runs_of_table("treebanks")
    untagged = runs_of_table("untagged") | runs_of_table("arcs-untagged")
    return table(
        ("", "training trees", "words", "`ud-fast`", "`ud-any`", "`ud-untagged`"),
        (
            (
                name,
                f"{trees:,}",
                f"{words:,}",
                fast.get(name, ""),
                *(shown(runs[name], "minutes") for runs in (tagged, untagged)),
            )
            for name, (trees, words) in TRAINING.items()
        ),
    )


class _Trained(NamedTuple):
    """A treebank of `stack-parser train-all`: LAS of its parser and the published LAS, by what is given."""

    name: str
    words: int
    minutes: float
    las: dict[Given, TreebankScore]
    published: dict[Given, float | None]


def _trained(others: str) -> Iterator[_Trained]:
    """The trained treebanks with their scores. others: file with published scores."""
    published = read_published(MEASUREMENTS / others)
    for model in _models():
        scores = {score["from"]: score for score in model["scores"] if score["on"] == "test"}
        yield _Trained(
            _title(model["treebank"]),
            model["training_words"],
            model["seconds"] / 60,
            {given: TreebankScore(scores[given]["las"], scores[given].get("las_error")) for given in GIVEN},
            {given: published.las(model["treebank"], given) for given in GIVEN},
        )


def _models() -> list[Row]:
    """The models of `stack-parser train-all`."""
    index = (MEASUREMENTS / "accuracy/all-treebanks.json").read_text(encoding="utf-8")
    models: list[Row] = json.loads(index)["models"]
    return models


def _scores_on_test(model: Row, given: Given) -> Row:
    [scores] = (each for each in model["scores"] if (each["from"], each["on"]) == (given, "test"))
    return scores


def _title(treebank: str) -> str:
    """The name of a treebank's folder, as text."""
    return treebank.removeprefix("UD_").replace("_", " ").replace("-", " ")


def all_treebanks() -> str:
    """Test LAS, the smallest treebank first, and averages over the treebanks that UDPipe has, too."""
    trained = sorted(_trained(PUBLISHED), key=lambda treebank: treebank.words)
    compared = [treebank for treebank in trained if None not in treebank.published.values()]
    large = [treebank for treebank in compared if treebank.words >= LARGE]

    def scores(treebanks: Sequence[_Trained]) -> Iterator[str]:
        """The cells of one treebank, or the means of several."""
        for given in GIVEN:
            las, error = mean_score([treebank.las[given] for treebank in treebanks])
            yield f"{las:.2f}" if error is None else f"{las:.2f} ± {error:.2f}"
            known = [each for treebank in treebanks if (each := treebank.published[given]) is not None]
            # Published scores have one decimal.
            yield f"{mean(known):.2f}" if len(treebanks) > 1 else "".join(f"{each:.1f}" for each in known)
            yield f"{las - mean(known):+.1f}" if known else ""

    header = (
        *("", "words of train", "LAS from raw text", "UDPipe 1.2", "difference"),
        *("LAS with gold tokens", "UDPipe 1.2", "difference", "minutes"),
    )
    lines = [
        [treebank.name, f"{treebank.words:,}", *scores([treebank]), f"{treebank.minutes:.0f}"]
        for treebank in trained
    ]
    means = {
        f"average of the {len(compared)} that both have": compared,
        f"average of the {len(large)} of these with {LARGE:,} words or more": large,
    }
    return table(header, [*lines, *([name, "", *scores(treebank), ""] for name, treebank in means.items())])


def raw_text_beside_stanza() -> str:
    """Scores from raw text of this program and of Stanza, each pair in one cell."""
    measures: dict[str, TextMeasure] = {
        "tokens": "tokens",
        "sentences": "sentences",
        "words": "words",
        "UPOS": "upos",
        "UFeats": "ufeats",
        "lemmas": "lemmas",
        "LAS": "las",
    }
    stanza = read_published(MEASUREMENTS / PUBLISHED_BY_STANZA).scores
    lines: list[list[str]] = []
    differences: dict[str, list[float]] = {name: [] for name in measures}
    for model in _models():
        if theirs := stanza.get(model["treebank"]):
            ours = _scores_on_test(model, OF_TEXT)
            line = [_title(model["treebank"])]
            for name, measure in measures.items():
                if measure in ours:  # the treebank has such a column
                    pair = ours[measure], theirs[OF_TEXT][measure]
                    line.append("{:.2f} / {:.2f}".format(*pair))
                    differences[name].append(pair[0] - pair[1])
                else:
                    line.append("")
            lines.append(line)
    means = (f"{mean(each):+.2f}" for each in differences.values())
    return table(("ours / Stanza's", *measures), [*sorted(lines), ["mean difference", *means]])


def seeds_from_raw_text() -> str:
    """Means of three seeds on the raw text of test, with the lowest and the highest score."""
    measures = {"sentences": "", "upos": "upos", "ufeats": "feats", "lemmas": "lemma", "las": ""}
    lines = []
    for name, runs in _runs_from_raw_text().items():
        predicted = runs[-1]["config"]["parser"]["network"]["tags"]["predict"]
        lines.append(
            (
                name,
                *(
                    shown(runs, f"text {measure} spread") if not column or column in predicted else ""
                    for measure, column in measures.items()
                ),
            )
        )
    return table(("", "sentences", "UPOS", "UFeats", "lemmas", "LAS"), lines)


def _runs_from_raw_text() -> dict[str, list[Row]]:
    """Of the table of three seeds. Without a row of the first one, the run of `train-all` is the first."""
    first = {_title(model["treebank"]): {"text": _scores_on_test(model, OF_TEXT)} for model in _models()}
    return {
        name: [*runs] if runs[0]["seed"] == 1 else [first[name], *runs]
        for name, runs in runs_of_table("seeds-from-raw-text").items()
    }


def few_sentences() -> str:
    """LAS of treebanks of a few dozen sentences, by how the parser was trained."""
    whole = {treebank.name: treebank for treebank in _trained(PUBLISHED_OF_FEW)}
    columns: list[tuple[str, ...]] = [
        (
            "",
            "own sentences",
            "own sentences, mean of folds of train",
            "from the parser of Uyghur UDT",
            "the best parser of another treebank",
            "UDPipe at CoNLL 2018",
        )
    ]
    for name, runs in runs_of_table("related-treebank").items():
        study = f"measure_zero_shot.py runs/models ${{PARSER_DATA}}/ud/UD_{name.replace(' ', '-')}"
        other, _, scores = printed(study)[1].partition(": ")
        best: dict[Given, str] = {OF_TEXT: "", OF_TOKENS: f"{scores.partition('LAS ')[2]} (`{other}`)"}
        for given in GIVEN:
            las, published = whole[name].las[given].value, whole[name].published[given]
            means = (f"{score:.2f}" for score in (las, _mean_of_folds(name, given)))
            related = shown(runs, "test las" if given == OF_TOKENS else "text las")
            columns.append((f"{name}, {given}", *means, related, best[given], f"{published or ''}"))
    header, *lines = zip(*columns, strict=True)
    return table(header, lines)


def _mean_of_folds(treebank: str, given: Given) -> float:
    """LAS of a cross-validation: the mean over the words of its test sets, which differ in length."""
    folds = json.loads((MEASUREMENTS / "accuracy/folds.json").read_text(encoding="utf-8"))["models"]
    name = f"UD_{treebank.replace(' ', '-')}fold"
    models = [model for model in folds if model["treebank"].startswith(name)]
    # Each word is in the train parts of all folds but one.
    words = sum(model["training_words"] for model in models) // (len(models) - 1)
    tested = [words - model["training_words"] for model in models]
    las = [score["las"] for model in models for score in model["scores"] if score["from"] == given]
    return fmean(las, tested)


def pretrained_encoders() -> str:
    """Scores from raw text with an encoder, and without."""
    measures = {"sentences": "", "UPOS": "upos", "UFeats": "feats", "lemmas": "lemma", "LAS": ""}
    without = _runs_from_raw_text()
    lines = []
    for name, runs in runs_of_table("pretrained-encoders").items():
        predicted = runs[0]["config"]["parser"]["network"]["tags"]["predict"]
        scores = (
            " / ".join(shown(each, f"text {heading.lower()}") for each in (runs, without[name]))
            if not column or column in predicted
            else ""
            for heading, column in measures.items()
        )
        minutes = mean(run["seconds"] for run in runs) / 60
        lines.append((name, f"{len(runs)}", *scores, f"{minutes:.0f}"))
    return table(("with / without", "seeds", *measures, "minutes"), lines)


def many_languages() -> str:
    """LAS of own parsers, of the one for all treebanks, and of own ones that start from it."""
    stanza = read_published(MEASUREMENTS / PUBLISHED_BY_STANZA).scores
    of_text = {model["treebank"]: _scores_on_test(model, OF_TEXT) for model in _models()}
    of_tokens = {model["treebank"]: _scores_on_test(model, OF_TOKENS) for model in _models()}
    seeds, starting = _runs_from_raw_text(), runs_of_table("from-many-languages")
    [[together]] = runs_of_table("many-languages").values()
    lines = []
    for path in together["config"]["treebank"]["train"]:
        treebank, [name] = PurePosixPath(path).parent.name, treebank_names([path])
        title = _title(treebank)
        alone = seeds.get(title, [{"text": of_text[treebank]}])
        own = starting.get(title, ())
        scores = (
            of_tokens[treebank]["las"],
            together["test"]["treebanks"][name]["las"],
            mean(run["test"]["las"] for run in own) if own else None,
            mean(run["text"]["las"] for run in alone),
            mean(run["text"]["las"] for run in own) if own else None,
            stanza.get(treebank, {}).get(OF_TEXT, {}).get("las"),
        )
        lines.append((title, *("" if las is None else f"{las:.2f}" for las in scores)))
    return table(
        (
            *("LAS", "gold words, own", "gold words, one for all", "gold words, starting from it"),
            *("raw text, own", "raw text, starting from it", "raw text, Stanza"),
        ),
        lines,
    )


def unseen_treebanks() -> str:
    """Scores of the parser for many languages on treebanks that it was not trained on."""
    lines = []
    for row in printed_rows("evaluate runs/many-languages/model"):
        _, _, _, path, _, name = row["command"]
        scores = [own for _, own in matches(r"(UPOS|UAS|LAS) +([\d.]+)  .*", row["printed"])]
        lines.append((_title(PurePosixPath(path).parent.name), f"`{name}`", *scores))
    return table(("", "parsed as", "UPOS", "UAS", "LAS"), lines)


def columns_of_many_languages() -> str:
    """Tags and lemmas from raw text: of own parsers, those that start from the one for all, and Stanza's."""
    stanza = read_published(MEASUREMENTS / PUBLISHED_BY_STANZA).scores
    alone = {_title(model["treebank"]): _scores_on_test(model, OF_TEXT) for model in _models()}
    measures: dict[str, TextMeasure] = {"UPOS": "upos", "UFeats": "ufeats", "lemmas": "lemmas"}
    seeds = _runs_from_raw_text()
    lines = []
    for title, own in runs_of_table("from-many-languages").items():
        theirs = stanza[f"UD_{title.replace(' ', '-')}"][OF_TEXT]
        runs = seeds.get(title, [{"text": alone[title]}])
        cells_of_line = (
            " / ".join(
                f"{score:.2f}"
                for score in (
                    mean(run["text"][measure] for run in runs),
                    mean(run["text"][measure] for run in own),
                    theirs[measure],
                )
            )
            if measure in alone[title]  # the treebank has such a column
            else ""
            for measure in measures.values()
        )
        lines.append((title, *cells_of_line))
    return table(("own / starting from the one for all / Stanza", *measures), lines)


def enhanced() -> str:
    """Scores of enhanced dependencies on test."""
    lines = []
    for row in printed_rows("measure_enhanced.py"):
        treebank = PurePosixPath(row["command"][2]).parent.name
        for how, elas, eulas in matches(r"(.*): ELAS ([\d.]+), EULAS ([\d.]+)", row["printed"]):
            lines.append((_title(treebank), how, elas, eulas))
    return table(("", "", "ELAS", "EULAS"), lines)


def constraints() -> str:
    """LAS, and errors in trees of raw text, without and with learned constraints."""
    [row] = printed_rows("measure_constraints.py")
    (_, before), (_, after) = matches(r"(none|learned): LAS ([\d.]+), .*", row["printed"])
    lines = [("LAS of gold words", before, after)]
    pattern = r"(.*?)\..*, (\w+): (\d+) errors in ([\d,]+) sentences.*"
    errors = {
        (text, way): (count, sentences) for text, way, count, sentences in matches(pattern, row["printed"])
    }
    for text in dict.fromkeys(text for text, _ in errors):
        (before, sentences), (after, _) = errors[text, "none"], errors[text, "learned"]
        lines.append((f"errors in {sentences} sentences of `{text}`", before, after))
    return table(("", "without", "with"), lines)


def word_dropout() -> str:
    """Scores by word dropout, means over four treebanks."""
    variants: dict[str, list[list[Row]]] = {}
    for name, runs in runs_of_table("word-dropout").items():
        variants.setdefault(name.partition("; word_dropout ")[2] or "0.25", []).append(runs)
    measures = {"UPOS": "upos", "UFeats": "ufeats", "lemmas": "lemmas", "LAS": "las"}
    lines = [
        (
            value,
            *(
                f"{mean(mean(run['test'][measure] for run in runs) for runs in of_treebanks):.2f}"
                for measure in measures.values()
            ),
        )
        for value, of_treebanks in sorted(variants.items())
    ]
    return table(("`word_dropout`", *measures), lines)


def small_treebank_settings() -> str:
    """LAS of each treebank with each variant of the settings, and the mean difference to the first."""
    las: dict[str, dict[str, float]] = {}
    for name, runs in runs_of_table("small-treebank-settings").items():
        treebank, _, variant = name.partition("; ")
        las.setdefault(variant, {})[treebank] = mean(run["test"]["las"] for run in runs)
    before = las[""]
    lines = (
        (
            variant or "before",
            *(f"{of_variant[treebank]:.2f}" for treebank in before),
            f"{mean(of_variant[treebank] - before[treebank] for treebank in before):+.2f}" if variant else "",
        )
        for variant, of_variant in las.items()
    )
    return table(("", *before, "mean difference"), lines)


FIGURES: dict[str, Callable[[], str]] = {
    "all-treebanks": all_treebanks,
    "batch-sizes": batch_sizes,
    "characters": RunTable(
        "characters",
        (
            *(
                (f"{split} {TEXT_MEASURES[measure]}", f"{split} {measure}")
                for split in SPLITS
                for measure in OF_FORMS
            ),
            MINUTES,
        ),
        [
            *("Lithuanian HSE, convolution", "Lithuanian HSE, LSTM"),
            *("Marathi UFAL, convolution", "Marathi UFAL, LSTM"),
            *("Uyghur UDT, 12 epochs, convolution", "Uyghur UDT, 12 epochs, LSTM"),
        ],
    ),
    "characters-without-arcs": RunTable(
        "characters",
        [(f"{split} {measure.upper()}", f"{split} {measure}") for split in SPLITS for measure in ATTACHMENT],
        [("Uyghur UDT, convolution", "untagged: Uyghur UDT"), "Uyghur UDT, LSTM"],
    ),
    "composition": composition,
    "crossing-arcs": crossing_arcs,
    "distillation": RunTable("distillation", (*SCORES, MINUTES)),
    "english-by-input": english_by_input,
    "constraints": constraints,
    "enhanced": enhanced,
    "english-ewt-all": RunTable(
        None,
        (("dev UAS", "dev uas"), ("LAS", "dev las"), ("test UAS", "test uas"), ("LAS", "test las"), MINUTES),
        ["ud-english-ewt-all"],
        title="`{}`",
    ),
    "exploration": RunTable(
        "exploration",
        (*LAS, ("difference on test", "test las over")),
        base="none",
        heading="`follow`",
        title="`{}`",
    ),
    "exploration-arc-eager": RunTable(
        "exploration",
        [(f"difference on {split}", f"{split} las over") for split in SPLITS],
        [("`errors` over `none`", "errors, arc-eager")],
        base="none, arc-eager",
        heading="arc-eager",
    ),
    "exploration-errors": exploration_errors,
    "few-sentences": few_sentences,
    "fine-tuning": fine_tuning,
    "large-batches": RunTable("large-batches", (*LAS, MINUTES)),
    "many-languages": many_languages,
    "many-languages-columns": columns_of_many_languages,
    "minutes-by-size": minutes_by_size,
    "parts": parts,
    "plain-parser": plain_parser,
    "precision-of-training": RunTable("precision", LAS_SPREAD, heading="three seeds each"),
    "predicted-tags": predicted_tags,
    "pretrained-encoders": pretrained_encoders,
    "pretraining": pretraining,
    "quick-start-scores": partial(lines_like, QUICK_START, r"(dev|test|text)  +\S"),
    "quick-start-tree": partial(lines_like, f"parse {SHIPPED} --text", r"[╭╰│├─ ]"),
    "random-search": random_search,
    "raw-text-beside-stanza": raw_text_beside_stanza,
    "raw-text-beside-udpipe": raw_text_beside_udpipe,
    "search": RunTable("search", (LAS[0], MINUTES)),
    "seeds-from-raw-text": seeds_from_raw_text,
    "several-treebanks": several_treebanks,
    "shipped-model-scores": shipped_model_scores,
    "shipped-treebank": shipped_treebank,
    "small-treebank-settings": small_treebank_settings,
    "small-treebanks": small_treebanks,
    "time-to-accuracy": time_to_accuracy,
    "transformer": RunTable(
        "transformer",
        (*LAS, ("difference on test", "test las over"), MEAN_MINUTES),
        base="none",
        heading="`train`",
        title="`{}`",
    ),
    "treebanks": RunTable(
        "treebanks",
        (
            *SCORES,
            MINUTES,
            ("before, dev LAS", "dev las", "{}, before"),
            ("test LAS", "test las", "{}, before"),
        ),
        TREEBANKS,
    ),
    "treebanks-beside-udpipe": treebanks_beside_udpipe,
    "unseen-forms": unseen_forms,
    "unseen-treebanks": unseen_treebanks,
    "untagged": RunTable(
        "untagged",
        (LAS[0], *((TEXT_MEASURES[measure], f"test {measure}") for measure in UNTAGGED), MINUTES),
        TREEBANKS,
    ),
    "runtimes": runtimes,
    "word-dropout": word_dropout,
    "weights-in-16-bits": partial(lines_like, "compare_precisions.py", ""),
}
