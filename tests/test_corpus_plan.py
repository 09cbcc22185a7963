"""Estimates of the time a corpus takes on other clusters, from measurements on this machine."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest
from programs import script


def test_workers_that_are_alike_share_the_blocks():
    plan = script("plan_corpus")
    assert plan.simulated([2.0], 10, 4, plan.Supposed()) == 6.0
    assert plan.simulated([2.0], 8, 4, plan.Supposed()) == 4.0


def test_a_slow_worker_delays_only_its_own_blocks():
    plan = script("plan_corpus")
    # It does two blocks in 5 s each, since one block waits during the first; the other worker does six.
    assert plan.simulated([1.0], 8, 2, plan.Supposed(slow_share=0.5, slowdown=5.0)) == 10.0
    # After 5 s it is given one more.
    assert plan.simulated([1.0], 9, 2, plan.Supposed(slow_share=0.01, slowdown=5.0)) == 15.0


def test_blocks_of_workers_that_die_are_done_again():
    plan = script("plan_corpus")
    rate, seconds, restart = 0.02, 10.0, 3.0
    supposed = plan.Supposed(deaths_per_second=rate, seconds_to_restart=restart)
    ratio = plan.simulated([seconds], 40_000, 50, supposed) / (40_000 * seconds / 50)
    # A block needs exp(rate * seconds) tries, each of which lasts until its worker dies or the block is done.
    tries = math.exp(rate * seconds)
    expected = (tries - 1) * (1 / rate + restart) / seconds
    assert ratio == pytest.approx(expected, rel=0.02)
    assert plan.simulated([seconds], 1, 3, supposed._replace(deaths_per_second=1.0)) >= seconds


def test_the_plan_of_a_corpus(tmp_path, monkeypatch, capsys):
    def run(workers, files, **others):
        blocks = {"block_seconds": [2.0] * 10, "busy_share": 0.5, "seconds_to_start": 7.0, "sentences": 1000}
        cpu = {"driver_cpu_seconds": 1 + files / 100, "seconds_to_complete": files / 50}
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
