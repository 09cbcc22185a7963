"""Rows of a table that are drawn at random."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.cli import main
from parser.config.file import ConfigError
from parser.training.table import RangeSettings, SearchSettings, read_table, trials

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
def table(config_file, tmp_path):
    def written(rest):
        path = tmp_path / "table.yaml"
        path.write_text(f"title: A search\nbase: {config_file}\nset: {{treebank.test: null}}\n{rest}")
        return path

    return written


@pytest.mark.extended
def test_a_search_is_a_table_of_its_trials_the_best_on_dev_first(table, tmp_path):
    path = table(
        "rows: {as it is: {}}\nsearch: {trials: 2, ranges: "
        "{training.learning_rate.peak: {low: 1e-6, high: 1e-1, scale: log}, training.epochs: [1, 2]}}\n"
    )
    assert main(["table", str(path), "--run", str(tmp_path / "out")]) == 0
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
def test_what_can_not_be_drawn_is_refused(table, rest, message):
    with pytest.raises((ValueError, ConfigError), match=message):
        read_table(table(rest))
