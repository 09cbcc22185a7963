"""`stack-parser speed`, `plots` and `plugins`: measure batching methods side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.benchmarks.conformance import check_plugin
from parser.benchmarks.discovery import about_plugins
from parser.speed import commands
from parser.system.console import say
from parser.system.machine import tune_process


def measure(options: argparse.Namespace) -> None:
    tune_process()
    folder = options.folder or Path("runs") / "speed" / options.config.stem
    commands.speed(options.config, options.overrides, folder, options.only, options.ratio, options.minutes)


def draw(options: argparse.Namespace) -> None:
    commands.plots(options.folder)


def list_or_check(options: argparse.Namespace) -> None:
    tune_process()
    say(*([check_plugin(options.check)] if options.check else about_plugins()))
