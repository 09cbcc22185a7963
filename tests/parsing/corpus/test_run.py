"""Corpora are parsed like single files. Here the cluster is this process, in test_ray.py it is Ray."""

import errno
import gzip
import json
import random
import re
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from enhanced_graphs import with_graphs
from extended import first_of

from parser.cli import main
from parser.parsing.corpus import run as corpus_run
from parser.parsing.corpus import workers
from parser.parsing.corpus.files import PartOutputs
from parser.parsing.corpus.workers import CorpusWorker, cut_into_parts
from parser.parsing.part_parser import PartParser
from parser.text import reading as text_parts
from parser.treebank import conllu

MODEL = "tests/model"
TREES = "\n\n".join([*Path(MODEL, "parsed.conllu").read_text().split("\n\n")[:12], ""])
WORD = "1\ta" + 8 * "\t_" + "\n"
TEXT = "The cat sleeps. Don't go!\n\nWas it round?\n\n" * 8
TOKENIZER = Path("tests/text/tokenizer.json")


@contextmanager
def one_worker(address, workers, threads):
    yield 1


def results_here(files, settings, count):
    """Like `results.results`, but parts come in any order, and some of them twice."""
    rows = [row for file in files for row in cut_into_parts(file._asdict(), settings.form)]
    rows += rows[: len(rows) // 3]
    draw, worker = random.Random(1), CorpusWorker(settings)
    draw.shuffle(rows)
    while rows:
        block = [rows.pop() for _ in range(min(draw.randint(1, 3), len(rows)))]
        found = worker({name: [row[name] for row in block] for name in block[0]})
        for values in zip(*found.values(), strict=True):
            yield dict(zip(found, values, strict=True))


@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(corpus_run, "cluster", one_worker)
    monkeypatch.setattr(corpus_run, "results", results_here)
    monkeypatch.setattr(conllu, "PART_BYTES", 1000)
    monkeypatch.setattr(text_parts, "PART_BYTES", 200)


@pytest.fixture
def corpus(tmp_path):
    """A small file, a large one, a compressed one in a folder, an empty one, and another format."""
    folder = tmp_path / "corpus"
    (folder / "below").mkdir(parents=True)
    (folder / "small.conllu").write_text(TREES[: TREES.index("\n\n") + 2])
    (folder / "large.conllu").write_text(with_graphs(TREES.replace("\tdet\t", "\tnmod\t")) * 3)
    (folder / "below" / "packed.conllu.gz").write_bytes(gzip.compress(TREES.encode()))
    (folder / "empty.conllu").write_text("")
    (folder / "README").write_text("no trees")
    return folder


def parse_corpus(corpus, target, *options, model=MODEL):
    return main(["parse-corpus", str(model), str(corpus), str(target), "--device", "cpu", *options])


def report_of(target):
    return json.loads((target / ".parse-corpus" / "report.json").read_text())


def files_of(target):
    found = (path.relative_to(target) for path in target.rglob("*"))
    return sorted(str(path) for path in found if path.parts[0][0] != ".")


def parsed(path, tmp_path, *options, model=MODEL):
    """What `parse` writes."""
    out = tmp_path / "expected.conllu"
    assert main(["parse", str(model), str(path), "-o", str(out), "--device", "cpu", *options]) == 0
    return out.read_text()


PROBABILITY = re.compile(r"(?:ArcProbability=|# tree_score = )(-?[\d.]+)")


def assert_same(text, expected):
    """Probabilities and scores may differ in their last digit: sentences are computed in other groups."""
    assert PROBABILITY.sub("", text) == PROBABILITY.sub("", expected)
    ours, theirs = (list(map(float, PROBABILITY.findall(each))) for each in (text, expected))
    assert ours == pytest.approx(theirs, abs=2e-4)


OPTIONS = [
    (),
    ("--probabilities", "--tags=all"),
    ("--deps", "drop-changed"),
    ("--deps", "keep"),
    ("--trees", "2"),
]


@pytest.mark.parametrize("options", first_of(OPTIONS))
def test_trees_are_those_of_parse(corpus, tmp_path, options, capsys):
    target = tmp_path / "trees"
    assert parse_corpus(corpus, target, *options) == 0
    told = capsys.readouterr().err
    assert "4 files, 1 with other suffixes left out; " in told
    assert files_of(target) == [
        *("below", "below/packed.conllu.gz", "empty.conllu", "large.conllu", "small.conllu")
    ]
    for name in ("small.conllu", "large.conllu", "empty.conllu"):
        assert_same((target / name).read_text(), parsed(corpus / name, tmp_path, *options))
    packed = gzip.decompress((target / "below" / "packed.conllu.gz").read_bytes()).decode()
    assert_same(packed, parsed(corpus / "below" / "packed.conllu.gz", tmp_path, *options))
    report = report_of(target)
    assert (report["files"], report["other_files"], report["failures"]) == (4, 1, {})
    changed = sum("\tdet\t" in one for one in TREES.split("\n\n"))
    counts = {"keep": 0, "drop-changed": 3 * changed}
    dropped = counts.get(options[-1] if options else "", 3 * TREES.count("\n\n"))
    assert report["dropped"] == dropped
    assert (f" of {dropped} sentences were dropped" in told) == bool(dropped)
    assert report["sentences"] == 4 * TREES.count("\n\n") + 1
    assert 0 < report["block_seconds"]["median"] < report["block_seconds"]["greatest"]
    assert not (target / ".parse-corpus" / "parts").exists()


def test_columns_that_are_missing_are_told_once_of_all_files(corpus, tmp_path, reader_of_tags, capsys):
    for path in corpus.rglob("*.conllu"):
        columns = [line.split("\t") for line in path.read_text().splitlines()]
        path.write_text(
            "".join("\t".join([*own[:3], "_", *own[4:]] if own[1:] else own) + "\n" for own in columns)
        )
    (corpus / "below" / "packed.conllu.gz").unlink()
    assert parse_corpus(corpus, tmp_path / "trees", model=reader_of_tags) == 0
    told = capsys.readouterr().err
    assert told.count(f"warning: {corpus}: UPOS is blank for 100% of the words") == told.count("UPOS") == 1
    upos = report_of(tmp_path / "trees")["columns"]["upos"]
    assert upos["values"] == upos["blank"] == report_of(tmp_path / "trees")["words"]


def test_given_trees_are_kept_as_by_parse(corpus, tmp_path, capsys):
    target, partly = tmp_path / "trees", corpus / "partly.conllu"
    rows = [line.split("\t") for line in TREES.splitlines(keepends=True)]
    cut = (
        "\t".join([*row[:6], "_", *row[7:]] if len(row) > 1 and n % 2 else row) for n, row in enumerate(rows)
    )
    partly.write_text("".join(cut))
    (corpus / "large.conllu").unlink()
    options = ["--keep=given", "--non-projective=given", "--at-most-one=nsubj,obj", "--not-root=PUNCT"]
    assert parse_corpus(corpus, target, *options) == 0
    assert (target / partly.name).read_text() == parsed(partly, tmp_path, *options)
    assert (target / "small.conllu").read_text() == (corpus / "small.conllu").read_text()
    assert parse_corpus(corpus, target, *options) == 0  # the same options again
    assert parse_corpus(corpus, target, "--keep", "given") == 2
    assert "by other options" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--alternatives", "2"], "scorer of arcs"),
        (["--non-projective", "given"], "add --keep given"),
        (["--at-most-one", "x"], "at most one 'x'"),
    ],
)
def test_what_the_model_can_not_do_is_told_before_anything_is_parsed(options, told, corpus, tmp_path, capsys):
    assert parse_corpus(corpus, tmp_path / "trees", *options) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "trees").exists()


