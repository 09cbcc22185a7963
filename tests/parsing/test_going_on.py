"""`parse -o FILE` goes on after whatever ended it, and the output is that of one start."""

import gzip
import json
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from extended import first_of
from full_disks import file_sizes_limited
from programs import children_of, running, wait_until

from parser.cli import main
from parser.system import unfinished_file
from parser.system.unfinished_file import UnfinishedFile
from parser.text import reading
from parser.treebank import conllu

MODEL = "tests/model"
TREES = Path(MODEL, "parsed.conllu").read_text()
TEXT = "The cat sleeps. Don't go!\n\nWas it round?\n\n"
FORMS = {
    "--text": TEXT,
    "--one-sentence-per-line": TEXT,
    "--tokenized": TEXT,
    "": TREES.replace("\tNOUN\t", "\t_\t"),
}


@pytest.fixture
def small(monkeypatch):
    """Parts are small, and what is done is recorded after each."""
    monkeypatch.setattr(conllu, "PART_BYTES", 2000)
    monkeypatch.setattr(reading, "PART_BYTES", 100)
    for module in (conllu, reading):
        monkeypatch.setattr(module, "LEAST_SHARE", 50)
    monkeypatch.setattr(unfinished_file, "SECONDS_BETWEEN_RECORDS", 0)


@pytest.fixture
def model(tmp_path):
    """A model with a tokenizer."""
    folder = shutil.copytree(MODEL, tmp_path / "model")
    shutil.copy("tests/text/tokenizer.json", folder)
    return folder


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in.conllu"
    path.write_text(TREES)
    return path


