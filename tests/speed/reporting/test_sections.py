"""The sections of a report: speeds of parts, utilisation, learning, and batches in flight."""

import pytest
from speed_rows import curve, failed_row, run_of, speed_row

from parser.pages.document import Table
from parser.pages.plot_style import svg
from parser.speed.reporting import asynchrony, learning, utilisation
from parser.speed.reporting.comparison import plots
from parser.speed.reporting.speed_ups import MFU, comparisons, gains_of_parts


def utilisation_of(rows):
    return list(utilisation.sections(run_of(rows)))


def mfu_row(experiment, method, size, mfu):
    return speed_row(experiment=experiment, method=method, batch_size=size, mfu=mfu)


MFU_ROWS = [
    mfu_row("small", "both", 1, 0.1),
    mfu_row("small", "both", 64, 0.4),
    mfu_row("small", "streams", 64, 0.3),
    mfu_row("large", "both", 1, 0.2),
    mfu_row("large", "both", 64, 0.8),
    failed_row("failed: memory", experiment="large", method="both", batch_size=256),
    mfu_row("single", "both", 1, 0.5),
]


def test_experiments_are_compared_by_their_best_methods():
    [section] = utilisation_of(MFU_ROWS)
    assert section.title == "reading, train, cpu, utilisation"
    assert svg(section.plots[section.title]).startswith("<svg")
    expected = Table(
        ("MFU, at batch size", "1", "64"),
        [["small: both", "0.100", "0.400"], ["large: both", "0.200", "0.800"]],
        MFU,
    )
    assert section.tables == [expected]


def test_one_experiment_is_not_compared():
    assert utilisation_of(MFU_ROWS[:3]) == []


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
    [section] = utilisation_of([*OF_SIZES, of_size("huge", "both", 32, 0.9, 1024)])
    assert section.title == "medium, train, cpu, utilisation by layer size"
    assert svg(section.plots[section.title]).startswith("<svg")
    expected = Table(
        ("MFU, at units of a layer", "128", "256", "512"),
        [[METHODS[0], "0.050", "0.100", ""], [METHODS[1], "0.200", "0.400", "0.800"]],
        MFU,
    )
    assert section.tables == [expected]


@pytest.mark.parametrize("other", [{"network": "lstm"}, {"embedding_size": 512}])
def test_networks_that_differ_in_more_are_not_compared(other):
    assert utilisation_of([OF_SIZES[0], of_size("other", "both", 64, 0.5, 512, **other)]) == []


def test_plugins_without_sizes_of_layers_are_left_out():
    assert (
        utilisation_of(
            [of_size(str(size), "both", 64, 0.5, size, plugin="stack_parser") for size in (128, 256)]
        )
        == []
    )


def learned(experiment, method, seed, scores, seconds=None, batch_size=4):
    cell = {"plugin": "mnist_mlp", "threads": 2, "batch_size": batch_size}
    return curve(scores, seconds, experiment=experiment, method=method, seed=seed, **cell)


LEARNED_ROWS = [
    learned("often", "none", 1, [0.9, 0.9]),
    learned("often", "active-1", 1, [0.5, 0.95]),
    learned("often", "active-1", 2, [0.91, 0.94]),
    learned("often", "active-4", 1, [0.5, 0.9], [1.0, 1.0]),
    learned("often", "active-4", 2, [0.5, 0.6], [1.0, 1.0]),
    failed_row("error: of some kind", experiment="seldom", method="active-1", plugin="mnist_mlp"),
    learned("other", "active-1", 1, [0.9]),
]


def learning_of(rows):
    run = run_of(learning=rows)
    sections = (*learning.sections(run), *asynchrony.convergence_sections(run))
    return {section.title: section for section in sections}


def test_figures_are_the_mean_and_the_range_over_seeds():
    section = learning_of(LEARNED_ROWS)["often, learning"]
    [table] = section.tables
    none, one, four = (list(cells)[:7] for cells in table.rows)
    assert none == ["none", "4", "1", "2.0", "1.00", "2.00", "0.9000"]
    assert one == [
        "active-1",
        "4",
        "1.5 [1.0, 2.0]",
        "3.0 [2.0, 4.0]",
        "1.50",
        "2.00 [2.00, 2.00]",
        "0.9450 [0.9400, 0.9500]",
    ]
    assert four[2] == "2.0, 1 of 2 runs"
    assert section.text.endswith("of 2 runs of each method, with different seeds.")
    assert list(section.plots) == ["often-learning"]


def test_what_failed_has_a_sentence():
    section = learning_of(LEARNED_ROWS)["seldom, learning"]
    assert (section.plots, section.tables) == ({}, [])
    assert section.failures == ["active-1: error: of some kind."]


def test_convergence_is_told_by_batches_in_flight():
    sections_of_all = learning_of(LEARNED_ROWS)
    assert list(sections_of_all)[-1] == "mnist_mlp, convergence"
    section = sections_of_all["mnist_mlp, convergence"]
    [table] = section.tables
    assert list(table.columns) == [
        "experiment",
        "epochs, 1 in flight",
        "epochs, 4 in flight",
        "seconds for each epoch, 1 in flight",
        "seconds for each epoch, 4 in flight",
    ]
    assert table.rows == [
        ["often", "1.5 [1.0, 2.0]", "2.0, 1 of 2 runs", "2.00 [2.00, 2.00]", "1.00 [1.00, 1.00]"]
    ]
    assert list(section.plots) == ["mnist_mlp-convergence"]


