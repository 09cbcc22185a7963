"""Tables of small runs: missing runs start, finished runs are kept, and rows can be drawn at random."""

import fcntl
import json
import re
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import running, wait_until

from parser.cli import main
from parser.config.file import ConfigError, read_settings
from parser.tables.report import difference, write_table
from parser.training.config import read_config
from parser.training.runs import read_rows, rows_of, run_missing
from parser.training.table import RangeSettings, SearchSettings, TableConfig, jobs_of, read_table, trials


@pytest.fixture
def table(config_file, tmp_path):
    path = tmp_path / "table.yaml"
    path.write_text(
        f"""
title: Two sizes of batches
base: {config_file}
together: 2
baseline: small
target: 50.0
plot: {{x: training.batch_size, lines: training.learning_rate.warmup_epochs}}
rows:
  small: {{set: {{training.batch_size: 2}}}}
  "large, no warm-up": {{set: {{training.batch_size: 8, training.learning_rate.warmup_epochs: 0}}, seeds: 2}}
"""
    )
    return path


def made(table, folder):
    return main(["table", str(table), "--run", str(folder)])


def rows(folder):
    return [json.loads(line) for line in (folder / "rows.jsonl").read_text().splitlines()]


@pytest.mark.extended
def test_a_table_is_run_once_and_what_is_added_later_alone(table, tmp_path, capsys):
    folder = tmp_path / "out"
    assert made(table, folder) == 0
    found = {(row["name"], row["seed"]): row for row in rows(folder)}
    assert found.keys() == {("small", 1), ("large, no warm-up", 1), ("large, no warm-up", 2)}
    for (name, seed), row in found.items():
        assert row["table"] == "table"
        assert row["config"]["training"]["batch_size"] == (2 if name == "small" else 8)
        assert row["config"]["training"]["seed"] == seed
        assert len(row["curve"]) == row["epochs"] == 6
        assert row["seconds"] == pytest.approx(sum(epoch["seconds"] for epoch in row["curve"]))
        assert row["test"]["las"] > 0
        assert row["machine"]["cpu"]
    report = (folder / "report.md").read_text()
    assert "3 runs, up to 2 at the same time" in report
    assert "Incomplete" not in report
    assert {path.name for path in (folder / "plots").iterdir()} == {"test-las.svg", "time.svg"}

    before = (folder / "rows.jsonl").read_bytes()
    more = table.read_text().replace("together: 2", "together: 1")
    table.write_text(more + "  tiny: {set: {training.batch_size: 1}}\n")
    capsys.readouterr()
    assert made(table, folder) == 0
    assert (folder / "rows.jsonl").read_bytes().startswith(before)
    assert capsys.readouterr().out.count("running in") == 1
    assert [row["together"] for row in rows(folder)] == [2, 2, 2, 1]
    assert "4 runs, up to 2 at the same time" in (folder / "report.md").read_text()


def test_another_base_config_is_another_run(table, config_file, tmp_path):
    settings = read_settings(table, TableConfig)
    before = [job.run_in(tmp_path) for job in jobs_of(settings, "toys")]
    config_file.write_text(config_file.read_text().replace("epochs: 6", "epochs: 5"))
    assert not set(before) & {job.run_in(tmp_path) for job in jobs_of(settings, "toys")}


@pytest.mark.extended
def test_a_table_that_is_stopped_goes_on(table, tmp_path):
    folder = tmp_path / "out"
    long = "training.batch_size: 2, training.epochs: 30}"
    only_small = table.read_text().partition('  "large')[0]
    table.write_text(only_small.replace("training.batch_size: 2}", long))
    command = [sys.executable, "-m", "parser", "table", str(table), "--run", str(folder)]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as stopped:
        metrics = "runs/small*/metrics.jsonl"
        wait_until(lambda: any(path.stat().st_size for path in folder.glob(metrics)), stopped)
        stopped.terminate()
        printed, _ = stopped.communicate()
    [metrics] = folder.glob(metrics)
    log = metrics.parent.parent / f"{metrics.parent.name}.log"
    assert stopped.returncode == 128 + signal.SIGTERM, printed
    assert "continue with the same command" in printed
    assert 0 < len(metrics.read_text().splitlines()) < 30
    assert "resuming" not in log.read_text()
    assert made(table, folder) == 0
    assert "resuming" in log.read_text()
    assert len(rows(folder)) == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("training.batch_size: 2", "training.batchsize: 2", "row 'small': set: training.batchsize: unknown"),
        ("baseline: small", "baseline: smal", "there is no row 'smal'"),
        ("x: training.batch_size", "x: training.batchsize", "has no training.batchsize; did you mean"),
        ("x: training.batch_size", "x: parser.system", "is 'arc-hybrid', not a positive number"),
        ("training.batch_size: 2", "training.seed: 2", "set their number with `seeds`"),
        ("size: 2}", "size: 2, treebank.test: null}", "test LAS is drawn, and 'small' has no treebank.test"),
        (
            "training.batch_size: 8, training.learning_rate.warmup_epochs: 0",
            "training.batch_size: 2",
            "'small' and 'large, no warm-up' are at one place",
        ),
        ("title:", "titel:", "titel: unknown key; did you mean title?"),
    ],
)
def test_slips_are_told_before_anything_runs(table, tmp_path, capsys, old, new, message):
    table.write_text(table.read_text().replace(old, new))
    assert made(table, tmp_path / "out") == 2
    assert message in capsys.readouterr().err


