"""`stack-parser check`: what users learn about their treebanks."""

import re

import pytest

from parser.cli import main
from parser.commands.check import titles_of
from parser.commands.treebank_table import MAX_LISTED

DOG, CAT = "dogs NOUN Number=Plur nsubj", "cats NOUN Number=Plur nsubj"
BARK, LIE = "bark VERB _ root", "lie VERB Mood=Ind root"


def treebank(path, *sentences):
    """Write trees whose root is the last word. A sentence: its `sent_id` or None, and words such as DOG."""
    blocks = []
    for identifier, *words in sentences:
        lines = [f"# sent_id = {identifier}\n"] if identifier else []
        for number, word in enumerate(words, 1):
            form, upos, feats, label = word.split()
            head = 0 if number == len(words) else len(words)
            lines.append(f"{number}\t{form}\t_\t{upos}\t_\t{feats}\t{head}\t{label}\t_\t_\n")
        blocks.append("".join(lines) + "\n")
    path.write_text("".join(blocks))
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Files of train, dev and test, in another order."""
    test = treebank(tmp_path / "x-test.conllu", ("t1", CAT, LIE), ("a2", DOG, BARK), ("t3", DOG, BARK))
    train = treebank(tmp_path / "x-train.conllu", ("a1", DOG, BARK), ("a2", DOG, DOG, BARK))
    return [test, train, treebank(tmp_path / "x-dev.conllu", (None, DOG, BARK), (None, DOG, BARK))]


def table_of(printed):
    """The cells by the names of rows, without empty ones."""
    rows = (re.split(r"  +", line.strip()) for line in printed.splitlines())
    return {name: cells for name, *cells in rows}


def test_sizes_and_tags_are_counted(capsys):
    assert main(["check", "data/quickstart/train.conllu"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("train  data/quickstart/train.conllu: no errors\n")
    rows = table_of(printed)
    assert rows["sentences"] == ["2,000"]
    assert rows["share"][0].endswith(" %")
    assert re.search(r"^  det +[\d,]+", printed, re.MULTILINE)
    assert re.search(r"\bNOUN +[\d,]+", printed)
    assert "not in train" not in printed
    assert "no dev file was given" in printed


def test_dev_and_test_are_compared_with_train(files, capsys):
    assert main(["check", *files]) == 0
    printed = capsys.readouterr().out
    rows = {name: " ".join(cells) for name, cells in table_of(printed).items()}
    assert rows["sentences"] == "2 2 3"  # train, dev and test
    assert rows["words without space after"] == "0 0 0"
    assert rows["words"] == "5 4 6"
    assert rows["words not in train"] == "0.0 % 33.3 %"
    assert rows["UPOS tags not in train"] == "0 0"
    assert rows["features not in train"] == "0 1"
    assert rows["also in a file to the left"] == "0 2 2"
    assert rows["repeated sentences"] == "0 0 0"
    assert rows["repeated sent_id"] == "0 0 1"
    assert "features of test that are not in train: Mood=Ind 1\n" in printed
    assert "\n  test, line 5, as train, line 1: dogs bark\n" in printed
    assert "\n  a2: test, line 5, as train, line 5\n" in printed
    assert "no dev file" not in printed


def test_sentences_that_are_repeated_within_a_file_are_counted(tmp_path, capsys):
    twice = treebank(tmp_path / "some.conllu", ("a", DOG, BARK), ("b", DOG, LIE), ("c", DOG, BARK))
    assert main(["check", twice]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("file  ")
    assert table_of(printed)["repeated sentences"] == ["1"]
    assert "no dev file" not in printed  # the file itself could be the dev file


@pytest.mark.parametrize(
    ("titles", "given"),
    [
        ({"a/dev/b-train.conllu.gz": "train", "b-test.conllu": "test"}, None),
        ({"one": "train", "two": "dev", "three": "test", "four": "file"}, None),
        ({"one": "file"}, None),
        ({"a-train": "train 1", "b-train": "train 2", "more": "file"}, ["a-train", "more", "b-train"]),
        # Neither word is a role.
        ({"latest.conllu": "train", "testament.conllu": "dev"}, ["latest.conllu", "testament.conllu"] * 2),
    ],
)
def test_roles_are_in_the_names_or_in_the_order(titles, given):
    assert titles_of(given or list(titles)) == titles


def test_output_has_a_bounded_length(tmp_path, capsys):
    """Whatever the files contain. Control characters are escaped."""
    many = [(f"s{number}", f"w{number} T{number} F={number} l{number}", BARK) for number in range(500)]
    strange = ("s0", "dogs \x1b[2J _ nsubj", BARK)
    train = treebank(tmp_path / "train.conllu", (None, DOG, BARK))
    files = [treebank(tmp_path / f"dev{number}.conllu", *many, strange) for number in range(8)]
    assert main(["check", train, *files]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) < 2 * 30 + 3 * MAX_LISTED + 9 * 10
    assert max(map(len, printed.splitlines())) <= 150
    assert "more, each 8 to 8 times; the rarest:" in printed
    assert "\x1b" not in printed


@pytest.mark.extended
def test_transitions_are_described_if_asked_for(capsys):
    files = ["data/quickstart/dev.conllu", "data/quickstart/test.conllu"]
    assert main(["check", *files]) == 0
    assert "arc-eager" not in capsys.readouterr().out
    assert main(["check", *files, "--transitions"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"\narc-eager stack: median, 99 %, greatest( +\d+, \d+, \d+){2}\n", printed)
    assert re.search(r"\narc-eager trajectories in( +[\d.]+ s){2}\n", printed)


def test_check_goes_on_after_a_faulty_file(tmp_path, capsys):
    faulty = tmp_path / "faulty.conllu"
    faulty.write_text("1\ta\n\n")
    assert main(["check", str(faulty), "data/quickstart/dev.conllu"]) == 2
    captured = capsys.readouterr()
    assert f"{faulty}: left out, see the message\n" in captured.out
    assert "data/quickstart/dev.conllu: no errors\n" in captured.out
    assert captured.err == f"{faulty}:1: sentence #1: 2 columns instead of 10\n"


def test_words_that_no_space_follows_are_counted(tmp_path, capsys):
    train = tmp_path / "train.conllu"
    treebank(train, ("SpaceAfter=No", DOG, BARK), ("b", DOG, BARK))
    train.write_text(train.read_text().replace("root\t_\t_", "root\t_\tA=1|SpaceAfter=No"))
    assert main(["check", str(train)]) == 0
    assert table_of(capsys.readouterr().out)["words without space after"] == ["2"]


def test_the_share_of_words_with_unknown_tags(tmp_path, capsys):
    train = treebank(tmp_path / "train.conllu", ("a", DOG, BARK))
    dev = treebank(tmp_path / "dev.conllu", ("b", DOG, "mew V _ root"), ("c", DOG, BARK))
    assert main(["check", train, dev]) == 0
    lines = capsys.readouterr().out.splitlines()
    index = next(number for number, line in enumerate(lines) if line.startswith("UPOS tags not in train"))
    assert lines[index].split()[-1] == "1"
    assert lines[index + 1].split()[-2:] == ["25.0", "%"]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("pattern", "in_dev", "predicted", "warning"),
    [
        (r"\tVERB\t", r"\tV\t", None, "33% of the UPOS in dev are in no training tree"),
        (r"^(\d)\t\S+", r"\1\tslova", None, "100% of the words in dev are in no training tree"),
        (r"^((?:\S+\t){3})\S+", r"\1_", "upos", "the UPOS of all dev words is _"),
        (r"^((?:\S+\t){2})\S+", r"\1_", "lemma", "the LEMMA of all dev words is _"),
    ],
)
def test_training_warns_if_dev_differs(pattern, in_dev, predicted, warning, config_file, tmp_path, capsys):
    dev, changes = tmp_path / "dev.conllu", ["training.epochs=1"]
    dev.write_text(re.sub(pattern, in_dev, (tmp_path / "tiny.conllu").read_text(), flags=re.MULTILINE))
    if predicted:
        changes += ["parser.network.tag_sizes={}", f"parser.network.tags={{predict: [{predicted}]}}"]
    command = ["train", str(config_file), "--run", str(tmp_path / "run")]
    command += [word for change in changes for word in ("--set", change)]
    assert main([*command, "--set", f"treebank.dev={dev}"]) == 0
    assert warning in capsys.readouterr().err
    assert main(command) == 0
    assert not re.search("in dev are|of all dev words", capsys.readouterr().err)


def test_heads_may_be_unknown_but_in_dev(tmp_path, capsys):
    train = tmp_path / "x-train.conllu"
    treebank(train, ("a", DOG, BARK), ("b", DOG, DOG, BARK))
    train.write_text(train.read_text().replace("3\tnsubj", "_\tnsubj"))
    dev = tmp_path / "x-dev.conllu"
    dev.write_text(train.read_text())
    assert main(["check", str(train)]) == 2
    assert "with `treebank.partial: true` or `check --partial`" in capsys.readouterr().err

    assert main(["check", "--partial", "--transitions", str(train)]) == 0
    rows = table_of(capsys.readouterr().out)
    assert rows["words without heads"] == ["2"]
    assert rows["non-projective trees"] == ["0"]
    assert rows["arc-hybrid stack: median, 99 %, greatest"] == ["2, 2, 2"]  # of the complete tree

    assert main(["check", "--partial", str(train), str(dev)]) == 2
    printed = capsys.readouterr()
    assert "x-train.conllu: no errors" in printed.out
    assert "x-dev.conllu:6: sentence b: HEAD" in printed.err


def test_arcs_of_partial_trees_may_cross(tmp_path, capsys):
    crossing = tmp_path / "x-train.conllu"
    lines = (f"{word}\tx\t_\tX\t_\t_\t{head}\tdep\t_\t_\n" for word, head in enumerate("34_0", 1))
    crossing.write_text("".join(lines) + "\n")
    assert main(["check", "--partial", str(crossing)]) == 0
    assert table_of(capsys.readouterr().out)["non-projective trees"] == ["1"]
