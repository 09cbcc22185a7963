"""Tables of the fastest method for each kind of network, and of other ways to batch, in turns with ours: in
PyTorch, JAX, DyNet and PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from figures.kept import grid, latest, short_speed, speed_run, table
from parser.evaluation.statistics import median_of, ratio_of
from parser.speed.reporting.speed_ups import bracketed, ratio

Speeds = Sequence[float]
"""Of a program, in each turn."""
RUN = "alternatives"
EXPERIMENTS = {
    "tagger": "tagger",
    "similar lengths": "tagger-similar-lengths",
    "Tree-LSTM": "trees",
    "tagger, generated": "tagger-generated",
    "Tree-LSTM, generated": "trees-generated",
}
METHODS = {
    "one by one": "none",
    "agenda": "agenda",
    "by levels": "levels",
    "by hand": "manual",
    "PyTorch's LSTM, packed": "library",
    "PyTorch's LSTM, padded": "padded",
    "nested tensors": "nested",
    "`torch.func.vmap`, padded": "vmap",
    "by hand, the cell by `torch.compile`": "compiled",
}
SIMPLE = "manual", "library", "padded", "none"
CASES = (
    ("sequences in batches of random lengths", RUN, "tagger", (*METHODS.values(),), 64),
    ("sequences in batches of similar lengths", RUN, "tagger-similar-lengths", (*METHODS.values(),), 64),
    ("trees", RUN, "trees", (*METHODS.values(),), 64),
    ("decisions that depend on scores", "on-the-fly", "parser", ("agenda", "depth", *SIMPLE), 64),
    (
        *("programs of modules", "levels/paper-sizes", "programs-paper"),
        *(("levels", "columns", "agenda", "none"), 64),
    ),
    (
        *("stacks, with known operations", "stack-lstm/in-turns", "ding-koehn-2019"),
        *(("replay", "step", "step-naive"), 64),
    ),
    ("one long stream", "recurrence", "elman", ("components", "library", "none"), 1),
    ("experts", "levels/experts", "experts-100", ("static", "grouped", "loop", "library", "none"), 10_000),
    ("graphs", "messages", "molecules", ("none", "active-4", "active-16", "active-1"), 20),
)
"""Kinds of networks: the speed run, the experiment, the methods that were measured, and the batch size."""
TASKS = {
    "Tree-LSTM": "trees",
    "tagger": "tagger",
    "with characters": "char-tagger",
    "transition parser": "parser",
}
"""Those measured in turns with DyNet."""
NATIVE, PYTHON, WHEEL = "DyNet native, C++", "DyNet native, Python", "DyNet wheel, Python"


def choosing() -> str:
    """The fastest method for each kind of network, and the speeds of other methods as shares of its speed."""

    def line(what: str, of: str, experiment: str, methods: Sequence[str], batch_size: int) -> tuple[str, ...]:
        run, wanted = speed_run(of), [f"{method}@{batch_size}" for method in methods]
        rows = [run.cell(experiment, cell) for cell in wanted if run.has(experiment, cell)]
        fastest, *others = sorted(rows, key=lambda row: -ratio(row, rows[0]).value)
        shares = ((row, bracketed(f"{ratio(row, fastest).value:.2f}", [row, fastest])) for row in others)
        texts = ", ".join(f"`{row.method}` {share}" for row, share in shares)
        return what, f"{batch_size:,}", f"`{fastest.method}`", texts

    header = ("", "batches of", "fastest", "the others, as shares of its speed")
    return table(header, (line(*case) for case in CASES))


def alternatives() -> str:
    """Speeds of alternatives, in brackets relative to the agenda, and the time until the first results."""
    run = speed_run(RUN)

    def beside_agenda(method: str, experiment: str) -> str:
        if not run.has(experiment, f"{method}@64"):
            return ""
        row, agenda = (run.cell(experiment, f"{each}@64") for each in (method, "agenda"))
        speed = short_speed(row.sentences_per_second)
        return speed if row is agenda else f"{speed}, {ratio(row, agenda)}"

    def is_measured(method: str) -> bool:
        return any(run.has(experiment, f"{method}@64") for experiment in EXPERIMENTS.values())

    waits = (run.cell(experiment, "compiled@64").first_seconds for experiment in EXPERIMENTS.values())
    return grid(
        "examples/s, and as shares of the agenda's",
        EXPERIMENTS,
        {title: method for title, method in METHODS.items() if is_measured(method)},
        beside_agenda,
        ("seconds to compile and check", *(f"{seconds:.0f}" for seconds in waits)),
    )


def speeds_of(task: str, folder: str = "peers/batching") -> dict[str, Speeds]:
    """The speeds for a task, by program; the task is removed from the programs' names."""
    programs = latest(f"speed/{folder}/external.jsonl").items()
    return {name.removesuffix(f", {task}"): row["speeds"] for name, row in programs if row["task"] == task}


