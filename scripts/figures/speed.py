"""Tables of the speeds of the StackLSTM parser and of whole parsers, and of the output of commands on speed,
memory and many processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from figures.kept import kept_output, latest, plain_speed, printed, processor, ratios, speed_run, table
from parser.speed.measuring.rows import SpeedRow
from parser.speed.measuring.statistics import median_of, parallel_share_at, ratio_of
from parser.speed.reporting.speed_ups import bracketed, ratio

PAPER = "ding-koehn-2019"
FIGURE_1 = "dyer-2015"
"""The experiment with the sizes of Figure 1 of Ding & Koehn 2019."""
FIGURE_1_GAIN = 60.8
"""The speed-up of batches of 64 over batches of 1 (Ding & Koehn 2019, section 5.2)."""
OUTPUT, SCALE = "speed/printed.jsonl", "scale/printed.jsonl"
CHECK = "stack-parser check --transitions"
NETWORKS = {
    "ding-koehn-2019": "StackLSTM parser, Ding & Koehn 2019",
    "dyer-2015": "StackLSTM parser, Dyer et al. 2015",
    "parsing": "Ding & Koehn 2019, parsing",
    "tagger": "BiLSTM tagger of 256 units",
    "trees": "Tree-LSTM of 256 units",
    "peephole-lstm": "peephole LSTM of 512 units",
}
"""The experiments in the comparison of precisions, with their titles."""


def stack_lstm(experiment: str) -> str:
    methods = {
        "sentence by sentence": ("none", (1,)),
        "by step, as the paper's authors": ("step-naive", (1, 8, 64, 256)),
        "by step, our implementation": ("step", (1, 8, 64, 256)),
        "by replay": ("replay", (1, 8, 64, 256)),
    }

    def speed(method: str, size: int) -> str:
        return plain_speed(speed_run("stack-lstm").cell(experiment, f"{method}@{size}").sentences_per_second)

    return table(
        ("training, sentences/s", "batch 1", 8, 64, 256),
        (
            (label, *(speed(method, size) if size in sizes else "" for size in (1, 8, 64, 256)))
            for label, (method, sizes) in methods.items()
        ),
    )


def stack_lstm_ratios() -> str:
    lines = (
        ("replay over sentence by sentence", "replay@64", "none@1"),
        ("replay over the authors' steps", "replay@64", "step-naive@64"),
        ("the same, the largest batches", "replay@256", "step-naive@256"),
        ("replay of single sentences", "replay@1", "none@1"),
        ("what batches give to replay", "replay@64", "replay@1"),
        ("what batches give to the authors' steps", "step-naive@64", "step-naive@1"),
    )
    return ratios(speed_run("stack-lstm/in-turns"), ((what, PAPER, one, other) for what, one, other in lines))


def parallel_shares() -> str:
    """The gain of batches of 64 by Amdahl's law, next to the paper's, and the most this core could give."""
    found = [("the paper, Figure 1", "", f"{FIGURE_1_GAIN}", "", _percent(FIGURE_1_GAIN))]
    run = speed_run("stack-lstm/in-turns")
    for sizes, experiment in (("sizes of Figure 1", FIGURE_1), ("sizes of section 5", PAPER)):
        for method in ("step-naive", "replay"):
            cells = [run.cell(experiment, f"{method}@{size}") for size in (64, 1)]
            gain, most = ratio(*cells).value, 1 / cells[1].mfu_with_update
            shown = [bracketed(text, cells) for text in (f"{gain:.1f}", _percent(gain))]
            found.append((sizes, f"`{method}`", shown[0], f"{most:.0f}", shown[1]))
    return table(("", "", "64 over 1", "at most, on this core", "parallel share"), found)


def _percent(gain: float) -> str:
    return f"{100 * parallel_share_at(64, gain):.2f} %"


def stack_lstm_utilisation() -> str:
    run = speed_run("stack-lstm/in-turns")
    cells = [run.cell(PAPER, f"{method}@64") for method in ("replay", "step", "step-naive")]
    header = ("batches of 64", *(f"`{row.method}`" for row in cells))
    return table(
        header,
        [
            ("MFU", *(f"{row.mfu:.2f}" for row in cells)),
            ("rows that are padding", *(f"{row.padding_share:.0%}".replace("%", " %") for row in cells)),
        ],
    )


def precision() -> str:
    """The speed of every cell in float32 and in bfloat16, and the gain."""
    cells: dict[tuple[str, str, int], dict[str, SpeedRow]] = {}
    for row in speed_run("precision").rows:
        key = row.experiment, row.method, row.batch_size
        cells.setdefault(key, {})[row.precision] = row
    order = list(NETWORKS)
    by_network = sorted(cells.items(), key=lambda item: (order.index(item[0][0]), *item[0][1:]))
    return table(
        ("network", "method", "batch", "float32", "bfloat16", "gain"),
        (
            (
                NETWORKS[experiment],
                method,
                size,
                *(f"{both[each].sentences_per_second:,.0f}" for each in ("float32", "bfloat16")),
                ratio(both["bfloat16"], both["float32"]),
            )
            for (experiment, method, size), both in by_network
        ),
    )


def peers() -> str:
    """Speeds of whole parsers, measured in turns, and their ratios to `ud-english-ewt`."""
    found = {run["name"]: run["speeds"] for run in latest("speed/peers/external.jsonl")}
    plain = found["ud-english-ewt"]
    by_speed = sorted(found.items(), key=lambda item: -median_of(item[1]).value)

    def over_plain(name: str, speeds: Sequence[float]) -> str:
        return "" if name == "ud-english-ewt" else str(ratio_of(speeds, plain, interleaved=True))

    return table(
        ("parser", "sentences/s", "over `ud-english-ewt`"),
        (
            (
                f"`{name}`" if name.startswith("ud-") else name,
                f"{median_of(speeds):,.0f}",
                over_plain(name, speeds),
            )
            for name, speeds in by_speed
        ),
    )


def padded_lstms() -> str:
    """Times of a padded LSTM over times by levels, for batches of different lengths."""
    names = {"AVX-512": "padded LSTMs, AVX-512", "AVX2": "padded LSTMs, AVX2"}
    header: list[str] = ["words of a sentence"]
    lines: dict[str, list[str]] = {}
    for instructions, name in names.items():
        _, sizes, *rest = printed(OUTPUT, name)
        header += [f"{size}, {instructions}" for size in re.findall(r"\d+ units", sizes)]
        for line in rest:
            lengths, *ratios = re.split(r" {2,}", line)
            lines.setdefault(lengths.removesuffix(" words"), []).extend(ratios)
    return table(header, ([lengths, *ratios] for lengths, ratios in lines.items()))


def schedules() -> str:
    """Numbers of batches by agenda and by depth, and the speed by depth as a share of that by agenda."""
    _, *lines = printed("speed/printed.jsonl", "measure_schedules")
    header = ("", "batches by agenda", "by depth", "speed by depth over agenda, 32 units", "256 units")
    titles = {"cell": "as cells", "operation": "as operations"}
    found = (line.split("; ") for line in lines)
    return table(header, ((f"{name}, {titles[grain]}", *own) for grain, name, *own in found))


def single_figures() -> str:
    check, memory = (" ".join(printed(OUTPUT, words)) for words in ("check", "measure_memory"))
    tokenizing, tagging = (" ".join(printed(OUTPUT, f"measure_{what}")) for what in ("tokenizing", "tagging"))
    frozen = " ".join(printed(OUTPUT, "measure_frozen_vectors"))
    all_of_it = " ".join(printed(OUTPUT, "measure_parse_all"))
    each = sorted(re.findall(r"trajectories in +([\d.]+) s", check), key=float)
    five, fifty, again, most = (f"{float(size):.0f}" for size in re.findall(r"([\d.]+) MiB", memory))
    words = _found(r"words +(\d+(?:,\d+)*)", check)
    lines = (
        (f"reading the training set of EWT, {words} words", _found(r"read in +([\d.]+ s)", check), CHECK),
        ("its oracle trajectories, each transition system", f"{each[0]} to {each[-1]} s", CHECK),
        (
            "peak memory of parsing the test set of EWT 5, 50 and 150 times over as one stream",
            f"{five}, {again} to {fifty} (two runs) and {most} MiB",
            "python scripts/studies/scale/measure_memory.py",
        ),
        (
            "peak memory of `Parser.parse_all`, 1,000,000 sentences by a small parser",
            re.findall(r"(\d+) at most", all_of_it)[-1] + " MiB",
            "python scripts/studies/scale/measure_parse_all.py",
        ),
        (
            "speed of parsing with tags and lemmas over that without, with as many layers",
            _found(r"with tags over without: (.*)", tagging),
            "python scripts/studies/text/measure_tagging.py",
        ),
        (
            "time of tokenizing the text of EWT's test set over that of parsing it",
            _found(r"time of parsing: (.*)", tokenizing),
            "python scripts/studies/text/measure_tokenizing.py",
        ),
        (
            "speed of training with vectors of a frozen transformer over that with pretrained ones",
            _found(r"ones: (.*)", frozen),
            "python scripts/studies/accuracy/measure_frozen_vectors.py",
        ),
    )
    return table(
        ("", "", "processor", "command"),
        (
            (what, value, _processor(command.split()[1].rpartition("/")[2]), f"`{command}`")
            for what, value, command in lines
        ),
    )


def _processor(command: str) -> str:
    """The name and the vector instructions of the machine on which a command was run last."""
    machine = kept_output(OUTPUT, command)[-1]["machine"]
    return processor(machine["cpu"], machine["vectors"])


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise ValueError(f"no {pattern} in what was printed")
    return match[match.lastindex or 0]


def levels_and_steps() -> str:
    """The number of steps and levels that the sentences of a treebank take."""
    text = "\n".join(printed(OUTPUT, "measure_levels"))
    found = [
        (what, *re.findall(rf"^{what} +median (\d+), greatest (\d+)", text, re.MULTILINE)[0])
        for what in ("steps", "levels")
    ]
    return table(("training set of English EWT", "median of the sentences", "greatest"), found)


def reading() -> str:
    """The speed of reading the shipped treebank, next to conllu."""
    readers, speeds = zip(
        *(line.split(": ") for line in printed(OUTPUT, "measure_reading")[-3:]), strict=True
    )
    return table(("of the processor's time", *readers), [("reading `train.conllu`", *speeds)])


def processes() -> str:
    """The gain of two processes, next to that of plain matrix products in the same turns."""
    commands = {
        "training in batches of 256": "batch_size=256 --turns",
        "training in batches of 64": "batch_size=64 --turns",
        "`parse`, 50,000 sentences": "--turns 5",
        "`parse-corpus`, 200,000 sentences": "--ray",
    }
    found = []
    for title, words in commands.items():
        products, own, share = (line.rpartition(": ")[2] for line in printed(SCALE, words)[-3:])
        found.append((title, own, products, share))
    return table(("two processes over one", "gain", "gain of products", "share of that"), found)


def training_with_processes() -> str:
    """Dev LAS of a parser trained by one process, and of a parser trained by two."""
    found = [line.rpartition(" ")[2] for line in printed(SCALE, "parser train") if "UAS" in line]
    return table(("processes", "dev LAS"), zip(("one", "two"), found, strict=True))


def _plan_tables() -> list[str]:
    text = "\n".join(line if line.startswith("|") else "" for line in printed(SCALE, "plan_corpus"))
    return [part.strip() for part in re.split(r"\n{2,}", text) if part.strip()]


FIGURES: dict[str, Callable[[], str]] = {
    "corpus-blocks": lambda: _plan_tables()[0],
    "corpus-limits": lambda: _plan_tables()[1],
    "corpus-plan": lambda: _plan_tables()[2],
    "levels-and-steps": levels_and_steps,
    "padded-lstms": padded_lstms,
    "peers": peers,
    "precision": precision,
    "processes": processes,
    "reading": reading,
    "schedules": schedules,
    "single-figures": single_figures,
    "parallel-shares": parallel_shares,
    "stack-lstm": partial(stack_lstm, PAPER),
    "stack-lstm-figure-1": partial(stack_lstm, FIGURE_1),
    "stack-lstm-ratios": stack_lstm_ratios,
    "stack-lstm-utilisation": stack_lstm_utilisation,
    "training-with-processes": training_with_processes,
}
