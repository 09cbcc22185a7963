import pytest
from speed_rows import failed_row, run_of, speed_row

from parser.speed.reporting.document import Table
from parser.speed.reporting.speed_ups import MFU
from parser.speed.reporting.utilisation import sections


def found(rows):
    return list(sections(run_of(rows)))


def row(experiment, method, size, mfu):
    return speed_row(experiment=experiment, method=method, batch_size=size, mfu=mfu)


ROWS = [
    row("small", "both", 1, 0.1),
    row("small", "both", 64, 0.4),
    row("small", "streams", 64, 0.3),
    row("large", "both", 1, 0.2),
    row("large", "both", 64, 0.8),
    failed_row("failed: memory", experiment="large", method="both", batch_size=256),
    row("single", "both", 1, 0.5),
]


def test_experiments_are_compared_by_their_best_methods():
    [section] = found(ROWS)
    assert section.title == "reading, train, cpu, utilisation"
    assert section.plots[section.title].startswith("<svg")
    expected = Table(
        ("MFU, at batch size", "1", "64"),
        [["small: both", "0.100", "0.400"], ["large: both", "0.200", "0.800"]],
        MFU,
    )
    assert section.tables == [expected]


def test_one_experiment_is_not_compared():
    assert found(ROWS[:3]) == []


def of_size(experiment, method, batch_size, mfu, size, plugin="recurrent_language_model", **settings):
    sizes = {"inputs": size, "hidden_size": size, "outputs": size, "embedding_size": 0}
    settings = {**sizes, "network": "peephole-lstm", **settings}
    cell = {"experiment": experiment, "method": method, "batch_size": batch_size, "plugin": plugin}
    return speed_row(mfu=mfu, settings=settings, **cell)


OF_SIZES = [
    of_size("medium", "both", 64, 0.4, 256),
    of_size("medium", "none", 1, 0.1, 256),
    of_size("small", "both", 64, 0.2, 128),
    of_size("small", "none", 1, 0.05, 128),
    of_size("large", "both", 64, 0.8, 512),
]
METHODS = ("stream by stream, all frame by frame, at 1", "all streams, only cycles frame by frame, at 64")


def test_methods_are_drawn_over_the_size_of_the_layers():
    [section] = found([*OF_SIZES, of_size("huge", "both", 32, 0.9, 1024)])
    assert section.title == "medium, train, cpu, utilisation by layer size"
    assert section.plots[section.title].startswith("<svg")
    expected = Table(
        ("MFU, at units of a layer", "128", "256", "512"),
        [[METHODS[0], "0.050", "0.100", ""], [METHODS[1], "0.200", "0.400", "0.800"]],
        MFU,
    )
    assert section.tables == [expected]


@pytest.mark.parametrize("other", [{"network": "lstm"}, {"embedding_size": 512}])
def test_networks_that_differ_in_more_are_not_compared(other):
    assert found([OF_SIZES[0], of_size("other", "both", 64, 0.5, 512, **other)]) == []


def test_plugins_without_sizes_of_layers_are_left_out():
    assert (
        found([of_size(str(size), "both", 64, 0.5, size, plugin="stack_parser") for size in (128, 256)]) == []
    )
