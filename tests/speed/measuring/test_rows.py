import gzip
import importlib.util
import json
import subprocess
from dataclasses import asdict, replace

import pytest
from speed_rows import cell, failed_row, speed_row

from parser.speed.measuring.cell_process import Finished, Started, Turn
from parser.speed.measuring.rows import FailedRow, RowFile, SpeedRow, data_checksums, new_row, plugin_commit
from parser.speed.measuring.turns import speed_row as row_of_turns
from parser.speed.tasks.discovery import find
from parser.speed.tasks.plugin import Work
from parser.system.provenance import stamp
from parser.system.pytorch import MemoryUse

CELL = cell(settings={"words": 3})


def rows_in(path):
    return RowFile(path, SpeedRow, FailedRow)


def status(path):
    return rows_in(path).find(CELL).status


def row(status="ok"):
    settings = {"words": 3}
    return speed_row(settings=settings) if status == "ok" else failed_row(status, settings=settings)


def turn(*seconds):
    return Turn(list(seconds), [Work(8, 80, 1000.0, padding=0.5)] * len(seconds))


def measured():
    turns = [turn(0.1, 0.3), turn(0.2, 0.2), turn(0.5, 0.3)]
    split = {"forward": 0.01, "update": 0.01, "other": 0.02}
    finished = Finished(split, calls=12.0, memory=MemoryUse(5))
    started = Started(prepare_seconds=2.0)
    return row_of_turns(CELL, turns, started, finished, ceiling=1e5, interleaved_group="today")


def test_a_row_says_what_was_measured():
    found = measured()
    assert found.sentences_per_second == pytest.approx(40)
    assert found.tokens_per_second == pytest.approx(400)
    assert found.interval == pytest.approx((20, 40))
    assert found.quartiles == pytest.approx((30, 40))
    assert found.seconds == [0.1, 0.3, 0.2, 0.2, 0.5, 0.3]
    assert found.turn_speeds == pytest.approx([40, 40, 20])
    assert found.operations_per_second == pytest.approx(40 * 1000 / 8)
    assert found.mfu_with_update == pytest.approx(40 * 125 / 1e5)
    assert found.mfu == pytest.approx(40 * 125 / 1e5 / 0.75)  # the update takes a quarter of the time
    assert found.padding_share == 0.5
    assert found.share("update") == 0.25
    assert found.method == CELL.method
    assert (found.machine.cores, found.versions.torch) == (
        stamp()["machine"]["cores"],
        stamp()["versions"]["torch"],
    )


def test_rows_are_found_again_by_their_cell(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = rows_in(path)
    assert rows.find(CELL) is None
    rows.add(measured())
    assert rows_in(path).find(CELL) == rows.find(CELL) == rows.rows[0]
    other = replace(CELL, settings={"words": 4})
    assert rows_in(path).find(other) is None
    assert rows_in(path).of([other, CELL]) == rows.rows


def test_a_line_has_the_fields_of_the_cell_of_the_measurements_and_of_the_stamp(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows_in(path).add(measured())
    [line] = map(json.loads, path.read_text().splitlines())
    assert set(line) == {*asdict(CELL), *stamp(), *SpeedRow.__dataclass_fields__} - {"gpu_limits"}
    assert line["settings"] == {"words": 3}
    assert line["memory"] == {"host": 5, "device_allocated": 0, "device_reserved": 0}
    assert line["machine"] == stamp()["machine"]
    assert line["status"] == "ok"


def test_the_last_row_of_a_cell_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows_in(path).add(row("error: first"))
    rows_in(path).add(row())
    assert status(path) == "ok"


@pytest.mark.parametrize("cut", [1, 10, 100])
def test_a_torn_last_line_is_forgotten(tmp_path, cut):
    path = tmp_path / "rows.jsonl"
    rows_in(path).add(row())
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:-cut])
    rows = rows_in(path)
    assert rows.find(CELL).status == "ok"
    rows.add(row("timeout"))
    assert [json.loads(line)["status"] for line in path.read_text().splitlines()] == ["ok", "timeout"]


