"""Figures: of small rows, between marks on pages, and of the kept rows in README and docs/."""

import json
import shutil
import sys
from dataclasses import asdict, replace

import pytest
from figures import headline, kept
from figures.pages import names_in, with_figures
from programs import script
from speed_rows import failed_row, speed_row

from parser.speed.measuring.rows import Machine


def timed(method, size, *speeds, group="1"):
    """A row of a speed run with a turn of one step for each speed, in sentences per second."""
    named = {"experiment": "toy", "method": method, "batch_size": size, "interleaved_group": group}
    row = speed_row(
        sentences_per_second=sorted(speeds)[len(speeds) // 2],
        turns=[1] * len(speeds),
        seconds=[size / speed for speed in speeds],
        sentences=[size] * len(speeds),
        **named,
    )
    return replace(row, commit="abc")


def forget():
    kept.rows.cache_clear()
    kept.speed_run.cache_clear()


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A folder of measurements with one speed run and one table of training runs."""
    forget()
    monkeypatch.setattr(kept, "MEASUREMENTS", tmp_path)
    rows = [
        timed("none", 1, 10, 10, 20),
        timed("replay", 8, 40, 50, 60),
        timed("step", 8, 20, 25, 40, group="2"),
        failed_row("timeout", experiment="toy", method="late"),
    ]
    runs = [
        {"table": "toys", "name": name, "seed": seed, "seconds": 60 * seed, "test": {"las": las}}
        for name, seed, las in (("plain", 1, 80.0), ("plain", 2, 82.0), ("more", 1, 81.0), ("more", 2, 83.0))
    ]
    for path, content in (("speed/toys/rows.jsonl", list(map(asdict, rows))), ("accuracy/rows.jsonl", runs)):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("".join(json.dumps(row) + "\n" for row in content))
    yield tmp_path
    forget()


def test_cells_of_a_speed_run(measured):
    run = kept.speed_run("toys")
    assert run.cell("toy", "replay@8").sentences_per_second == 50
    assert run.has("toy", "none@1")
    assert not run.has("toy", "none@8")
    assert run.ratio("toy", "replay@8", "none@1").value == pytest.approx(4)  # the median of 4, 5 and 3
    for cell in ("none@8", "late@8"):
        with pytest.raises(ValueError, match=f"toy: {cell} was not measured in train, float32"):
            run.cell("toy", cell)


def test_scores_of_a_table(measured):
    runs = kept.runs_of_table("toys")
    assert kept.shown(runs["plain"], "test las") == "81.00"
    assert kept.shown(runs["more"], "test las spread") == "82.00 (81.00, 83.00)"
    assert kept.shown(runs["more"], "test las each") == "81.00 and 83.00"
    assert kept.shown([*runs["more"], runs["plain"][0]], "test las each") == "81.33 (80.00, 83.00)"
    assert kept.shown(runs["more"], "test las over", runs["plain"]) == "+1.00 [+1.00, +1.00]"
    assert kept.shown(runs["more"][:1], "test las over", runs["plain"]) == "+1.00"
    assert kept.shown(runs["plain"], "minutes") == "1.5"


def test_tables_of_figures(measured):
    lines = kept.ratios(kept.speed_run("toys"), [("how much", "toy", "replay@8", "none@1")]).splitlines()
    assert lines[2] == "| how much | `replay@8` | `none@1` | 4.00 [3.00, 5.00] |"
    columns = ("LAS", "test las"), ("gain", "test las over"), ("plain", "test las", "toys: plain")
    lines = kept.RunTable("toys", columns, base="plain", heading="runs", title="`{}`")().splitlines()
    assert lines[0] == "| runs | LAS | gain | plain |"
    assert lines[2:] == ["| `plain` | 81.00 | | 81.00 |", "| `more` | 82.00 | +1.00 [+1.00, +1.00] | 81.00 |"]
    assert kept.table(("", "a"), [("x", 1), ("", "")]) == "| | a |\n|---|---|\n| x | 1 |\n| | |"
    with pytest.raises(ValueError, match="1 cells in a table of 2 columns"):
        kept.table(("", "a"), [("x",)])


def test_what_a_command_printed(measured):
    rows = [
        {"command": ["train", "a.yaml"], "printed": ["1"]},
        {"command": ["train", "a.yaml", "--more"], "printed": ["2"]},
        {"name": "both", "command": ["evaluate"], "printed": ["3"]},
    ]
    (measured / "printed.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert kept.printed("train a.yaml") == ["1"]
    assert kept.printed("a.yaml") == ["1", "2"]
    assert kept.printed("both") == ["3"]
    with pytest.raises(ValueError, match="'parse'"):
        kept.printed("parse")


def test_rows_that_are_not_there_are_named(measured):
    with pytest.raises(FileNotFoundError, match=r"other.jsonl"):
        kept.rows("accuracy/other.jsonl")
    with pytest.raises(ValueError, match="the table other"):
        kept.runs_of_table("other")


HEADLINE = """
Tasks:
  baseline: one after the other
  method: none
  lines:
    Toys:
      config: toys
      experiment: toy
      best: [replay, late]
      simple: [step, steps]
      paper: {name: A & B 2020, over_none: [2, 3], how: Table 1}
"""


@pytest.fixture
def headline_of(measured):
    """headline_of(*rows, text=HEADLINE): the groups of the headline, with more rows, at one commit."""
    shutil.copytree(measured / "speed/toys", measured / "speed/headline/toys")

    def read(*rows, text=HEADLINE):
        with (measured / "speed/headline/toys/rows.jsonl").open("a") as file:
            file.write("".join(json.dumps(asdict(row)) + "\n" for row in rows))
        kept.speed_run.cache_clear()
        (measured / "headline.yaml").write_text(text)
        return headline.headlines(measured / "headline.yaml")

    return read


BASELINE = timed("none", 8, 5, 10, 20)


def test_the_headline_has_the_fastest_method_over_the_baseline_and_marks_simple_ways_and_papers(headline_of):
    groups = headline_of(BASELINE, timed("steps", 8, 10, 10, 30))
    text = headline.headline_tables(groups)
    assert "CPU, AVX2, one core, at commit abc." in text
    # The ratios of the turns are 8, 5 and 3. The turns of `step` were measured at another time.
    assert "| Toys | `replay`, 8 | 5.0 [3.0, 8.0] | 2 to 3 | (2.00 [" in text
    assert "]) `step`, 4.00 `steps` |" not in text
    assert "]) `step` | 4.00 `steps` |" in text
    assert text.endswith("A & B 2020 (Table 1).")
    marks = {
        (line.get_marker(), line.get_markerfacecolor()): list(line.get_xdata())
        for line in headline.draw(groups).axes[0].lines
        if line.get_marker() in ("o", "D")
    }
    assert marks["o", "black"] == [pytest.approx(2.5)]
    assert marks["o", "white"] == [pytest.approx(1.5)]
    assert marks["D", headline.PAPER["color"]] == [2, 3]


@pytest.mark.parametrize(("best", "missing"), [("replay, late", "none at 8"), ("late", "late")])
def test_a_headline_needs_a_method_and_a_baseline_of_the_same_batch_size(headline_of, best, missing):
    with pytest.raises(ValueError, match=f"Toys: there is no row of {missing} in toy of toys"):
        headline_of(text=HEADLINE.replace("replay, late", best))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"machine": Machine("Other(R) Processor", "AVX2", 2, [])}, "Other, AVX2, one core, at commit abc"),
        ({"machine": Machine("CPU", "AVX512", 2, [])}, "CPU, AVX-512, one core, at commit abc"),
        ({"threads": 2}, "CPU, AVX2, 2 cores, at commit abc"),
        ({"commit": "another"}, "CPU, AVX2, one core, at commit another"),
    ],
)
def test_a_headline_is_of_one_machine_and_commit(headline_of, changes, named):
    with pytest.raises(ValueError, match=r"CPU, AVX2, one core, at commit abc.*: measure all at") as error:
        headline_of(BASELINE, replace(timed("replay", 8, 60, 60, 60), **changes))
    assert named in str(error.value)


@pytest.mark.parametrize(("method", "shown"), [("replay", ""), ("agenda", " `agenda`")])
def test_a_paper_of_another_method_than_the_best_names_it(headline_of, method, shown):
    groups = headline_of(BASELINE, text=HEADLINE.replace("2020,", f"2020, method: {method},"))
    texts = [text.get_text() for text in headline.draw(groups).axes[0].texts]
    assert ("agenda" in texts) == bool(shown)
    assert f"| 2 to 3{shown} |" in headline.headline_tables(groups)


def test_a_headline_may_be_of_a_part_of_a_step_in_inference(headline_of):
    own = {"experiment": "toy", "mode": "infer", "batch_size": 8}
    [group] = headline_of(
        speed_row(10.0, method="none", phase_seconds={"forward": 1.0, "cells": 3.0}, **own),
        speed_row(20.0, method="replay", phase_seconds={"forward": 3.0, "cells": 1.0}, **own),
        text=HEADLINE.replace("best:", 'mode: infer\n      part: "cells, forward"\n      best:'),
    )
    [line] = group.lines
    # The cells take 75 of 100 ms, and 12.5 of 50 ms.
    assert line.over_baseline == (pytest.approx(6), pytest.approx(6), pytest.approx(6))
    assert "| Toys | `replay`, 8 | 6.0 | 2 to 3 | | |" in headline.headline_tables([group])


def test_pages_are_written_and_checked(tmp_path, monkeypatch, capsys):
    program = script("write_figures")
    page, readme = tmp_path / "docs/measurements/speed/README.md", tmp_path / "README.md"
    page.parent.mkdir(parents=True)
    page.write_text("Text\n<!-- rows: some -->\n<!-- end -->\n")
    readme.write_text("Text\n")
    figures = {"some": lambda: "| 1 |"}
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(program, "figures_by_name", lambda: figures)
    monkeypatch.setattr(program, "pictures", lambda: {"some.svg": "<svg/>"})

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["write_figures.py", *arguments])
        return program.main(), capsys.readouterr().err

    code, told = run("--check")
    assert (code, "docs/measurements/speed/README.md is out of date" in told) == (1, True)
    assert run()[0] == 0
    assert page.read_text() == "Text\n<!-- rows: some -->\n\n| 1 |\n\n<!-- end -->\n"
    assert readme.read_text() == "Text\n"
    assert (tmp_path / "docs/some.svg").read_text() == "<svg/>"
    assert run("--check")[0] == 0
    figures["other"] = pytest.fail
    code, told = run("--check")
    assert (code, "no page shows the figure other" in told) == (1, True)
    page.write_text("<!-- rows: unknown -->\n<!-- end -->\n")
    code, told = run("--check")
    assert (code, "docs/measurements/speed/README.md: there is no figure unknown" in told) == (1, True)


PAGE = """Before

<!-- rows: one -->

old

<!-- end -->

between `<!-- rows: NAME -->`

<!-- rows: two -->
<!-- end -->
"""


def test_what_stands_between_marks_is_replaced():
    written = with_figures(PAGE, {"one": "| new |\n|---|", "two": "2", "other": "3"})
    assert names_in(PAGE) == ["one", "two"]
    assert written == (
        "Before\n\n<!-- rows: one -->\n\n| new |\n|---|\n\n<!-- end -->\n\nbetween `<!-- rows: NAME -->`\n\n"
        "<!-- rows: two -->\n\n2\n\n<!-- end -->\n"
    )
    assert with_figures(written, {"one": "| new |\n|---|", "two": "2"}) == written


@pytest.mark.parametrize(
    "page",
    [
        "<!-- rows: one -->\n",
        "<!-- end -->\n",
        "<!-- end -->\n<!-- rows: one -->\n",
        "<!-- rows: one -->\n<!-- rows: two -->\n<!-- end -->\n<!-- end -->\n",
        "<!-- rows: one -->\n<!-- end -->\n<!-- end -->\n",
    ],
)
def test_a_mark_without_its_other_one_is_refused(page):
    with pytest.raises(ValueError, match="needs an `<!-- end -->`"):
        names_in(page)