def test_a_tree_that_can_not_be_kept_fails_with_its_file(corpus, tmp_path, capsys):
    cycle = "1\ta{0}2{1}\n2\ta{0}1{1}\n\n".format("\t_" * 4 + "\t", "\t_" * 3)
    (corpus / "cycle.conllu").write_text(cycle)
    assert parse_corpus(corpus, tmp_path / "trees", "--keep", "given") == 2
    assert "cycle.conllu:1: sentence #1: the heads of the words" in capsys.readouterr().err
    assert (tmp_path / "trees" / "small.conllu").exists()


@pytest.mark.extended
def test_several_models_parse_together(corpus, tmp_path, capsys):
    target = tmp_path / "trees"
    assert parse_corpus(corpus, target, "--ensemble", MODEL) == 0
    assert (target / "large.conllu").read_text() == parsed(corpus / "large.conllu", tmp_path)
    assert parse_corpus(corpus, target) == 2
    assert "of another model" in capsys.readouterr().err


@pytest.mark.extended
def test_a_model_of_several_treebanks_parses_as_the_one_that_is_named(corpus, tmp_path, reader_of_treebanks):
    found = []
    for treebank in ("one", "two"):
        asked, target = ("--treebank", treebank), tmp_path / treebank
        assert parse_corpus(corpus, target, *asked, model=reader_of_treebanks) == 0
        found.append((target / "large.conllu").read_text())
        assert found[-1] == parsed(corpus / "large.conllu", tmp_path, *asked, model=reader_of_treebanks)
    assert found[0] != found[1]


