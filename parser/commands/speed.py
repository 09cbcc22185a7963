"""`stack-parser speed`, `plots` and `plugins`: measure batching methods side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.commands.options import Commands, add_config, add_overrides, positive


def add_speed(commands: Commands) -> None:
    command = commands.add_parser("speed", help="measure batching methods side by side, as a config says")
    add_config(command, "configs/speed", "runs/speed")
    add_overrides(command)
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
        help="print this ratio of speeds, such as method=replay/method=step; may be given several times",
    )
    command.add_argument(
        "--minutes",
        type=positive,
        metavar="N",
        help="begin no further cells after N minutes, and omit external and learning; the same command "
        "continues",
    )
    command.set_defaults(command=measure)


def add_plots(commands: Commands) -> None:
    command = commands.add_parser("plots", help="draw the plots and write the report of a speed run again")
    command.add_argument("run", type=Path, metavar="RUN", help="folder of the run, such as runs/speed/quick")
    command.set_defaults(command=draw)


def add_plugins(commands: Commands) -> None:
    command = commands.add_parser("plugins", help="list what can be measured, or check a plugin")
    command.add_argument(
        "--check", metavar="NAME", help="test whether the plugin does what every plugin must"
    )
    command.set_defaults(command=list_or_check)


def measure(options: argparse.Namespace) -> None:
    from parser.speed import commands  # which the other commands do not need

    folder = options.run or Path("runs") / "speed" / options.config.stem
    commands.speed(options.config, options.overrides, folder, options.only, options.ratio, options.minutes)


def draw(options: argparse.Namespace) -> None:
    from parser.speed import commands

    commands.plots(options.run)


def list_or_check(options: argparse.Namespace) -> None:
    from parser.speed import commands

    if options.check:
        commands.check_plugin(options.check)
    else:
        commands.list_plugins()
