"""The grid of speed-ups by batch size and a setting."""

import re

import pytest
from speed_rows import run_of, speed_row

from parser.pages.plot_style import svg
from parser.speed.reporting import grid


def row(experts, method, size, speed, cells, **changed):
    """A row of a speed run. cells: the share of the step that is spent in modules."""
    phases = {"forward": 1 - cells, "cells": cells}
    settings = {"experts": experts, "gate": changed.pop("gate", "plain")}
    cell = {"experiment": f"experts-{experts}", "plugin": "mixture_of_experts", "mode": "infer"}
    return speed_row(
        speed, method=method, batch_size=size, settings=settings, phase_seconds=phases, **{**cell, **changed}
    )


ROWS = [
    row(10, "none", 1, 10, 0.5),
    row(10, "none", 100, 10, 0.5),
    row(10, "static", 1, 5, 0.5),
    row(10, "static", 100, 40, 0.25),
    row(10, "grouped", 100, 20, 0.5),
    row(1, "none", 1, 10, 0.5),
    row(1, "none", 100, 10, 0.5),
    row(1, "static", 100, 3000, 0.5),
    row(1, "static", 1000, 3000, 0.5),
]


def test_speed_ups_stand_by_batch_size_and_setting():
    [section] = grid.sections(run_of(ROWS))
    assert section.title == "experts-10, infer, cpu, by experts"
    modules, whole = section.tables
    assert modules.columns == ("`static`, modules, forward: batch size, by experts", "1", "10")
    assert modules.rows == [["100", "300", "8.00"], ["1", "", "0.50"]]
    assert whole.columns[0] == "`static`, whole step: batch size, by experts"
    assert whole.rows == [["100", "300", "4.00"], ["1", "", "0.50"]]


def test_every_number_is_drawn_in_its_place():
    [section] = grid.sections(run_of(ROWS))
    [picture] = map(svg, section.plots.values())
    drawn = re.findall(r">([\d.,]+)</text>", picture)
    assert {"300", "8.00", "4.00"} <= set(drawn)
    assert drawn.count("0.50") == 2
    assert picture.count("modules, forward</text>") == picture.count("whole step</text>") == 1


@pytest.mark.parametrize(
    "rows",
    [
        [each for each in ROWS if each.settings["experts"] == 10],
        [each for each in ROWS if each.batch_size == 100],
        [row(1, "none", 1, 10, 0.5, plugin="reading"), row(10, "none", 1, 10, 0.5, plugin="reading")],
        [row(1, "none", 1, 10, 0.5), row(10, "none", 1, 10, 0.5, gate="noisy")],
    ],
)
def test_what_is_no_grid_is_left_out(rows):
    assert list(grid.sections(run_of(rows))) == []
