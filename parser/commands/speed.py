"""`stack-parser speed`, `plots` and `plugins`: measure and compare batching methods."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.speed import commands
from parser.speed.tasks.conformance import check_plugin
from parser.speed.tasks.discovery import about_plugins, plugin_text
from parser.speed.tasks.plugin import FEW_EXAMPLES
from parser.system.console import say
from parser.system.machine import tune_process


def measure(options: argparse.Namespace) -> None:
    tune_process()
    folder = options.folder or Path("runs") / "speed" / options.config.stem
    commands.speed(options.config, options.overrides, folder, options.only, options.ratio, options.minutes)


def draw(options: argparse.Namespace) -> None:
    from parser.speed.reporting.plot_style import Look

    look = Look(options.format, options.width, options.font_size, options.scale)
    out = options.output or options.folder
    if look == Look() and not options.only and not options.plot and not options.style:
        commands.plots(options.folder, out)
    else:
        commands.pictures(options.folder, out, options.only, options.plot, look, options.style)


def about(options: argparse.Namespace) -> None:
    """Print all plugins, the settings of one plugin, or the results of its check. Raises ValueError."""
    tune_process()
    if options.check and not options.name:
        raise ValueError("--check needs a plugin: stack-parser plugins NAME --check")
    if options.examples is not None and not options.check:
        raise ValueError("--examples needs --check: stack-parser plugins NAME --check --examples N")
    if options.check:
        say(check_plugin(options.name, options.examples or FEW_EXAMPLES))
    else:
        say(*(plugin_text(options.name) if options.name else about_plugins()))
