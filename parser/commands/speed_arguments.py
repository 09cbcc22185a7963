"""The arguments of `speed`, `plots` and `plugins`."""

from __future__ import annotations

import argparse
from contextlib import suppress
from pathlib import Path
from typing import Any

from parser.commands.shared_arguments import add_config, add_overrides, named_output, positive

Commands = Any
"""See `parser.commands.arguments`."""
SPEED_SETTINGS = (
    "Settings of a config: experiments, external, external_turns, learning, devices, threads, precisions, "
    "seed, seconds, relative_error, turn, warmup, together, timeout. Each experiments.NAME contains plugin, "
    "methods, modes, batch_sizes and settings, which are the settings of the plugin. `stack-parser plugins` "
    "lists all plugins, and `stack-parser plugins NAME` the methods and settings of one. docs/settings.md "
    "explains the settings."
)
"""The end of the text of `speed --help`."""


def add_commands(commands: Commands) -> None:
    command = commands.add_parser(
        "speed",
        help="measure batching methods side by side, as set in a config",
        description="Measure batching methods side by side, as set in a config, and write a report.",
        epilog=SPEED_SETTINGS,
    )
    add_config(command, "configs/speed", "runs/speed")
    add_overrides(command, "seconds=4 or --set experiments.quick.batch_sizes=[1,64]")
    command.add_argument(
        "--only",
        default="",
        metavar="KEY=VALUE|VALUE,…",
        help="measure only these cells, such as method=step,batch_size=1|64",
    )
    command.add_argument(
        "--ratio",
        action="append",
        default=[],
        metavar="A/B",
        help="print this ratio of speeds, such as method=replay/method=step, or over one by one: "
        "method=replay,batch_size=64/method=none,batch_size=1; may be given several times",
    )
    command.add_argument(
        "--minutes",
        type=positive,
        metavar="N",
        help="start no more cells after N minutes, and omit external and learning; the same command "
        "continues the run",
    )
    command.set_defaults(run="parser.commands.speed:measure")

    command = commands.add_parser("plots", help="redraw the plots and rewrite the report of a speed run")
    command.add_argument(
        "folder", type=Path, metavar="RUN", help="folder of the run, such as runs/speed/quick"
    )
    command.add_argument(
        "-o",
        "--output",
        type=named_output,
        metavar="OUT",
        help="folder for the report and the plots, which are written to OUT/plots (default: RUN)",
    )
    command.add_argument(
        "--only",
        default="",
        metavar="KEY=VALUE|VALUE,…",
        help="draw only these cells, such as method=step|replay; with this or one of the following options, "
        "only the plots are written, and the plugins need not be installed",
    )
    command.add_argument(
        "--plot",
        default="",
        metavar="NAME",
        help="write only the plot whose file name is NAME or ends in it, such as speed-up",
    )
    command.add_argument("--format", choices=("svg", "pdf", "png"), default="svg", help="format of the files")
    command.add_argument("--width", type=_inches, help="width of a figure, such as 3.3in or 8.4cm")
    command.add_argument("--font-size", type=float, metavar="POINTS", help="size of all text")
    command.add_argument("--scale", choices=("linear", "log"), help="scale of the values over batch sizes")
    command.add_argument("--style", metavar="FILE", help="Matplotlib style: a file (.mplstyle) or a name")
    command.set_defaults(run="parser.commands.speed:draw")

    command = commands.add_parser(
        "plugins", help="list the plugins that can be measured, or show or check one"
    )
    command.add_argument(
        "name", nargs="?", metavar="NAME", help="show the methods and settings of this plugin"
    )
    command.add_argument(
        "--check", action="store_true", help="test whether the plugin meets the requirements for all plugins"
    )
    command.add_argument(
        "--examples",
        type=positive,
        metavar="N",
        help="with --check, the number of examples on which methods are compared (default: 8)",
    )
    command.set_defaults(run="parser.commands.speed:about")


def _inches(text: str) -> float:
    for unit, inches in (("in", 1.0), ("cm", 1 / 2.54), ("mm", 1 / 25.4)):
        if text.endswith(unit):
            with suppress(ValueError):
                if 1 <= (value := float(text.removesuffix(unit)) * inches) <= 30:
                    return value
    raise argparse.ArgumentTypeError(f"{text!r}: write a width of 1 to 30 inches, as 3.3in, 8.4cm or 84mm")
