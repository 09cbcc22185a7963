"""Which files of a corpus are parsed, and how they are cut into parts."""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path

import pytest
from programs import script

from parser.corpus.files import find_files


@pytest.fixture
def folders(tmp_path):
    """A corpus, and where its trees go."""
    (tmp_path / "in").mkdir()
    return tmp_path / "in", tmp_path / "out"


def write(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("A b .\n")


def test_trees_of_texts_have_names_of_their_own(folders):
    corpus, target = folders
    write(corpus, "a.txt", "a.txt.gz", "sub/a.txt", "a.conllu", "README")
    found = find_files(*folders, "tokenized")
    assert {file.output for file in found.missing} == {
        str(target / name) for name in ("a.conllu", "a.conllu.gz", "sub/a.conllu")
    }
    assert (found.done, found.others) == (0, 2)


def test_trees_of_texts_may_not_have_the_names_of_folders(folders):
    write(folders[0], "a.txt", "a.conllu/b/c.txt")
    with pytest.raises(ValueError, match=r"in/a\.txt: its trees would have the name of a folder"):
        find_files(*folders, "tokenized")


def test_a_folder_is_no_file_that_is_there_already(folders):
    write(folders[0], "a.txt")
    (folders[1] / "a.conllu").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"out/a\.conllu: is a folder, and the trees of .*in/a\.txt would"):
        find_files(*folders, "tokenized")


def test_names_that_are_not_utf_8_are_refused(folders):
    write(folders[0], "\udcff.txt")
    with pytest.raises(ValueError, match=r"\.txt: its name, or that of a folder, is not UTF-8; rename it"):
        find_files(*folders, "tokenized")


def test_what_is_no_corpus_is_said(folders):
    with pytest.raises(ValueError, match=r"no file with the suffix \.txt, or with \.gz behind it"):
        find_files(*folders, "tokenized")
    with pytest.raises(ValueError, match="nowhere: there is no such folder"):
        find_files(folders[0] / "nowhere", folders[1], "tokenized")


def test_no_name_of_the_corpus_is_that_of_our_folder(folders):
    """Ours keeps its name, until the corpus has it."""
    corpus, target = folders

    def own():
        return find_files(*folders, None).own.name

    write(corpus, ".parse-corpus/a.conllu", ".PARSE-corpus-2/a.conllu", "a.conllu")
    assert own() == ".parse-corpus-3"
    write(target, ".parse-corpus/a.conllu", ".parse-corpus-3/settings.json")
    for name in (".parse-corpus", ".PARSE-corpus-2"):
        shutil.rmtree(corpus / name)
    assert own() == ".parse-corpus-3"
    write(corpus, ".parse-corpus-3/a.conllu")
    assert own() == ".parse-corpus-2"  # the first one may have trees of files that the corpus has lost


def test_workers_that_are_alike_share_the_blocks():
    plan = script("plan_corpus")
    assert plan.simulated([2.0], 10, 4, plan.Supposed()) == 6.0
    assert plan.simulated([2.0], 8, 4, plan.Supposed()) == 4.0


def test_a_slow_worker_delays_only_its_own_blocks():
    plan = script("plan_corpus")
    # It does two blocks in 5 s each, since one waits while it does the first; the other worker does six.
    assert plan.simulated([1.0], 8, 2, plan.Supposed(slow_share=0.5, slowdown=5.0)) == 10.0
    # After 5 s it is given one more.
    assert plan.simulated([1.0], 9, 2, plan.Supposed(slow_share=0.01, slowdown=5.0)) == 15.0


def test_blocks_of_workers_that_die_are_done_again():
    plan = script("plan_corpus")
    rate, seconds, restart = 0.02, 10.0, 3.0
    supposed = plan.Supposed(deaths_per_second=rate, seconds_to_restart=restart)
    found = plan.simulated([seconds], 40_000, 50, supposed) / (40_000 * seconds / 50)
    # A block needs exp(rate * seconds) tries, each of which takes as long as its worker lives, or to the end.
    tries = math.exp(rate * seconds)
    expected = (tries - 1) * (1 / rate + restart) / seconds
    assert found == pytest.approx(expected, rel=0.02)
    assert plan.simulated([seconds], 1, 3, supposed._replace(deaths_per_second=1.0)) >= seconds


def test_the_plan_of_a_corpus(tmp_path, monkeypatch, capsys):
    def run(workers, files, **others):
        blocks = {"block_seconds": [2.0] * 10, "busy_share": 0.5, "seconds_to_start": 7.0, "sentences": 1000}
        cpu = {
            "driver_cpu_seconds": 1 + files / 100,
            "seconds_to_complete": files / 50,
        }
        size = {"bytes_in": 4_000_000, "bytes_out": 2_000_000}
        return {"measured": "parsing", "workers": workers, "files": files, **blocks, **cpu, **size, **others}

    rows = [
        {"measured": "finding", "files": 1000, "seconds": 0.1, "memory": 500_000},
        {"measured": "cutting", "bytes": 10_000_000, "parts": 5, "seconds": 0.5},
        *(run(workers, files) for workers in (1, 2) for files in (100, 1)),
    ]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    arguments = [str(tmp_path / "rows.jsonl"), "--sentences", "2000", "--workers", "4"]
    monkeypatch.setattr(sys, "argv", ["plan_corpus.py", *arguments])
    script("plan_corpus").main()
    lines = capsys.readouterr().out.splitlines()
    for line in (
        "| 2 | 100 | 100 | 2.00 | 2.00 | 50 | 0.50 | 7.0 |",
        "| a worker reads and writes | 0.2 and 0.1 MB/s | 0.2 and 0.1 GB/s |",
        "| the driver gives a small file its name | 20.0 ms | 20.0 s |",
        "| all that it computes for a small file | 10.0 ms | 10.0 s |",
        "| it joins the parts of a large file | 100 MB/s | |",
        "| workers with large files that it serves | 1,000 | |",
        "| workers that a process that cuts serves | 100 | |",
        "| seconds to find a file | 0.000100 | 100 |",
        "| by the formula | 27 |",  # 20 blocks of 2 s by 4 workers that are busy for half of the time
        "| all alike, none dies | 27 |",
    ):
        assert line in lines


def test_what_a_corpus_takes(tmp_path):
    measure, trees = script("measure_corpus"), "tests/model/parsed.conllu"
    sentences = Path(trees).read_text().count("\n\n")
    measure.write_files(trees, 3 * sentences, 2000, tmp_path / "in")
    contents = [path.read_text() for path in (tmp_path / "in").iterdir()]
    assert sum(content.count("\n\n") for content in contents) == 3 * sentences
    assert all(len(content.encode()) < 4000 for content in contents)
    assert measure.found(1500)["files"] == 1500
    assert measure.cutting(trees, sentences)["parts"] == 1
