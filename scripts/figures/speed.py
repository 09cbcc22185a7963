"""Tables of the speeds of the StackLSTM parser and of whole parsers, of latency, the service, memory and many
processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from matplotlib.figure import Figure

from figures.kept import grouped, latest, matches, printed, printed_rows, processor, ratios, speed_run, table
from parser.evaluation.statistics import Estimate, median_of, parallel_share_at, ratio_of
from parser.pages.plot_style import LABEL_SIZE, PLAIN, WIDTH, draw_lines, legend_below
from parser.speed.reporting.speed_ups import bracketed, ratio

PAPER, IN_TURNS = "ding-koehn-2019", "stack-lstm/in-turns"
FIGURE_1 = "dyer-2015"
"""The experiment with the sizes of Figure 1 of Ding & Koehn 2019."""
FIGURE_1_GAIN = 60.8
"""The speed-up of batches of 64 over batches of 1 (Ding & Koehn 2019, section 5.2)."""
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
OURS = "ud-fast"


def speeds_by_size(
    run: str, experiment: str, sizes: Sequence[int], methods: dict[str, dict[str, Sequence[int]]]
) -> str:
    """Speeds of training by batch size. methods: with their batch sizes, by title."""
    return table(
        ("training, sentences/s", f"batch {sizes[0]}", *sizes[1:]),
        (
            (
                title,
                *(
                    speed_run(run).speed(experiment, f"{method}@{size}") if size in there else ""
                    for size in sizes
                ),
            )
            for title, of_title in methods.items()
            for method, there in of_title.items()
        ),
    )


def stack_lstm(experiment: str) -> str:
    sizes = 1, 8, 64, 256
    methods: dict[str, dict[str, Sequence[int]]] = {
        "sentence by sentence": {"none": (1,)},
        "by step, as the paper's authors": {"step-naive": sizes},
        "by step, our implementation": {"step": sizes},
        "by replay": {"replay": sizes},
    }
    return speeds_by_size("stack-lstm", experiment, sizes, methods)


def stack_lstm_ratios() -> str:
    lines = (
        ("replay over sentence by sentence", PAPER, "replay@64", "none@1"),
        ("replay over the authors' steps", PAPER, "replay@64", "step-naive@64"),
        ("the same, the largest batches", PAPER, "replay@256", "step-naive@256"),
        ("replay of single sentences", PAPER, "replay@1", "none@1"),
        ("what batches give to replay", PAPER, "replay@64", "replay@1"),
        ("what batches give to the authors' steps", PAPER, "step-naive@64", "step-naive@1"),
    )
    return ratios(speed_run(IN_TURNS), lines)


def parallel_shares() -> str:
    """The gain of batches of 64 by Amdahl's law, next to the paper's, and the most this core could give."""

    def percent(gain: float) -> str:
        return f"{100 * parallel_share_at(64, gain):.2f} %"

    lines = [("the paper, Figure 1", "", f"{FIGURE_1_GAIN}", "", percent(FIGURE_1_GAIN))]
    run = speed_run(IN_TURNS)
    for sizes, experiment in (("sizes of Figure 1", FIGURE_1), ("sizes of section 5", PAPER)):
        for method in ("step-naive", "replay"):
            large, single = (run.cell(experiment, f"{method}@{size}") for size in (64, 1))
            gain, most = ratio(large, single).value, 1 / single.mfu_with_update
            shown = [bracketed(text, [large, single]) for text in (f"{gain:.1f}", percent(gain))]
            lines.append((sizes, f"`{method}`", shown[0], f"{most:.0f}", shown[1]))
    return table(("", "", "64 over 1", "at most, on this core", "parallel share"), lines)


def stack_lstm_utilisation() -> str:
    cells = [speed_run(IN_TURNS).cell(PAPER, f"{method}@64") for method in ("replay", "step", "step-naive")]
    return table(
        ("batches of 64", *(f"`{row.method}`" for row in cells)),
        [
            ("MFU", *(f"{row.mfu:.2f}" for row in cells)),
            ("rows that are padding", *(f"{row.padding_share:.0%}".replace("%", " %") for row in cells)),
        ],
    )


def precision() -> str:
    """The speed of every cell in float32 and in bfloat16, and the gain."""
    cells = grouped(
        ((list(NETWORKS).index(row.experiment), row.method, row.batch_size), row)
        for row in speed_run("precision").rows
    )
    pairs = {key: {row.precision: row for row in of_cell} for key, of_cell in sorted(cells.items())}
    return table(
        ("network", "method", "batch", "float32", "bfloat16", "gain"),
        (
            (
                [*NETWORKS.values()][network],
                method,
                size,
                *(f"{both[each].sentences_per_second:,.0f}" for each in ("float32", "bfloat16")),
                ratio(both["bfloat16"], both["float32"]),
            )
            for (network, method, size), both in pairs.items()
        ),
    )


def peers() -> str:
    """Speeds of whole parsers, measured in turns, and their ratios to `ud-english-ewt`."""
    speeds = {name: run["speeds"] for name, run in latest("speed/peers/external.jsonl").items()}
    base = "ud-english-ewt"
    return table(
        ("parser", "sentences/s", f"over `{base}`"),
        (
            (
                f"`{name}`" if name.startswith("ud-") else name,
                f"{median_of(of_parser):,.0f}",
                "" if name == base else ratio_of(of_parser, speeds[base], interleaved=True),
            )
            for name, of_parser in sorted(speeds.items(), key=lambda item: -median_of(item[1]).value)
        ),
    )


def group_speeds() -> dict[str, dict[int, list[float]]]:
    """Sentences per second in each turn, by program and size of the groups that are handed in at once."""
    speeds: dict[str, dict[int, list[float]]] = {}
    for name, row in latest("speed/latency/external.jsonl").items():
        program, _, size = name.rpartition(", ")
        speeds.setdefault(program, {})[int(size)] = row["speeds"]
    return speeds


def milliseconds(size: int, speed: Estimate) -> Estimate:
    """Milliseconds until all trees of a group are parsed. speed: in sentences per second."""
    return Estimate(*(1000 * size / each for each in (speed.value, speed.high, speed.low)))


def latency() -> str:
    """Milliseconds of a group in each program, and the other programs' times over this program's."""
    speeds = group_speeds()
    sizes = sorted(speeds[OURS])
    times = (
        (
            f"`{program}`" if program == OURS else program,
            *(f"{milliseconds(size, median_of(by_size[size])).value:.3g}" for size in sizes),
        )
        for program, by_size in speeds.items()
    )
    over_ours = (
        (
            f"{program} over `{OURS}`",
            *(ratio_of(speeds[OURS][size], by_size[size], interleaved=True) for size in sizes),
        )
        for program, by_size in speeds.items()
        if program != OURS
    )
    return table(("milliseconds for a group of", *sizes), [*times, *over_ours])


def draw_latency() -> Figure:
    """Two panels by group size: milliseconds, and sentences per second."""
    speeds = {
        program: {size: median_of(each) for size, each in by_size.items()}
        for program, by_size in group_speeds().items()
    }
    waiting = {
        program: {size: milliseconds(size, speed) for size, speed in by_size.items()}
        for program, by_size in speeds.items()
    }
    figure = Figure(figsize=(WIDTH, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = sorted(speeds[OURS])
    for axes, curves, title in (
        (left, waiting, "milliseconds until all trees are there"),
        (right, speeds, "sentences per second"),
    ):
        draw_lines(axes, curves, list(curves))
        axes.set_title(title, fontsize=LABEL_SIZE)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.set_xlabel("sentences handed in at once")
    left.set_yscale("log")
    right.set_ylim(bottom=0)
    for axes in (left, right):
        axes.yaxis.set_major_formatter(PLAIN)
    legend_below(figure)
    return figure


def padded_lstms() -> str:
    """Times of a padded LSTM over times by levels, for batches of different lengths."""
    header = ["words of a sentence"]
    lines: dict[str, list[str]] = {}
    for instructions in ("AVX-512", "AVX2"):
        _, sizes, *rest = printed(f"padded LSTMs, {instructions}")
        header += [f"{size}, {instructions}" for size in re.findall(r"\d+ units", sizes)]
        for line in rest:
            lengths, *gains = re.split(r" {2,}", line)
            lines.setdefault(lengths.removesuffix(" words"), []).extend(gains)
    return table(header, ([lengths, *gains] for lengths, gains in lines.items()))


def schedules() -> str:
    """Numbers of batches by agenda and by depth, and the speed by depth as a share of that by agenda."""
    header = ("", "batches by agenda", "by depth", "speed by depth over agenda, 32 units", "256 units")
    titles = {"cell": "as cells", "operation": "as operations"}
    lines = (line.split("; ") for line in printed("measure_schedules")[1:])
    return table(header, ((f"{name}, {titles[grain]}", *figures) for grain, name, *figures in lines))


def single_figures() -> str:
    def searched(pattern: str, words: str) -> list[str]:
        """All that the pattern finds in what commands printed. Raises ValueError if there is nothing."""
        everything: list[str] = re.findall(pattern, " ".join(printed(words)))
        if not everything:
            raise ValueError(f"no {pattern} in what was printed")
        return everything

    def machine(command: str) -> str:
        """The processor on which a command was run last."""
        program = command.split()[1].rpartition("/")[2]
        return processor(printed_rows(program)[-1]["machine"])

    words = searched(r"words +(\d+(?:,\d+)*)", "check")[0]
    trajectories = sorted(searched(r"trajectories in +([\d.]+) s", "check"), key=float)
    five, fifty, again, most = (f"{float(size):.0f}" for size in searched(r"([\d.]+) MiB", "measure_memory"))
    studies = "python scripts/studies"
    lines = (
        (
            f"reading the training set of EWT, {words} words",
            searched(r"read in +([\d.]+ s)", "check")[0],
            CHECK,
        ),
        (
            "its oracle trajectories, each transition system",
            f"{trajectories[0]} to {trajectories[-1]} s",
            CHECK,
        ),
        (
            "peak memory of parsing the test set of EWT 5, 50 and 150 times over as one stream",
            f"{five}, {again} to {fifty} (two runs) and {most} MiB",
            f"{studies}/scale/measure_memory.py",
        ),
        (
            "peak memory of `Parser.parse_all`, 1,000,000 sentences by a small parser",
            searched(r"(\d+) at most", "measure_parse_all")[-1] + " MiB",
            f"{studies}/scale/measure_parse_all.py",
        ),
        (
            "speed of parsing with tags and lemmas over that without, with as many layers",
            searched(r"with tags over without: (.*)", "measure_tagging")[0],
            f"{studies}/text/measure_tagging.py",
        ),
        (
            "time of tokenizing the text of EWT's test set over that of parsing it",
            searched(r"time of parsing: (.*)", "measure_tokenizing")[0],
            f"{studies}/text/measure_tokenizing.py",
        ),
        (
            "speed of training with vectors of a frozen transformer over that with pretrained ones",
            searched(r"ones: (.*)", "measure_frozen_vectors")[0],
            f"{studies}/accuracy/measure_frozen_vectors.py",
        ),
    )
    return table(
        ("", "", "processor", "command"),
        ((what, value, machine(command), f"`{command}`") for what, value, command in lines),
    )


def levels_and_steps() -> str:
    """The number of steps and levels that the sentences of a treebank take."""
    pattern = r"(steps|levels) +median (\d+), greatest (\d+).*"
    lines = matches(pattern, printed("measure_levels"))
    header = ("training set of English EWT", "median of the sentences", "greatest")
    return table(header, sorted(lines, reverse=True))


def reading() -> str:
    """The speed of reading the shipped treebank, next to conllu."""
    lines = printed("measure_reading")[-3:]
    readers, speeds = zip(*(line.split(": ") for line in lines), strict=True)
    return table(("of the processor's time", *readers), [("reading `train.conllu`", *speeds)])


def service() -> str:
    """Sentences per second and latencies under load, next to UDPipe's own server: medians over the turns."""
    services = {
        "stack-parser": "stack-parser",
        "udpipe": "UDPipe, default settings",
        "udpipe-released": "UDPipe, settings of its released model",
    }
    addresses = " ".join(f"{name}=http://127.0.0.1:{port}" for port, name in enumerate(services, 8101))
    loads = {
        "one client": "--clients 1 ",
        "32 clients": "--clients 32 ",
        "one client, beside 31 that send 50 sentences at a time": "--texts 50 ",
    }
    pattern = r"([\w-]+): sentences/s ([\d.]+) .*, p50 in ms ([\d.]+) .*, p99 in ms ([\d.]+) .*"
    return table(
        ("single sentences from", "", "sentences/s", "median, ms", "99 %, ms"),
        (
            (load, services[service], *figures)
            for load, clients in loads.items()
            for service, *figures in matches(
                pattern, printed(f"runs/peers/ewt-test.txt {addresses} {clients}")
            )
        ),
    )