def test_one_process_in_a_folder(table, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert made(table, tmp_path / "out") == 2
    assert "another process makes a table there" in capsys.readouterr().err


@pytest.mark.extended
def test_a_base_that_changes_meanwhile_changes_nothing(table, config_file, tmp_path, monkeypatch):
    """The configs of all runs are fixed before the first run."""
    settings = read_settings(table, TableConfig)
    jobs = jobs_of(settings, "toys")[:1]
    config_file.write_text(config_file.read_text().replace("epochs: 6", "epochs: 3"))
    assert list(run_missing(jobs, tmp_path, together=1)) == jobs
    assert rows_of(jobs, read_rows(tmp_path / "rows.jsonl"))[jobs[0]]["epochs"] == 6


@pytest.mark.extended
def test_an_error_leaves_no_run_behind(table, tmp_path):
    endless = "training.batch_size: 2, training.epochs: 5000}"
    table.write_text(table.read_text().replace("training.batch_size: 2}", endless))
    jobs = jobs_of(read_settings(table, TableConfig), "toys")
    running = run_missing(jobs, tmp_path, together=2)
    assert next(running).name != "small"  # that one is still running
    running.close()
    runs = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    assert any(run.name.startswith("small") for run in runs)
    for run in runs:
        with (run / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nothing trains there any more


def finished(job, las, curve, arcs=0, cpu="a cpu"):
    """A row of a finished run. curve: the seconds and the dev LAS of each epoch."""
    scores = {"uas": las, "las": las, "crossing_arcs": arcs, "crossing_recall": las / 2}
    return {
        **{"dev": scores, "test": scores, "config": job.config.model_dump(mode="json")},
        "curve": [{"seconds": seconds, "dev_las": dev_las, "loss": 1.0} for seconds, dev_las in curve],
        **{"seconds": 60.0, "epochs": 2, "best_epoch": 2, "commit": "c", "device": "cpu"},
        "machine": {"cpu": cpu},
    }


def test_the_plot_over_time_has_every_point_of_every_run(table, tmp_path):
    settings = read_settings(table, TableConfig)
    bests = zip(jobs_of(settings, "toys"), (40.0, 60.0, 90.0), strict=True)  # the last two: seeds of one row
    done = {job: finished(job, 60.0, [(300.0, 5.0), (300.0, best)]) for job, best in bests}
    write_table(settings, done, tmp_path)
    picture = (tmp_path / "plots" / "time.svg").read_text()
    axes = re.search(r'<g id="patch_2">\s*<path d="(.*?)"', picture, re.DOTALL)[1]
    heights = [float(y) for _, y in re.findall(r"[ML] (\S+) (\S+)", axes)]
    [*lines] = re.findall(r'<path d="([^"]*)" clip-path="[^"]*" style="fill: none; [^"]*stroke: #', picture)
    points = [re.findall(r"[ML] (\S+) (\S+)", line) for line in lines]
    # Other lines, those of the grid and of the target, are vertical or horizontal.
    runs = [line for line in points if line[0][0] != line[-1][0] and line[0][1] != line[-1][1]]
    assert len(runs) == len(done)
    assert all(min(heights) <= float(y) <= max(heights) for line in runs for _, y in line)


@pytest.mark.parametrize("lines", ["learning_rate.warmup_epochs", "optimizer.betas"])
def test_what_the_table_says(tmp_path, table, lines):
    """The mean and range of two seeds; the time to reach the target, or never."""
    before = "lines: training.learning_rate.warmup_epochs"
    table.write_text(table.read_text().replace(before, f"lines: training.{lines}"))
    settings = read_settings(table, TableConfig)
    jobs = jobs_of(settings, "toys")
    done = {
        job: finished(job, las, [(30.0, 10.0), (30.0, las)], 0 if job.name == "small" else 8)
        for job, las in zip(jobs, (40.0, 60.0, 70.0), strict=True)
    }
    report = write_table(settings, done, tmp_path).read_text()
    assert "| small | 40.00 | 40.00 | 40.00 | 40.00 |  |  | 2 | 2 | 1.0 | never | c |" in report
    assert "3 runs on a cpu" in report  # the rows do not record how many ran at a time
    assert "| large, no warm-up | 65.00 (60.00, 70.00) | 65.00 (60.00, 70.00) |" in report
    assert "| +20.00, one seed | 32 (30, 35) % of 8 | 2 | 2 | 1.0 | 60 | c |" in report
    assert "(plots/time.svg)" in report
    done[jobs[0]] = {**done[jobs[0]], "machine": {"cpu": "another"}}
    report = write_table(settings, done, tmp_path).read_text()
    assert "on a cpu, another" in report
    assert "(plots/time.svg)" not in report  # times are not comparable


def test_a_file_of_other_rows_is_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"rows.jsonl:1: not a row of a table"):
        read_rows(tmp_path / "rows.jsonl")


def test_a_name_may_contain_any_character(tmp_path, config_file):
    """Text has more ends of lines than a file of rows."""
    row = {"name": "a\u2028b\x85c", "config": read_config(config_file).model_dump(mode="json")}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n")
    assert [found["name"] for found in read_rows(tmp_path / "rows.jsonl")] == [row["name"]]


def test_rows_of_other_configs_and_several_targets(table, config_file, tmp_path):
    other = tmp_path / "other.yaml"
    other.write_text(config_file.read_text().replace("hidden_size: 16", "hidden_size: 8"))
    text = table.read_text().replace("target: 50.0", "target: [30, 50]")
    table.write_text(text + f"  other: {{base: {other}, set: {{training.batch_size: 4}}}}\n")
    settings = read_settings(table, TableConfig)
    jobs = jobs_of(settings, "toys")
    sizes = {job.name: job.config.parser.network.hidden_size for job in jobs}
    assert sizes == {"small": 16, "large, no warm-up": 16, "other": 8}
    done = {job: finished(job, 60.0, [(20.0, 40.0), (20.0, 60.0)]) for job in jobs}
    for number, row in enumerate(done.values()):
        row["curve"][0]["preparation_seconds"] = 5.0 + number  # older rows lack it
    report = write_table(settings, done, tmp_path).read_text()
    assert "seconds to dev LAS 30 | seconds to dev LAS 50" in report
    assert "| 25 | 45 | c |" in report
    assert "| 26 (26, 27) | 46 (46, 47) | c |" in report
    assert f"`{config_file}` or `{other}`" in report


MANY = {seed: float(seed % 2) for seed in range(100)}


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        # The means differ by +2, but with both seeds in common it is -1.
        ({1: 80.0}, {1: 81.0, 2: 75.0}, "-1.00, one seed"),
        ({2: 76.0, 3: 90.0}, {1: 85.0, 2: 75.0}, "+1.00, one seed"),
        # Student's t for two degrees of freedom: 4.303 * 1 / 3 ** 0.5
        ({1: 1.0, 2: 3.0, 3: 5.0}, {3: 2.0, 2: 1.0, 1: 0.0}, "+2.00 [-0.48, +4.48], 3 seeds"),
        (MANY, dict.fromkeys(MANY, 0.0), "+0.50 [+0.40, +0.60], 100 seeds"),
        ({1: 1.0}, {2: 1.0}, "no common seed"),
    ],
)
def test_seeds_are_paired_and_several_have_an_interval(ours, theirs, told):
    assert difference(ours, theirs) == told


