from speed_rows import failed_row, run_of, speed_row

from parser.speed.reporting.asynchrony import sections


def row(method, speed, experiment="lists", update_after=1, **changed):
    settings = {"update_after": update_after, "size": 3}
    return speed_row(speed, method=method, experiment=experiment, settings=settings, **changed)


def found(rows):
    return list(sections(run_of(rows)))


def test_speeds_over_batches_in_flight():
    rows = [
        row("none", 50.0),
        row("active-1", 40.0),
        row("active-16", 100.0),
        failed_row(method="active-4", experiment="lists"),
        row("dense-active-4", 20.0),
        row("active-16", 120.0, experiment="replicas"),
    ]
    [section] = found(rows)
    assert section.title == "reading, asynchrony"
    assert list(section.plots) == ["reading, asynchrony"]
    assert section.plots["reading, asynchrony"].startswith("<svg")
    [table] = section.tables
    assert table.columns == (
        "sentences/s",
        "1 in flight",
        "4 in flight",
        "16 in flight",
        "largest over 1",
    )
    assert table.rows == [
        ["lists at batch size 8", "40.0", "", "100.0", "2.50 [2.50, 2.50]"],
        ["lists, dense at batch size 8", "", "20.0", "", ""],
        ["replicas at batch size 8", "", "", "120.0", ""],
    ]


def test_speeds_over_the_update_frequency():
    rows = [
        row("active-4", 40.0, threads=2),
        row("active-16", 30.0, threads=2),
        row("active-4", 60.0, experiment="seldom", threads=2, update_after=8, interleaved_group="two"),
    ]
    _, section = found(rows)
    assert section.title == "reading, update frequency"
    [table] = section.tables
    assert table.columns == ("sentences/s", "update after 1", "update after 8", "largest over 1")
    assert table.rows == [
        ["lists, active-4 at batch size 8, 2 workers", "40.0", "60.0", "(1.50 [1.50, 1.50])"]
    ]


def test_without_messages_there_is_no_section():
    assert found([row("none", 50.0), row("inactive-1x", 50.0)]) == []
