"""`parse --keep given`: heads and labels of a file stay, faults are reported with file and line."""

import random
from pathlib import Path

import pytest
from extended import first_of

from parser import load
from parser.cli import main
from parser.treebank.conllu import read_treebank, stream_sentences
from parser.treebank.sentence import DEPS, FEATS, HEAD, LEMMA, UPOS, XPOS

MODEL, GOLD = "tests/model", "data/quickstart/test.conllu"
COMMAND = ["parse", MODEL, "--device", "cpu"]


def half_of(path, heads=0.5, labels=0.5):
    """The lines of a treebank without some of its heads and labels."""
    draw = random.Random(1)
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        columns = line.split("\t")
        if len(columns) == 10 and columns[0].isdigit():
            columns[6] = columns[6] if draw.random() < heads else "_"
            columns[7] = columns[7] if draw.random() < labels else "_"
        yield "\t".join(columns) + "\n"


@pytest.mark.parametrize(
    "more",
    first_of(
        [[], ["--processes", "2", "--probabilities"], ["--batch-size", "3", "--at-most-one", "nsubj,obj"]]
    ),
)
def test_what_a_file_has_stays(tmp_path, more):
    half, parsed = tmp_path / "half.conllu", tmp_path / "parsed.conllu"
    half.write_text("".join(half_of(GOLD)), encoding="utf-8")
    command = [*COMMAND, str(half), "-o", str(parsed), "--keep", "given", "--non-projective", "given", *more]
    assert main(command) == 0
    read = stream_sentences(str(half), partial=lambda sentence: [])
    right = free = 0
    for given, tree, gold in zip(read, read_treebank(str(parsed)), read_treebank(GOLD), strict=True):
        for word in range(len(gold)):
            assert given.heads[word] in (-1, tree.heads[word])
            assert given.labels[word] in ("_", tree.labels[word])
            if given.heads[word] == -1:
                free += 1
                right += tree.heads[word] == gold.heads[word]
    assert right / free > 0.9


def test_a_whole_treebank_stays(tmp_path):
    parsed = tmp_path / "parsed.conllu"
    assert main([*COMMAND, GOLD, "-o", str(parsed), "--keep", "given", "--non-projective", "given"]) == 0
    for one, other in zip(read_treebank(GOLD), read_treebank(str(parsed)), strict=True):
        assert (one.heads, one.labels) == (other.heads, other.labels)


LATIN = """\
1\tprope\tprope\tADV\tD\t_\t2\tadvmod\t_\t_
2\tcats\t_\tNOUN\t_\t_\t0\troot\t_\t_
3\tThey\t_\t_\t_\t_\t2\tadvmod\t_\t_
4\tsleep\t_\tVERB\tVBP\tCase=Nom\t2\tadvmod\t_\t_

"""


@pytest.mark.parametrize("processes", first_of(["1", "2"]))
def test_features_are_filled_in_only_beside_a_missing_tag(tmp_path, capsys, processes):
    """`_` beside a UPOS says that a word has no features. What is filled in is counted."""
    source, parsed = tmp_path / "some.conllu", tmp_path / "parsed.conllu"
    source.write_text(LATIN)
    command = [*COMMAND, str(source), "-o", str(parsed), "--keep", "given", "--processes", processes]
    assert main(command) == 0
    given, found = (
        [line.split("\t") for line in path.read_text().splitlines()[:4]] for path in (source, parsed)
    )
    assert [word[FEATS] for word in found] == ["_", "_", "Number=Plur", "Case=Nom"]
    filled = {
        title: sum(own[place] == "_" != its[place] for own, its in zip(given, found, strict=True))
        for place, title in ((LEMMA, "LEMMA"), (UPOS, "UPOS"), (XPOS, "XPOS"), (FEATS, "FEATS"))
    }
    assert filled == {"LEMMA": 3, "UPOS": 1, "XPOS": 2, "FEATS": 1}
    told = capsys.readouterr().err
    assert all(f"{title} {count}" in told for title, count in filled.items()), told
    for own, its in zip(given, found, strict=True):
        assert all(value in ("_", new) for value, new in zip(own, its, strict=True))


def test_heads_and_labels_alone_can_change(tmp_path, capsys):
    source, parsed = tmp_path / "some.conllu", tmp_path / "parsed.conllu"
    source.write_text(LATIN)
    assert main([*COMMAND, str(source), "-o", str(parsed), "--tags", "none"]) == 0
    for own, its in zip(source.read_text().splitlines()[:4], parsed.read_text().splitlines(), strict=False):
        own, its = own.split("\t"), its.split("\t")
        assert (own[:HEAD], own[DEPS:]) == (its[:HEAD], its[DEPS:])
    assert "filled in" not in capsys.readouterr().err
    assert main([*COMMAND, str(source), "-o", str(parsed), "--tags", "all"]) == 0
    tags = [line.split("\t")[UPOS] for line in parsed.read_text().splitlines()[:4]]
    assert "_" not in tags
    assert "filled in" not in capsys.readouterr().err


