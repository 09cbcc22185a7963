"""`stack-parser models`: list the models in a folder, with information from their cards."""

from __future__ import annotations

import argparse
from pathlib import Path

from parser.commands.errors import message_of
from parser.commands.treebank_table import table
from parser.models.model_card import OF_TAGS, OF_TEXT, OF_TOKENS, read_card
from parser.models.model_files import Package
from parser.models.named_models import models_in
from parser.system.console import LinesError, say, shortened

MEGABYTE = 1_000_000
COLUMNS = ["MB", f"LAS, {OF_TEXT}", f"LAS, {OF_TOKENS}", f"LAS, {OF_TAGS}", "licence"]


def list_models(options: argparse.Namespace) -> None:
    """List the models. Raises ValueError if there is none, and in the end if some cannot be read."""
    rows, faults = [], list[str]()
    for name, path in models_in(options.folder).items():
        try:
            rows.append((name, _cells(path)))
        except (ValueError, OSError) as error:
            faults += message_of(error)
    if rows:
        say(*table(COLUMNS, rows))
    if faults:
        raise LinesError(*faults)


def _cells(path: Path) -> list[str]:
    card = read_card(Package(path))
    scores = [card.score("las", given) if card else None for given in (OF_TEXT, OF_TOKENS, OF_TAGS)]
    cells = ["" if score is None else f"{score:.2f}" for score in scores]
    return [f"{path.stat().st_size / MEGABYTE:.1f}", *cells, shortened(card.licence) if card else ""]