RANGES = {
    "training.optimizer.weight_decay": RangeSettings(low=1e-7, high=1e-3, scale="log"),
    "parser.network.dropout": RangeSettings(low=0.1, high=0.5),
    "parser.network.layers": [1, 2],
}


def drawn(count, ranges=RANGES):
    return [changes for _, changes in trials(SearchSettings(trials=count, ranges=ranges))]


def test_values_lie_in_their_ranges_and_fill_them():
    decay, dropout, layers = zip(*(changes.values() for changes in drawn(400)), strict=True)
    assert 1e-7 <= min(decay) < 2e-7
    assert 5e-4 < max(decay) <= 1e-3
    assert sum(value < 1e-5 for value in decay) == pytest.approx(200, abs=40)  # the middle of the logarithms
    assert 0.1 <= min(dropout) < 0.12
    assert 0.48 < max(dropout) <= 0.5
    assert sum(value < 0.3 for value in dropout) == pytest.approx(200, abs=40)
    assert set(layers) == {1, 2}


@given(st.integers(1, 30), st.integers(1, 30))
def test_more_trials_and_more_settings_do_not_change_the_first(few, more):
    assert drawn(few + more)[:few] == drawn(few)
    key = "parser.network.dropout"
    alone = drawn(few, {key: RANGES[key]})
    assert [changes[key] for changes in alone] == [changes[key] for changes in drawn(few)]