def test_trees_of_texts_are_those_of_parse(tmp_path):
    corpus, model, target = tmp_path / "corpus", tmp_path / "model", tmp_path / "trees"
    corpus.mkdir()
    (corpus / "one.txt").write_text(TEXT)
    (corpus / "two.txt.gz").write_bytes(gzip.compress(TEXT.encode()))
    shutil.copytree(MODEL, model)
    shutil.copy(TOKENIZER, model / "tokenizer.json")
    assert parse_corpus(corpus, target, "--text", model=model) == 0
    expected = parsed(corpus / "one.txt", tmp_path, "--text", model=model)
    assert (target / "one.conllu").read_text() == expected
    assert gzip.decompress((target / "two.conllu.gz").read_bytes()).decode() == expected


def test_a_name_that_is_not_utf_8_fails_alone(corpus, tmp_path, capsys):
    (corpus / "large.conllu").rename(corpus / "\udcff.conllu")
    (corpus / "empty.conllu").unlink()
    (corpus / "empty.conllu").symlink_to("nowhere")
    assert parse_corpus(corpus, tmp_path / "out") == 2
    assert (tmp_path / "out" / "small.conllu").is_file()
    failures = {
        r"\udcff.conllu": ["its name, or that of a folder, is not UTF-8; rename it"],
        "empty.conllu": ["cannot be read: No such file or directory"],
    }
    assert report_of(tmp_path / "out")["failures"] == failures
    told = capsys.readouterr().err.splitlines()
    assert {f"{name}: {line}" for name, [line] in failures.items()} <= set(told)
    assert told[-1].startswith("2 files could not be parsed")


@pytest.mark.extended
def test_faults_are_reported_and_the_rest_goes_on(corpus, tmp_path, capsys):
    target, lines = tmp_path / "trees", (TREES * 3).splitlines(keepends=True)
    (corpus / "broken.conllu.gz").write_bytes(gzip.compress(TREES.encode())[:-20])
    lines[-3] = "1\tfaulty\n"
    (corpus / "faulty.conllu").write_text("".join(lines))
    assert parse_corpus(corpus, target) == 2
    told = capsys.readouterr().err
    assert f"faulty.conllu:{len(lines) - 2}: sentence " in told
    assert "broken.conllu.gz: not a complete gzip file" in told
    assert "2 files could not be parsed; see " in told
    assert report_of(target)["failures"].keys() == {"faulty.conllu", "broken.conllu.gz"}
    assert not {"faulty.conllu", "broken.conllu.gz"} & set(files_of(target))
    lines[-3] = "1\tmended\t_\tX\t_\t_\t0\troot\t_\t_\n"
    (corpus / "faulty.conllu").write_text(TREES)
    (corpus / "broken.conllu.gz").write_bytes(gzip.compress(TREES.encode()))
    assert parse_corpus(corpus, target) == 0
    assert (report_of(target)["files"], report_of(target)["done_before"]) == (2, 4)


class KilledError(BaseException):
    """As if the program had ended."""


@pytest.fixture
def dies_once(monkeypatch):
    """The parser dies once, when it starts with its 4th block. Returns the list of parts that it parsed."""
    begun, done = [], []

    def run_or_die(parser, parts, run=PartParser.parse):
        group = list(parts)
        begun.append(group)
        if len(begun) == 4:
            raise KilledError
        done.extend(group)
        return run(parser, group)

    monkeypatch.setattr(PartParser, "parse", run_or_die)
    return done


