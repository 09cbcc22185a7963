"""How long several runs will take."""

import json

import pytest

from parser.training.config import read_config
from parser.training.forecast import Forecast, PlannedRun, cost_of, planned_run


def planned(tmp_path, *sizes):
    """Runs with these epochs and words."""
    return [
        PlannedRun(f"run {number}", tmp_path / str(number), *size) for number, size in enumerate(sizes, 1)
    ]


def trained(run, *seconds):
    """Write the metrics of epochs that took so many seconds."""
    run.folder.mkdir(exist_ok=True)
    lines = (json.dumps({"epoch": number, "seconds": each}) for number, each in enumerate(seconds, 1))
    (run.folder / "metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_words_are_those_of_train_in_all_epochs(config_file):
    config = read_config(config_file, ["training.epochs=6"])
    with open(config.treebank.train_files[0]) as file:
        words = sum(line.split("\t")[0].isdigit() for line in file)
    assert planned_run("small", config, config_file.parent / "run").words == 6 * words


def test_the_largest_run_is_named(tmp_path):
    small, large = planned(tmp_path, (2, 1000), (10, 3000))
    assert cost_of([small, large]) == "2 runs to train: 4,000 words in all, epochs counted; 75% are of run 2"
    assert cost_of([small]) == "1 run to train: 1,000 words in all, epochs counted"


def test_time_is_told_after_the_first_epoch_and_after_each_run(tmp_path, capsys):
    first, second = both = planned(tmp_path, (2, 1000), (10, 10000))
    forecast = Forecast(both, together=2)
    unfinished = {first.folder, second.folder}
    forecast.tell(unfinished)
    assert not capsys.readouterr().out
    trained(first, 60.0)  # 500 words
    assert forecast.seconds_left(unfinished) == pytest.approx((500 + 10000) * 60 / 500 / 2)
    for _ in range(3):
        forecast.tell(unfinished)
    assert capsys.readouterr().out == "about 10 min left for 2 runs\n"
    trained(first, 60.0, 80.0)
    trained(second, 100.0)
    forecast.tell({second.folder})
    assert forecast.seconds_left({second.folder}) == pytest.approx(9000 * 240 / 2000 / 2)
    assert capsys.readouterr().out == "about 9 min left for 1 run\n"


def test_a_run_that_stopped_early_has_nothing_left(tmp_path):
    [only] = planned(tmp_path, (10, 1000))
    trained(only, 10.0)
    assert Forecast([only], together=1).seconds_left(set()) == 0


def test_files_that_can_be_read_only_once_are_not_foretold(tmp_path, capsys):
    [unknown] = planned(tmp_path, (10, 0))
    trained(unknown, 10.0)
    Forecast([unknown], together=1).tell({unknown.folder})
    assert not capsys.readouterr().out