@given(st.floats(1e-9, 1e9), st.floats(1, 1e3), st.sampled_from(["log", "linear"]))
def test_numbers_have_few_digits_and_stay_in_their_range(low, factor, scale):
    high = low * factor
    [changes] = drawn(1, {"x": RangeSettings(low=low, high=high, scale=scale)})
    assert low <= changes["x"] <= high
    digits = f"{changes['x']:.10e}".partition("e")[0].rstrip("0").replace(".", "")
    if changes["x"] not in (low, high) and factor > 2:
        assert len(digits) <= 2


@pytest.mark.parametrize(("low", "high"), [(0.99, 0.999), (-2.0, 2.0)])
def test_ranges_that_are_narrow_or_reach_below_zero_are_filled(low, high):
    values = {changes["x"] for changes in drawn(300, {"x": RangeSettings(low=low, high=high)})}
    assert len(values) > 50
    width = high - low
    assert low <= min(values) < low + width / 8
    assert high - width / 8 < max(values) <= high


def test_whole_numbers_are_drawn_between_whole_numbers():
    values = [changes["x"] for changes in drawn(300, {"x": RangeSettings(low=16, high=20)})]
    assert set(values) == {16, 17, 18, 19, 20}
    assert all(type(value) is int for value in values)


def test_settings_are_named_by_as_many_words_as_tell_them_apart():
    keys = "parser.network.dropout", "parser.network.characters.dropout", "training.epochs"
    [(name, _)] = trials(SearchSettings(trials=1, ranges={key: [1] for key in keys}))
    assert name == "trial 1: network.dropout 1, characters.dropout 1, epochs 1"


@pytest.fixture
def search(config_file, tmp_path):
    """A function that writes a table with the given rest."""

    def written(rest):
        path = tmp_path / "search.yaml"
        path.write_text(f"title: A search\nbase: {config_file}\nset: {{treebank.test: null}}\n{rest}")
        return path

    return written


@pytest.mark.extended
def test_a_search_is_a_table_of_its_trials_the_best_on_dev_first(search, tmp_path):
    path = search(
        "rows: {as it is: {}}\nsearch: {trials: 2, ranges: "
        "{training.learning_rate.peak: {low: 1e-6, high: 1e-1, scale: log}, training.epochs: [1, 2]}}\n"
    )
    assert made(path, tmp_path / "out") == 0
    text = (tmp_path / "out" / "report.md").read_text()
    assert (tmp_path / "out" / "plots" / "time.svg").read_text().count("trial 2") == 1
    assert "`treebank.test: null` and some settings changed" in text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith(("| trial", "| as it is"))]
    las = [float(row[2]) for row in rows]
    assert len(las) == 3
    assert las == sorted(las, reverse=True)
    assert las[0] > las[-1]


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("", "neither rows nor a search"),
        ("search: {trials: 2, ranges: {x.y: {low: 2, high: 1}}}", "is above high"),
        ("search: {trials: 2, ranges: {x.y: {low: 0, high: 1, scale: log}}}", "has no logarithm"),
        ("search: {trials: 2, ranges: {training.epoch: [3]}}", "training.epoch"),
        ("search: {trials: 2, ranges: {training.epochs: []}}", "ranges"),
        (
            "rows: {a: {set: {treebank.dev: null, training.learning_rate.decay: linear}}}\n"
            "search: {trials: 2, ranges: {training.epochs: [3]}}",
            "treebank.dev is null",
        ),
    ],
)
def test_what_can_not_be_drawn_is_refused(search, rest, message):
    with pytest.raises((ValueError, ConfigError), match=message):
        read_table(search(rest))