@pytest.mark.extended
def test_what_is_missing_is_parsed_when_started_again(corpus, tmp_path, dies_once):
    target, whole = tmp_path / "trees", tmp_path / "whole"
    with pytest.raises(KilledError):
        parse_corpus(corpus, target)
    assert dies_once
    assert parse_corpus(corpus, target) == 0
    in_two_starts = len(dies_once)
    assert parse_corpus(corpus, whole) == 0
    assert in_two_starts <= len(dies_once) - in_two_starts  # no part was parsed again
    assert parse_corpus(corpus, target) == 0
    assert report_of(target)["block_seconds"] == {}
    for name in ("small.conllu", "large.conllu", "below/packed.conllu.gz"):
        assert (target / name).read_bytes() == (whole / name).read_bytes()


def test_only_a_part_that_ends_its_workers_is_given_up(tmp_path, monkeypatch, capsys):
    """The parts that were parsed together with it are not."""
    corpus, target = tmp_path / "corpus", tmp_path / "trees"
    corpus.mkdir()
    for number in range(6):
        (corpus / f"{number}.conllu").write_text(f"# sent_id = s{number}\n{WORD}\n")

    def die_of_one(parser, group, run=PartParser.parse):
        if any(b"s3" in part.content for part in group):
            raise KilledError
        return run(parser, group)

    def by_another(worker, rows, work=CorpusWorker.__call__):
        """Try again, as Ray does with a block whose worker has died."""
        while True:
            with suppress(KilledError):
                return work(worker, rows)

    with monkeypatch.context() as patch:
        patch.setattr(PartParser, "parse", die_of_one)
        for _ in range(workers.MOST_ATTEMPTS + 1):  # the program's own deaths are not counted
            with pytest.raises(KilledError):
                parse_corpus(corpus, target)
        patch.setattr(CorpusWorker, "__call__", by_another)
        assert parse_corpus(corpus, target) == 2
    assert (
        "3.conllu: part 1: it has ended 5 workers, perhaps because memory ran out" in capsys.readouterr().err
    )
    assert files_of(target) == [f"{number}.conllu" for number in (0, 1, 2, 4, 5)]
    assert len(list((target / ".parse-corpus" / "parts").iterdir())) == 1
    assert parse_corpus(corpus, target) == 0  # a new start tries again


@pytest.mark.extended
@pytest.mark.parametrize("size", [300, 3000, 1 << 21])
def test_a_file_that_is_cut_otherwise_when_started_again_is_whole(
    corpus, tmp_path, monkeypatch, dies_once, size
):
    target = tmp_path / "trees"
    with pytest.raises(KilledError):
        parse_corpus(corpus, target)
    monkeypatch.setattr(conllu, "PART_BYTES", size)
    assert parse_corpus(corpus, target) == 0
    for name in ("small.conllu", "large.conllu"):
        assert (target / name).read_text() == parsed(corpus / name, tmp_path)


@pytest.mark.extended
def test_trees_that_did_not_reach_the_disk_are_made_again(corpus, tmp_path, dies_once):
    target = tmp_path / "trees"
    with pytest.raises(KilledError):
        parse_corpus(corpus, target)
    cut_off = next(target.rglob("*.trees"))
    cut_off.write_bytes(cut_off.read_bytes()[:-10])
    assert parse_corpus(corpus, target) == 0
    assert (target / "large.conllu").read_text() == parsed(corpus / "large.conllu", tmp_path)


def fails_for(monkeypatch, mark, error):
    """The parser raises an error for parts that have a mark."""

    def run_or_fail(parser, group, run=PartParser.parse):
        if any(mark in part.content for part in group):
            raise error
        return run(parser, group)

    monkeypatch.setattr(PartParser, "parse", run_or_fail)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory"),
        (ZeroDivisionError(), "ZeroDivisionError"),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
    ],
)
def test_an_error_is_of_one_file(corpus, tmp_path, monkeypatch, capsys, error, message):
    target = tmp_path / "trees"
    (corpus / "bad.conllu").write_text(f"# sent_id = bad\n{WORD}\n")
    with monkeypatch.context() as patch:
        fails_for(patch, b"bad", error)
        assert parse_corpus(corpus, target) == 2
    told = capsys.readouterr().err
    assert "bad.conllu: part 1: " in told
    assert message in told
    assert report_of(target)["files"] == 4
    assert parse_corpus(corpus, target) == 0
    assert (report_of(target)["files"], report_of(target)["done_before"]) == (1, 4)