def request_memory() -> str:
    """The service's memory with many large requests at once, by kind."""
    pattern = r"(\d+ requests of [\d.]+ MB, .+): (\d+) MiB before, at most (\d+) MiB; .*"
    lines = matches(pattern, printed("measure_request_memory.py"))
    return table(("", "before, MiB", "at most, MiB"), lines)


def processes() -> str:
    """The gain of two processes, next to that of matrix products in the same turns."""
    commands = {
        "training in batches of 256": "batch_size=256 --turns",
        "training in batches of 64": "batch_size=64 --turns",
        "`parse`, 50,000 sentences": "en_ewt-ud-train.conllu --turns 5",
        "`parse-corpus`, 200,000 sentences": "--ray",
    }
    lines = []
    for title, words in commands.items():
        last = printed(words)[-3:]
        products, gain, share = (line.rpartition(": ")[2] for line in last)
        lines.append((title, gain, products, share))
    return table(("two processes over one", "gain", "gain of products", "share of that"), lines)


def training_with_processes() -> str:
    """Dev LAS of a parser trained by one process, and of a parser trained by two."""
    lines = printed("training.batch_size=64 --processes")
    las = [line.rpartition(" ")[2] for line in lines if "UAS" in line]
    return table(("processes", "dev LAS"), zip(("one", "two"), las, strict=True))


def plan_table(number: int) -> str:
    """A table that the plan of a corpus printed."""
    lines = printed("plan_corpus")
    text = "\n".join(line if line.startswith("|") else "" for line in lines)
    return re.split(r"\n{2,}", text.strip())[number]


FIGURES: dict[str, Callable[[], str]] = {
    "corpus-blocks": partial(plan_table, 0),
    "corpus-limits": partial(plan_table, 1),
    "corpus-plan": partial(plan_table, 2),
    "latency": latency,
    "levels-and-steps": levels_and_steps,
    "padded-lstms": padded_lstms,
    "parallel-shares": parallel_shares,
    "peers": peers,
    "precision": precision,
    "processes": processes,
    "reading": reading,
    "request-memory": request_memory,
    "schedules": schedules,
    "service": service,
    "single-figures": single_figures,
    "stack-lstm": partial(stack_lstm, PAPER),
    "stack-lstm-figure-1": partial(stack_lstm, FIGURE_1),
    "stack-lstm-ratios": stack_lstm_ratios,
    "stack-lstm-utilisation": stack_lstm_utilisation,
    "training-with-processes": training_with_processes,
}
