"""What a reader of a report of methods sees, and in which order."""

import re

import pytest
from speed_rows import failed_row, run_of, speed_row

from parser.speed.reporting.report import write_report
from parser.speed.reporting.speed_ups import ratio_lines

PLUGIN = "mnist_mlp"
ROWS = [
    speed_row(100.0, plugin=PLUGIN, method="none", batch_size=1),
    speed_row(10.0, plugin=PLUGIN, method="active-1", batch_size=1),
    speed_row(90.0, plugin=PLUGIN, method="active-1", batch_size=10),
    speed_row(200.0, plugin=PLUGIN, method="active-4", batch_size=1),
    speed_row(400.0, plugin=PLUGIN, method="active-4", batch_size=10, interleaved_group="other"),
]
"""The slowest method gains most from larger batches, and never reaches the others."""


def report(folder, rows):
    write_report(run_of(rows), folder, folder.name)
    return (folder / "report.md").read_text(), (folder / "report.html").read_text()


def pictures(text):
    """The kinds of the first section's pictures, in order."""
    return re.findall(r"!\[first-train-cpu-1-([\w-]+)\]", text)


def words(folder, kind):
    """All texts in a picture."""
    svg = (folder / "plots" / f"first-train-cpu-1-{kind}.svg").read_text()
    return re.findall(r"<text[^>]*>([^<]+)</text>", svg)


def test_speed_comes_first_and_scaling_last(tmp_path):
    text, page = report(tmp_path, ROWS)
    assert pictures(text) == ["speed", "speed-up", "scaling"]
    shown = re.findall(r'<figure aria-label="first-train-cpu-1-([\w-]+)">', page)
    assert shown == pictures(text)
    assert "images/s" in words(tmp_path, "speed")
    assert "sentences/s" not in words(tmp_path, "speed")
    assert "mnist mlp: first, scaling with the batch size" in words(tmp_path, "scaling")
    assert "over own batches of 1" in words(tmp_path, "scaling")
    assert "98.8 % parallel" in words(tmp_path, "scaling")
    assert "asynchronous messages, 1 in flight" in words(tmp_path, "scaling")


def test_speed_ups_are_over_one_baseline(tmp_path):
    text, _ = report(tmp_path, ROWS)
    found = words(tmp_path, "speed-up")
    assert "1: batch by batch, without messages, batch size 1" in found
    assert "asynchronous messages, 1 in flight" in found
    assert "(asynchronous messages, 4 in flight)" in found  # part of these was measured at another time
    assert "Speed-up: over `none` at batch size 1." in text
    assert "MFU: the speed of the useful operations, as a share of" in text
    lines = [re.split(r"\s*\|\s*", line)[1:-1] for line in text.splitlines() if line.startswith("|")]
    header = next(line for line in lines if line[0] == "method")
    assert header[2] == "images/s"
    cells = {
        tuple(line[:2]): dict(zip(header, line, strict=True)) for line in lines if len(line) == len(header)
    }
    gains = {key: (line["speed-up"], line["scaling"]) for key, line in cells.items() if key[1] in ("1", "10")}
    assert gains == {
        ("none", "1"): ("1.00", "1.00"),
        ("active-1", "1"): ("0.10", "1.00"),
        ("active-1", "10"): ("0.90", "9.00"),
        ("active-4", "1"): ("2.00", "1.00"),
        ("active-4", "10"): ("(4.00)", "(2.00)"),
    }


@pytest.mark.extended
@pytest.mark.parametrize(("rows", "baseline"), [(ROWS[1:], "`active-1` at batch size 1"), (ROWS[4:], None)])
def test_without_unbatched_rows_the_first_method_is_the_baseline(tmp_path, rows, baseline):
    text, _ = report(tmp_path, rows)
    assert f"Speed-up: over {baseline or '`active-4` at batch size 10'}." in text
    if baseline is None:  # bars of one batch size say the same
        assert pictures(text) == ["speed"]


def test_ratios_name_what_differs():
    rows = [speed_row(100.0), speed_row(300.0, mode="infer"), speed_row(50.0, experiment="second")]
    lines = ratio_lines(rows, "mode=infer/mode=train")
    assert lines == [
        "first, cpu: none at 8 (infer) / none at 8 (train) = 3.00 [3.00, 3.00] (measured in turns)"
    ]
    lines = ratio_lines(rows, "experiment=first/experiment=second")
    assert lines[0].startswith("train, cpu: none at 8 of first / none at 8 of second = 2.00")


def test_a_ratio_of_nothing_lists_what_there_is():
    rows = [speed_row(), speed_row(method="good"), speed_row(method="good", batch_size=64)]
    rows.append(failed_row(mode="infer"))
    with pytest.raises(ValueError, match="no two measured cells differ only in these keys") as raised:
        ratio_lines(rows, "method=better/method=none")
    assert str(raised.value).splitlines()[1:] == [
        "first, train, cpu: none at 8; good at 8, 64",
        "first, infer, cpu: none is measured",
    ]


def test_what_failed_has_its_status(tmp_path):
    text, _ = report(tmp_path, [failed_row("skipped: why", method="step"), *ROWS[:1]])
    assert "| step | 8 | skipped |" in text
    assert "step at 8: skipped: why." in text
    only_failed, _ = report(tmp_path, [failed_row("skipped: why", method="step")])
    assert "| step | 8 | skipped |" in only_failed
    assert "Speed-up: over" not in only_failed


@pytest.mark.extended
def test_shares_are_explained_where_they_stand(tmp_path):
    text, _ = report(tmp_path, ROWS)
    before, _, _ = text.partition("| method | parallel share, all sizes |")
    assert before.rstrip().endswith("Amdahl's law: time(B) / time(1) = (1 - p) + p / B.")


@pytest.mark.extended
def test_a_report_tells_of_other_programs_and_of_plugins_of_others(tmp_path):
    rows = [
        speed_row(method="none", busy_cores=0.1, plugin_commit="5eed"),
        speed_row(method="good", busy_cores=1.3),
        speed_row(method="fast"),
    ]
    text, _ = report(tmp_path, rows)
    assert "the machine was busy in 1 of 2 cells: they used up to 1.3 cores" in text
    assert "reading 5eed" in text


@pytest.mark.extended
def test_a_report_tells_that_the_machine_was_quiet(tmp_path):
    assert "the machine was quiet" in report(tmp_path, [speed_row(busy_cores=0.1)])[0]


@pytest.mark.extended
def test_columns_are_defined_in_a_list(tmp_path):
    text, page = report(tmp_path, ROWS)
    header = next(line for line in text.splitlines() if line.startswith("| method | batch |"))
    columns = [cell.strip() for cell in header.split("|")[1:-1]]
    defined = re.findall(r"^- \*\*(.+?)\*\*: \w", text, re.MULTILINE)
    assert set(columns) - set(defined) == {"method", "batch", "images/s", "tokens/s"}
    assert "sentences/s, or what else is counted, and tokens/s" in defined
    assert len(re.findall("<dt>", page)) == len(defined)
