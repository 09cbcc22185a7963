from parser.speed.asynchrony import asynchrony_parts
from parser.speed.document import Heading, Picture, Table


def row(method, speed, experiment="lists", status="ok", threads=1, update_after=1, interleaved_group="one"):
    return {
        "status": status,
        "mode": "train",
        "device": "cpu",
        "plugin": "reading",
        "experiment": experiment,
        "method": method,
        "batch_size": 8,
        "threads": threads,
        "precision": "float32",
        "settings": {"update_after": update_after, "size": 3},
        "sentences_per_second": speed,
        "interval": [speed - 1, speed + 1],
        "interleaved_group": interleaved_group,
        "turns": [1, 1],
        "sentences": [8, 8],
        "seconds": [8 / speed, 8 / speed],
    }


def test_speeds_over_batches_in_flight():
    rows = [
        row("none", 50.0),
        row("active-1", 40.0),
        row("active-16", 100.0),
        row("active-4", 90.0, status="skipped: no reason"),
        row("dense-active-4", 20.0),
        row("active-16", 120.0, experiment="replicas"),
    ]
    heading, picture, table = asynchrony_parts(rows)
    assert heading == Heading(2, "reading, asynchrony")
    assert isinstance(picture, Picture)
    assert picture.file == "reading-asynchrony.svg"
    assert picture.svg.startswith("<svg")
    assert isinstance(table, Table)
    assert table.columns == (
        "examples/s",
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
    *_, heading, picture, table = asynchrony_parts(rows)
    assert heading == Heading(2, "reading, update frequency")
    assert picture.file == "reading-update-frequency.svg"
    assert table.columns == ("examples/s", "update after 1", "update after 8", "largest over 1")
    assert table.rows == [
        ["lists, active-4 at batch size 8, 2 workers", "40.0", "60.0", "(1.50 [1.50, 1.50])"]
    ]


def test_without_messages_there_is_no_part():
    assert asynchrony_parts([row("none", 50.0), row("inactive-1x", 50.0)]) == []
