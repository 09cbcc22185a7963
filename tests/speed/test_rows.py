import json

import pytest

from parser.machine import MemoryUse
from parser.plugins import Work
from parser.speed.cells import Cell
from parser.speed.measured import Finished, Started, Turn
from parser.speed.row_file import RowFile
from parser.speed.rows import measured_row, turn_speeds

CELL = Cell("quick", "toy", "train", "cpu", 1, "float32", "good", 8, 1, '{"words": 3}')


def turn(*seconds):
    return Turn(list(seconds), [Work(8, 80, 1000.0, padding=0.5)] * len(seconds))


def row():
    turns = [turn(0.1, 0.3), turn(0.2, 0.2), turn(0.5, 0.3)]
    split = {"forward": 0.01, "update": 0.01, "other": 0.02}
    finished = Finished(split, calls=12.0, memory=MemoryUse(5))
    return measured_row(turns, Started(prepare_seconds=2.0), finished, ceiling=1e5, interleaved_group="today")


def test_a_row_says_what_was_measured():
    measured = row()
    assert measured["sentences_per_second"] == pytest.approx(40)
    assert measured["tokens_per_second"] == pytest.approx(400)
    assert measured["interval"] == pytest.approx([20, 40])
    assert measured["seconds"] == [0.1, 0.3, 0.2, 0.2, 0.5, 0.3]
    assert turn_speeds(measured) == pytest.approx([40, 40, 20])
    assert measured["operations_per_second"] == pytest.approx(40 * 1000 / 8)
    assert measured["mfu_with_update"] == pytest.approx(40 * 125 / 1e5)
    assert measured["mfu"] == pytest.approx(40 * 125 / 1e5 / 0.75)  # a quarter of the time is the update's
    assert measured["padding_share"] == 0.5


def test_rows_are_found_again_by_their_cell(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = RowFile(path)
    assert rows.find(CELL) is None
    rows.add(CELL, row())
    for known in (rows, RowFile(path)):
        found = known.find(CELL)
        assert found["sentences_per_second"] == pytest.approx(40)
        assert found["settings"] == {"words": 3}
        assert found["machine"]["cores"] > 0
        assert found["versions"]["torch"]
        assert {"commit", "date", "seed"} <= found.keys()
    other = Cell(**{**CELL.__dict__, "settings": '{"words": 4}'})
    assert RowFile(path).find(other) is None
    assert RowFile(path).of([other, CELL]) == [found]


def test_the_last_row_of_a_cell_counts(tmp_path):
    rows = RowFile(tmp_path / "rows.jsonl")
    rows.add(CELL, {"status": "error: first"})
    rows.add(CELL, {"status": "ok"})
    assert RowFile(tmp_path / "rows.jsonl").find(CELL)["status"] == "ok"


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_torn_last_line_is_forgotten(tmp_path, cut):
    path = tmp_path / "rows.jsonl"
    RowFile(path).add(CELL, {"status": "ok"})
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-cut])
    rows = RowFile(path)
    assert rows.find(CELL)["status"] == "ok"
    rows.add(CELL, {"status": "timeout"})
    assert [json.loads(line)["status"] for line in path.read_text().splitlines()] == ["ok", "timeout"]


def test_a_file_of_other_things_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"status": "ok"}\n')
    with pytest.raises(ValueError, match=r"rows.jsonl:1: not a row of measurements"):
        RowFile(path)
