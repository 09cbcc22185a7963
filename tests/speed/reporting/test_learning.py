"""Learning of several seeds, and how it depends on the number of batches in flight."""

from speed_rows import curve, failed_row, run_of

from parser.speed.reporting.learning import sections


def row(experiment, method, seed, scores, seconds=None):
    cell = {"plugin": "mnist_mlp", "threads": 2, "batch_size": 4}
    return curve(scores, seconds, experiment=experiment, method=method, seed=seed, **cell)


ROWS = [
    row("often", "none", 1, [0.9, 0.9]),
    row("often", "active-1", 1, [0.5, 0.95]),
    row("often", "active-1", 2, [0.91, 0.94]),
    row("often", "active-4", 1, [0.5, 0.9], [1.0, 1.0]),
    row("often", "active-4", 2, [0.5, 0.6], [1.0, 1.0]),
    failed_row("error: of some kind", experiment="seldom", method="active-1", plugin="mnist_mlp"),
    row("other", "active-1", 1, [0.9]),
]


def found(rows):
    return {section.title: section for section in sections(run_of(learning=rows))}


def test_figures_are_the_mean_and_the_range_over_seeds():
    section = found(ROWS)["often, learning"]
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
    section = found(ROWS)["seldom, learning"]
    assert (section.plots, section.tables) == ({}, [])
    assert section.failures == ["active-1: error: of some kind."]


def test_convergence_is_told_by_batches_in_flight():
    sections_of_all = found(ROWS)
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
    rows = [row("often", f"active-{active}", 1, [0.1, 0.2]) for active in (1, 4)]
    section = found(rows)["mnist_mlp, convergence"]
    assert section.plots == {}
    assert section.tables[0].rows[0][1:3] == ["not in 2", "not in 2"]