@pytest.mark.extended
def test_a_full_disk_ends_all_and_loses_nothing(corpus, tmp_path, monkeypatch, capsys):
    target, keep, kept = tmp_path / "trees", PartOutputs.keep, []

    def keep_or_fail(outputs, number, digest, part):
        if len(kept) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        keep(outputs, number, digest, part)
        kept.append(number)

    with monkeypatch.context() as patch:
        patch.setattr(PartOutputs, "keep", keep_or_fail)
        assert parse_corpus(corpus, target) == 2
    assert "No space left on device; start again when there is room" in capsys.readouterr().err

    def fill(outputs, file, results, renumbers):
        file.write(b"as much as there is room for")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(PartOutputs, "_write", fill)
        assert parse_corpus(corpus, target) == 2
    assert "No space left on device; start again when there is room" in capsys.readouterr().err
    assert not list(target.rglob("whole"))
    assert parse_corpus(corpus, target) == 0
    assert (target / "large.conllu").read_text() == parsed(corpus / "large.conllu", tmp_path)


@pytest.mark.extended
def test_trees_of_another_model_are_refused(corpus, tmp_path, capsys):
    assert parse_corpus(corpus, tmp_path / "trees") == 0
    for options in (("--probabilities",), ("--deps", "keep")):
        assert parse_corpus(corpus, tmp_path / "trees", *options) == 2
        assert "has trees of other files, of another model or by other options" in capsys.readouterr().err
    shutil.copytree(corpus, tmp_path / "others")
    assert parse_corpus(tmp_path / "others", tmp_path / "trees") == 2
    assert "has trees of other files" in capsys.readouterr().err


def test_files_of_somebody_else_are_no_trees(corpus, tmp_path, capsys):
    (tmp_path / "trees").mkdir()
    for name in ("small.conllu", "report.json"):
        letter = tmp_path / "trees" / name
        letter.write_text("a letter")
        assert parse_corpus(corpus, tmp_path / "trees") == 2
        assert "has files that parse-corpus has not written" in capsys.readouterr().err
        assert letter.read_text() == "a letter"
        letter.unlink()
        assert not list((tmp_path / "trees").iterdir())


OURS = ".parse-corpus", ".parse-corpus-2"


@pytest.mark.extended
def test_names_of_the_corpus_are_not_ours(corpus, tmp_path):
    """Nor are names that it gains between two starts, and then nothing of an earlier start is lost."""
    names, target = (".unfinished", "report.json", "lock", "parts", "settings.json"), tmp_path / "trees"
    one = (corpus / "small.conllu").read_text()
    for name in (*names, OURS[1].upper()):
        (corpus / name).mkdir()
        (corpus / name / "0.conllu").write_text(one)
    (corpus / "faulty.conllu").write_text("1\tfaulty\n")
    assert parse_corpus(corpus, target) == 2
    kept = list((target / OURS[0] / "parts").rglob("*"))
    assert kept
    (corpus / OURS[0]).mkdir()
    (corpus / OURS[0] / "0.conllu").write_text(one)
    assert parse_corpus(corpus, target) == 2
    own = target / ".parse-corpus-3"
    assert json.loads((own / "report.json").read_text())["done_before"] == 4 + len(names) + 1
    (corpus / "faulty.conllu").write_text(one)
    assert parse_corpus(corpus, target) == 0
    expected = (target / "small.conllu").read_text()
    for name in (*names, OURS[1].upper(), OURS[0]):
        assert (target / name / "0.conllu").read_text() == expected
        assert [path.name for path in (target / name).iterdir()] == ["0.conllu"]
    assert sorted(path.name for path in own.iterdir()) == ["lock", "report.json", "settings.json"]