def test_a_program_gets_the_same_columns_as_a_file(tmp_path):
    source, parsed = tmp_path / "some.conllu", tmp_path / "parsed.conllu"
    source.write_text(LATIN)
    assert main([*COMMAND, str(source), "-o", str(parsed)]) == 0
    [given] = stream_sentences(str(source), tree=False)
    tree = load(MODEL, device="cpu").parse(given.forms, upos=given.upos, feats=given.feats)
    assert list(tree.feats) == [line.split("\t")[FEATS] for line in parsed.read_text().splitlines()[:4]]


FAULTY = """\
# sent_id = one
1\tThe\t_\tDET\t_\t_\t_\t_\t_\t_
2\tcat\t_\tNOUN\t_\t_\t_\tnosuch\t_\t_
3\tsleeps\t_\tVERB\t_\t_\t9\t_\t_\t_

# sent_id = two
1\tThe\t_\tDET\t_\t_\t2\t_\t_\t_
2-3\tcatsleeps\t_\t_\t_\t_\t_\t_\t_\t_
2\tcat\t_\tNOUN\t_\t_\t1\t_\t_\t_
3\tsleeps\t_\tVERB\t_\t_\t_\tnosuch\t_\t_

# sent_id = three
1\tThe\t_\tDET\t_\t_\t3\t_\t_\t_
2\tcat\t_\tNOUN\t_\t_\t4\t_\t_\t_
3\tsleeps\t_\tVERB\t_\t_\t_\t_\t_\t_
4\t.\t_\tPUNCT\t_\t_\t_\t_\t_\t_
"""


@pytest.mark.parametrize("processes", first_of(["1", "2"]))
def test_faults_are_told_with_their_lines(tmp_path, capsys, processes):
    path = tmp_path / "faulty.conllu"
    path.write_text(FAULTY, encoding="utf-8")
    assert (
        main([*COMMAND, str(path), "-o", str(tmp_path / "out"), "--keep", "given", "--processes", processes])
        == 2
    )
    told = capsys.readouterr().err.splitlines()
    expected = [
        (4, "one", "HEAD 9 is beyond the last word, 3"),
        (10, "two", "DEPREL 'nosuch': the model knows no such label, but acl:relcl, "),
        (7, "two", "the heads of the words 1, 2 form a cycle"),
        (14, "three", "no projective tree has the arc from word 4 to word 2 beside the other given ones"),
    ]
    assert len(told) == len(expected)
    for line, (number, name, message) in zip(told, expected, strict=True):
        assert line.startswith(f"{path}:{number}: sentence {name}: {message}")
    assert not (tmp_path / "out").exists()


@pytest.mark.extended
def test_what_was_said_of_another_tree_goes(tmp_path):
    scored, parsed = tmp_path / "scored.conllu", tmp_path / "parsed.conllu"
    assert main([*COMMAND, GOLD, "-o", str(scored), "--probabilities"]) == 0
    lines = scored.read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith("1\t"))
    lines[first] = lines[first].replace("ArcProbability", "Violation=not-root|ArcProbability")
    scored.write_text("".join(lines))
    assert main([*COMMAND, str(scored), "-o", str(parsed)]) == 0
    assert main([*COMMAND, GOLD, "-o", str(scored)]) == 0
    assert parsed.read_text() == scored.read_text()


def test_what_is_not_kept_is_named_in_misc(tmp_path):
    path, parsed = tmp_path / "given.conllu", tmp_path / "parsed.conllu"
    path.write_text(
        "1\tThe\t_\tDET\t_\t_\t3\tnsubj\t_\tA=1|Violation=old\n"
        "2\tcat\t_\tNOUN\t_\t_\t3\tnsubj\t_\tA=1\n"
        "3\tsleeps\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    )
    command = [*COMMAND, str(path), "-o", str(parsed), "--keep", "given", "--at-most-one", "obj,nsubj"]
    assert main([*command, "--not-root", "VERB"]) == 0
    lines = parsed.read_text().splitlines()
    assert [line.split("\t")[-1] for line in lines[:3]] == [
        "A=1", "A=1|Violation=at-most-one:nsubj", "Violation=not-root",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--keep", "given", "--text"], "--keep given is for treebanks: raw text has no heads"),
        (["--non-projective", "given"], "--non-projective given is for arcs that are kept: add --keep given"),
        (["--probabilities", "--trees", "2"], "probabilities of arcs and alternatives are of one tree"),
        (["--at-most-one", "nsbj"], "at most one 'nsbj': the model knows no such label"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, message, capsys):
    assert main([*COMMAND, GOLD, "-o", "/dev/null", *options]) == 2
    assert message in capsys.readouterr().err


def test_options_are_refused_before_a_model_is_looked_for(capsys):
    assert main(["parse", "no/such/model", GOLD, "-o", "/dev/null", "--probabilities", "--trees", "2"]) == 2
    assert "probabilities of arcs and alternatives are of one tree" in capsys.readouterr().err


def test_an_empty_name_is_refused(capsys):
    with pytest.raises(SystemExit):
        main([*COMMAND, GOLD, "--at-most-one", "nsubj,"])
    assert "'nsubj,' is not a list of names, separated by commas" in capsys.readouterr().err