def test_without_a_seed_that_reached_the_target_there_is_no_plot():
    rows = [learned("often", f"active-{active}", 1, [0.1, 0.2]) for active in (1, 4)]
    section = learning_of(rows)["mnist_mlp, convergence"]
    assert section.plots == {}
    assert section.tables[0].rows[0][1:3] == ["not in 2", "not in 2"]


def messages_row(method, speed, experiment="lists", update_after=1, size=3, **changed):
    settings = {"update_after": update_after, "size": size}
    return speed_row(speed, method=method, experiment=experiment, settings=settings, **changed)


def asynchrony_of(rows):
    return list(asynchrony.sections(run_of(rows)))


def test_speeds_over_batches_in_flight():
    rows = [
        messages_row("none", 50.0),
        messages_row("active-1", 40.0),
        messages_row("active-16", 100.0),
        failed_row(method="active-4", experiment="lists"),
        messages_row("dense-active-4", 20.0),
        messages_row("active-16", 120.0, experiment="replicas"),
    ]
    [section] = asynchrony_of(rows)
    assert section.title == "reading, asynchrony"
    assert list(section.plots) == ["reading, asynchrony"]
    assert svg(section.plots["reading, asynchrony"]).startswith("<svg")
    [table] = section.tables
    assert table.columns == ("examples/s", "1 in flight", "4 in flight", "16 in flight", "largest over 1")
    assert table.rows == [
        ["lists at batch size 8", "40.0", "", "100.0", "2.50 [2.50, 2.50]"],
        ["lists, dense at batch size 8", "", "20.0", "", ""],
        ["replicas at batch size 8", "", "", "120.0", ""],
    ]


def test_both_parameters_of_asynchrony():
    seldom = {"experiment": "seldom", "update_after": 8}
    rows = [
        messages_row("active-16", 30.0),
        messages_row("active-4", 40.0),
        messages_row("active-4", 60.0, **seldom),
        messages_row("active-4", 5.0, experiment="replicas", size=7),
        messages_row("dense-active-4", 2.0, **seldom),
    ]
    curves = [
        learned(name, "active-4", seed, scores, batch_size=8)
        for name, seed, scores in (
            ("lists", 1, [0.5, 0.9]),
            ("lists", 2, [0.5, 0.5, 0.5, 0.9]),
            ("seldom", 1, [0.5]),
            ("replicas", 1, [0.9]),
        )
    ]
    [section] = asynchrony.frequency_sections(run_of(rows, curves))
    assert section.title == "lists, update frequency"
    assert svg(section.plots[section.title]).startswith("<svg")
    [table] = section.tables
    assert table.columns == (
        "",
        "examples/s, update after 1",
        "examples/s, update after 8",
        "epochs to the target, update after 1",
        "epochs to the target, update after 8",
    )
    assert table.rows == [
        ["4 in flight", "40.0", "60.0", "3.0 [2.0, 4.0]", "not in 1"],
        ["16 in flight", "30.0", "", "", ""],
    ]
    assert panels(section) == ["examples/s", "epochs to the target"]
    [section] = asynchrony.frequency_sections(run_of(rows))
    assert panels(section) == ["examples/s"]


def panels(section):
    return [axes.get_ylabel() for axes in section.plots[section.title].axes]


def test_one_update_frequency_is_not_compared():
    assert list(asynchrony.frequency_sections(run_of([messages_row("active-4", 40.0)]))) == []


def test_without_messages_there_is_no_section():
    assert asynchrony_of([messages_row("none", 50.0), messages_row("inactive-1x", 50.0)]) == []


UNBATCHED = {"scheduling": 1.0, "forward": 1.0, "cells": 2.0, "cells backward": 4.0, "update": 2.0}
BATCHED = {"scheduling": 2.0, "forward": 2.0, "cells": 2.0, "cells backward": 2.0, "update": 2.0}


def phases_row(method, size, speed, phase_seconds):
    return speed_row(speed, method=method, batch_size=size, phase_seconds=phase_seconds)


def test_parts_are_compared_with_none_at_the_same_size():
    rows = [
        phases_row("none", 8, 10, UNBATCHED),
        phases_row("levels", 8, 40, BATCHED),
        phases_row("levels", 64, 90, BATCHED),
    ]
    (comparison,) = comparisons(rows)
    gains = gains_of_parts(comparison)
    # A step of `none` takes 100 ms, 20 and 40 of them in the cells; one of `levels` 25 ms, 5 and 5 in cells.
    assert gains["cells, forward"] == {"levels": {8: pytest.approx(4)}}
    assert gains["forward"] == {"levels": {8: pytest.approx(40 / 15)}}
    assert gains["cells, backward"] == gains["backward"] == {"levels": {8: pytest.approx(8)}}
    assert gains["whole step"] == {"levels": {8: pytest.approx(4)}}
    assert "parts" in plots(comparison)


def test_plugins_that_do_not_measure_modules_have_no_parts():
    phases = {"forward": 1.0, "backward": 2.0}
    (comparison,) = comparisons([phases_row("none", 8, 10, phases), phases_row("levels", 8, 40, phases)])
    assert gains_of_parts(comparison) == {}
    assert "parts" not in plots(comparison)