@contextmanager
def interrupted_after(writes):
    """Ctrl-C arrives while this write is under way."""
    count = 0

    def write(file, content, original=UnfinishedFile.write):
        nonlocal count
        count += 1
        if count > writes:
            original(file, content[: len(content) // 2])
            raise KeyboardInterrupt
        original(file, content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UnfinishedFile, "write", write)
        yield


def names_in(folder):
    return {path.name for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("compressed", first_of(["", ".gz"]))
@pytest.mark.parametrize("processes", first_of([("1", "1"), ("1", "2"), ("2", "1")]))
def test_the_output_of_two_starts_is_that_of_one(form, compressed, processes, small, model, tmp_path, capsys):
    source, whole, out = (tmp_path / f"{name}{compressed}" for name in ("in", "whole", "out"))
    content = (FORMS[form] * 20).encode()
    source.write_bytes(gzip.compress(content) if compressed else content)
    command = ["parse", str(model), *([form] if form else []), str(source), "--device", "cpu", "-o"]
    assert main([*command, str(whole)]) == 0
    *told, last_of_whole = capsys.readouterr().err.splitlines()
    for start in (4, 1):
        with interrupted_after(start):
            assert main([*command, str(out), "--processes", processes[0]]) == 130
    assert f"{out}.part: has what is done; the same command goes on from there\n" in capsys.readouterr().err
    assert not out.exists()
    state = json.loads(Path(f"{out}.part.json").read_bytes())
    done = state["state"]["totals"]["sentences"]
    assert main([*command, str(out), "--processes", processes[1], "--batch-size", "3"]) == 0
    first, *told_of_rest, last = capsys.readouterr().err.splitlines()
    assert first == f"{out}.part: goes on after {done} sentences"
    assert set(told_of_rest) == {line for line in told if line.startswith(("warning: ", "filled in "))}
    assert last.startswith(
        f"{last_of_whole.partition(' in ')[0]}, of which {done} sentences by an earlier start, in "
    )
    read = gzip.decompress if compressed else bytes
    assert read(out.read_bytes()) == read(whole.read_bytes())
    assert names_in(tmp_path) == {source.name, whole.name, out.name}


def test_what_decides_the_trees_decides_whether_it_goes_on(small, source, tmp_path, model, capsys):
    out = tmp_path / "out"

    def start(*options, used=MODEL):
        with interrupted_after(2):
            assert main(["parse", str(used), str(source), "-o", str(out), *options]) == 130
        return [line for line in capsys.readouterr().err.splitlines() if "has what is done" not in line][:-1]

    part = f"{out}.part: "
    assert start() == []
    assert start("--batch-size", "7") == [f"{part}goes on after 2 sentences"]
    assert start("--deps", "keep") == [f"{part}is of another choice of options, so this begins anew"]
    assert start("--deps", "keep", "--trees", "2") == [
        f"{part}is of another choice of options, so this begins anew"
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("parser.commands.parse.__version__", "0")
        assert start("--deps", "keep") == [f"{part}is of another version, so this begins anew"]
    settings = model / "settings.json"
    settings.write_text(settings.read_text() + "\n")
    assert start(used=model) == [f"{part}is of another version, so this begins anew"]
    settings.write_text(settings.read_text() + "\n")
    assert start(used=model) == [f"{part}is of another model, so this begins anew"]
    content = source.read_text()
    source.write_text(content[:-2000])  # what is done is the same
    assert "goes on after" in start(used=model)[0]
    source.write_text(f"# another\n{content}")
    assert start(used=model) == [f"{part}is of another input, so this begins anew"]
    source.write_text(f"# another\n{content}".partition("\n\n")[0] + "\n\n")  # less than is done
    assert main(["parse", str(model), str(source), "-o", str(out)]) == 0
    assert capsys.readouterr().err.startswith(f"{part}is of another input, so this begins anew\n")


@pytest.mark.parametrize("damage", ["record", "values", "trees", "no trees"])
def test_a_broken_file_is_begun_anew(small, damage, source, tmp_path, capsys):
    out, part, record = (tmp_path / f"out{suffix}" for suffix in ("", ".part", ".part.json"))
    with interrupted_after(2):
        assert main(["parse", MODEL, str(source), "-o", str(out)]) == 130
    if damage == "record":
        record.write_bytes(record.read_bytes()[:50])
    elif damage == "values":
        record.write_text('{"bytes": "many"}')
    elif damage == "trees":
        part.write_bytes(part.read_bytes()[:-1])
    else:
        part.unlink()
    capsys.readouterr()
    assert main(["parse", MODEL, str(source), "-o", str(out)]) == 0
    assert capsys.readouterr().err.startswith(f"{part}: is damaged, so this begins anew\n")
    assert main(["parse", MODEL, str(source), "-o", str(tmp_path / "whole")]) == 0
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_file_of_something_else_stays(small, source, tmp_path, capsys):
    part = tmp_path / "out.part"
    part.write_text("mine")
    assert main(["parse", MODEL, str(source), "-o", str(tmp_path / "out")]) == 2
    assert f"{part}: is of something else; move it" in capsys.readouterr().err
    assert part.read_text() == "mine"
    source.rename(part)
    assert main(["parse", MODEL, str(part), "-o", str(tmp_path / "out")]) == 2
    assert "out.part: would overwrite" in capsys.readouterr().err
    assert part.read_text() == TREES


def test_a_second_command_is_refused(small, source, tmp_path, capsys):
    with unfinished_file.unfinished_file(str(tmp_path / "out")):
        assert main(["parse", MODEL, str(source), "-o", str(tmp_path / "out")]) == 2
    assert f"{tmp_path / 'out'}: another process writes it\n" in capsys.readouterr().err


def test_faults_lose_nothing(small, source, tmp_path, capsys):
    out = tmp_path / "out"
    *_, last = lines = TREES.rstrip("\n").split("\n")
    source.write_text("\n".join([*lines[:-1], last.replace("\t", "", 1), "", ""]))
    assert main(["parse", MODEL, str(source), "-o", str(out)]) == 2
    assert "9 columns instead of 10" in capsys.readouterr().err
    source.write_text(TREES)
    assert main(["parse", MODEL, str(source), "-o", str(out)]) == 0
    assert "goes on after " in capsys.readouterr().err
    assert main(["parse", MODEL, str(source), "-o", str(tmp_path / "whole")]) == 0
    assert out.read_bytes() == (tmp_path / "whole").read_bytes()


def test_it_goes_on_when_there_is_room_again(small, source, tmp_path, capsys):
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert main(["parse", MODEL, str(source), "-o", str(whole)]) == 0
    with file_sizes_limited(5000):
        assert main(["parse", MODEL, str(source), "-o", str(out)]) == 2
    assert "writing the output: File too large" in capsys.readouterr().err
    part = tmp_path / "out.part"
    assert part.stat().st_size == json.loads((tmp_path / "out.part.json").read_bytes())["bytes"] < 5000
    assert main(["parse", MODEL, str(source), "-o", str(out)]) == 0
    assert capsys.readouterr().err.startswith(f"{part}: goes on after ")
    assert out.read_bytes() == whole.read_bytes()


def test_standard_input_leaves_nothing(small, source, tmp_path, monkeypatch):
    """It cannot be read again."""
    with source.open() as file:
        monkeypatch.setattr(sys, "stdin", file)
        monkeypatch.setattr("parser.commands.parse.tell_dropped", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            main(["parse", MODEL, "-", "-o", str(tmp_path / "out")])
    assert names_in(tmp_path) == {"in.conllu", "out"}


@pytest.fixture
def many(tmp_path):
    """Work for some seconds."""
    path = tmp_path / "many.conllu"
    path.write_text(TREES * 1500)
    return path


def parsing(source, out, processes):
    command = [sys.executable, "-m", "parser", "parse", MODEL, str(source), "-o", str(out), "--device", "cpu"]
    return running([*command, "--processes", processes], stderr=subprocess.PIPE)


def has_begun(out):
    record = Path(f"{out}.part.json")
    return lambda: record.exists() and json.loads(record.read_bytes())["bytes"] > 0


def workers_of(process):
    """The processes that parse: children of the server from which they are forked."""
    return [each for each in children_of(process) if each.ppid() != process.pid]


@pytest.mark.extended
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("processes", "12")
def test_a_program_that_is_ended_goes_on(number, processes, many, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    with parsing(many, whole, "1") as process:
        process.communicate()
    for _ in range(2):
        with parsing(many, out, processes) as process:
            wait_until(has_begun(out), process)
            process.send_signal(number)
            process.communicate()
        assert not out.exists()
    with parsing(many, out, processes) as process:
        _, told = process.communicate()
        assert process.returncode == 0
    assert b"out.part: goes on after " in told
    assert out.read_bytes() == whole.read_bytes()
    assert names_in(tmp_path) == {"many.conllu", "whole", "out"}


@pytest.mark.extended
def test_a_worker_that_is_killed_costs_its_part(many, tmp_path):
    whole, out = tmp_path / "whole", tmp_path / "out"
    with parsing(many, whole, "1") as process:
        process.communicate()
    with parsing(many, out, "2") as process:
        for _ in range(2):
            wait_until(has_begun(out), process)
            workers_of(process)[0].kill()
            Path(f"{out}.part.json").unlink()  # to wait for the next one
        _, told = process.communicate()
        assert process.returncode == 0
    assert told.count(b"fewer --processes. Another one takes over") == 2
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.extended
def test_a_part_that_kills_each_worker_is_named(many, tmp_path):
    out = tmp_path / "out"
    with parsing(many, out, "2") as process:
        wait_until(has_begun(out), process)
        while process.poll() is None:
            with suppress(psutil.NoSuchProcess):
                for worker in workers_of(process):
                    worker.kill()
        told = process.stderr.read().decode()
    assert process.returncode == 2
    named = r": lines [\d,]+ to [\d,]+: has ended 3 processes, the last one: killed, perhaps"
    assert re.search(f"{many}{named}", told)
    assert "out.part: has what is done; the same command goes on from there\n" in told