def compress(path):
    packed = path.with_name("rows.jsonl.gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


def test_compressed_rows_are_read_and_unpacked_when_rows_are_added(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows_in(path).add(row())
    content = path.read_bytes()
    compress(path)
    rows = rows_in(path)
    assert rows.find(CELL).status == "ok"
    assert not path.exists()
    rows.add(row("timeout"))
    assert path.read_bytes().startswith(content)
    assert status(path) == "timeout"


def test_a_damaged_compressed_file_is_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows_in(path).add(row())
    packed = compress(path)
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"rows.jsonl.gz: not a complete gzip file"):
        rows_in(path)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"status": "ok"}', "experiment: Field required"),
        ("[1]", "no JSON object with a status"),
        ("words", "no JSON object with a status"),
        ({"interval": [1.0]}, "interval.1: Field required"),
        ({"mfu": "high"}, "mfu: Input should be a valid number"),
        ({"machine": {"cpu": "fast"}}, "machine.vectors: Field required"),
    ],
)
def test_what_is_no_row_is_refused_with_its_place(tmp_path, line, why):
    path = tmp_path / "rows.jsonl"
    rows_in(path).add(row())
    whole = path.read_text()
    text = line if isinstance(line, str) else json.dumps({**json.loads(whole), **line})
    path.write_text(f"{whole}{text}\n")
    with pytest.raises(ValueError, match=r"rows\.jsonl:2: not a row of measurements: ") as refused:
        rows_in(path)
    assert why in str(refused.value)


def test_a_row_has_the_limits_of_the_gpu_if_there_is_one(tmp_path, monkeypatch):
    path = tmp_path / "rows.jsonl"
    limits = [{"power.limit": "300 W"}]
    with_gpu = {**stamp(), "gpu_limits": limits}
    monkeypatch.setattr("parser.speed.measuring.rows.stamp", lambda: with_gpu)
    rows_in(path).add(new_row(FailedRow, CELL, status="timeout"))
    assert json.loads(path.read_text())["gpu_limits"] == limits
    assert rows_in(path).find(CELL).gpu_limits == limits


def git(folder, *arguments):
    command = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def sha256sum(path):
    return subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True).stdout.split()[0]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """The data folder; settings name its files `${PARSER_DATA}/...`."""
    monkeypatch.setenv("PARSER_DATA", str(tmp_path))
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "b.txt").write_text("two")
    (tmp_path / "trees" / "a.txt").write_text("one")
    return tmp_path


def test_files_are_found_wherever_settings_name_them(data):
    one, two = "${PARSER_DATA}/trees/a.txt", "${PARSER_DATA}/trees/b.txt"
    found = data_checksums({"data": [one], "network": {"vectors": two}, "size": 3, "none": None})
    assert found == {one: sha256sum(data / "trees/a.txt"), two: sha256sum(data / "trees/b.txt")}


def test_names_of_files_that_are_not_there_and_other_words_have_none(data, monkeypatch):
    monkeypatch.chdir(data)
    assert data_checksums({"data": "${PARSER_DATA}/trees/c.txt", "task": "trees"}) == {}


def test_a_folder_has_the_checksum_of_what_sha256sum_prints_of_its_files(data, tmp_path_factory):
    listed = subprocess.run(
        ["sha256sum", "a.txt", "b.txt"], cwd=data / "trees", check=True, capture_output=True
    )
    expected = tmp_path_factory.mktemp("lines") / "lines"
    expected.write_bytes(listed.stdout)
    assert data_checksums({"data": "${PARSER_DATA}/trees"}) == {"${PARSER_DATA}/trees": sha256sum(expected)}


def test_a_plugin_of_another_repository_has_its_commit(tmp_path):
    (tmp_path / "own_plugin.py").write_text("class Own: pass\n")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message", "First")
    spec = importlib.util.spec_from_file_location("own_plugin", tmp_path / "own_plugin.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(__import__("sys").modules, "own_plugin", module)
        spec.loader.exec_module(module)
        assert plugin_commit(module.Own) == git(tmp_path, "rev-parse", "HEAD")


def test_a_plugin_of_the_program_has_none():
    assert plugin_commit(find("tree_lstm")) is None