def fastest(speeds: Mapping[str, Speeds], *words: str) -> Speeds | None:
    """The speeds of the fastest program with all these words in its name; None if there is none."""
    matching = [each for name, each in speeds.items() if all(word in name for word in words)]
    return max(matching, key=lambda each: median_of(each).value, default=None)


def over(one: Speeds | None, other: Speeds | None) -> str:
    return "" if one is None or other is None else f"{ratio_of(one, other, interleaved=True):.2f}"


def speed(turns: Speeds | None) -> str:
    return "" if turns is None else f"{median_of(turns).value:,.0f}"


def jax() -> str:
    """Speeds of JAX, and their ratios to our speeds in the same turns."""
    tasks = {title: speeds_of(task, RUN) for title, task in EXPERIMENTS.items()}
    methods = "agenda", "levels", "padded"
    return table(
        ("", "JAX, examples/s", *(f"over `{method}`" for method in methods)),
        (
            (title, speed(speeds["JAX"]), *(over(speeds["JAX"], speeds.get(method)) for method in methods))
            for title, speeds in tasks.items()
            if "JAX" in speeds
        ),
    )


def dynet() -> str:
    """Speeds of both programs, and ours over DyNet's with the faster of its LSTMs."""
    ours: dict[str, tuple[str, ...]] = {
        "ours, agenda": ("agenda",),
        "ours, depth": ("depth",),
        "ours, by levels": ("levels",),
        "ours, by hand": ("manual",),
        "ours, one by one": ("none",),
    }
    theirs: dict[str, tuple[str, ...]] = {
        f"{build}, {method}": (build, method)
        for build, methods in (
            (NATIVE, ("agenda", "depth", "none")),
            (PYTHON, ("agenda",)),
            (WHEEL, ("agenda",)),
        )
        for method in methods
    }
    pairs = ("agenda", NATIVE), ("levels", NATIVE), ("agenda", PYTHON), ("agenda", WHEEL)
    tasks = [speeds_of(task) for task in TASKS.values()]
    ratios = (
        (
            f"{mine} over {build}, agenda",
            *(over(each.get(mine), fastest(each, build, "agenda")) for each in tasks),
        )
        for mine, build in pairs
    )
    return grid(
        "examples/s",
        dict(zip(TASKS, tasks, strict=True)),
        ours | theirs,
        lambda names, speeds: speed(speeds.get(names[0]) if len(names) == 1 else fastest(speeds, *names)),
        *ratios,
    )


def pyg() -> str:
    """Speeds of training graph networks, and ours over PyG's with as many kinds of edges."""
    names = {
        "one call for a batch (`none`)": "none",
        "by messages (`active-16`)": "active-16",
        "PyG, extended by kinds of edges": "PyG, kinds of edges",
        "PyG, `GatedGraphConv` as it is: another network": "PyG, plain GatedGraphConv",
    }
    tasks = [f"{task}{ends}" for task in ("deductions", "molecules") for ends in ("", ", two threads")]
    measured = {task: speeds for task in tasks if (speeds := speeds_of(task))}
    ratios = (
        (
            f"`{mine}` over PyG, extended",
            *(over(speeds.get(mine), speeds.get("PyG, kinds of edges")) for speeds in measured.values()),
        )
        for mine in ("none", "active-16")
    )
    return grid("graphs/s", measured, names, lambda name, speeds: speed(speeds.get(name)), *ratios)


FIGURES: dict[str, Callable[[], str]] = {
    "alternatives": alternatives,
    "alternatives-jax": jax,
    "choosing": choosing,
    "libraries-dynet": dynet,
    "libraries-pyg": pyg,
}
