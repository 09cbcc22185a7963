"""CoNLL-U: what is read, what is refused and with which message, and what is written back byte by byte."""

import gzip
import random
import re
from pathlib import Path

import pytest
from extended import extended
from hypothesis import given
from hypothesis import strategies as st

from parser.treebank.conllu import MAX_BLOCK_BYTES, read_treebank, stream_sentences
from parser.treebank.conllu_faults import SHOWN_FAULTS, TreebankError
from parser.treebank.conllu_output import (
    as_conllu,
    sentence_lines,
    with_probabilities,
    with_tree,
    without_enhanced,
)
from parser.treebank.sentence import FORM, MISC
from parser.treebank.text_files import BYTE_ORDER_MARK, MAX_LINE_LENGTH, open_text

RICH = (
    "# newdoc\n"
    "# sent_id = one\n"
    "# text = Don't  go\n"
    "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\tSpacesAfter=\\s\\s\n"
    "1\tDo\tdo\tAUX\tVB\tMood=Imp\t3\taux\t3:aux\t_\n"
    "2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t3:advmod\t_\n"
    "2.1\tyou\tyou\tPRON\tPRP\t_\t_\t_\t3:nsubj\tCopyOf=-1\n"
    "3\tgo\tgo\tVERB\tVB\tMood=Imp\t0\troot\t0:root\tGloss==|x=\n"
    "\n"
    "1\t_\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_\n"
    "2\ttwo  blanks\ta  b\tX\t_\t_\t0\troot\t_\tA=1||B\n"
    "\n"
)


def write(tmp_path, text, name="file.conllu"):
    path = tmp_path / name
    path.write_bytes(text.encode("utf-8", errors="surrogateescape"))
    return str(path)


def rewritten(path, tree=True):
    """The text of the file after each tree has been replaced by itself."""
    return "".join(
        line
        for sentence in stream_sentences(path, tree)
        for line in with_tree(sentence, sentence.heads, sentence.labels)
    )


@pytest.mark.parametrize("end", ["\n\n", "\n", "", "\r\n\r\n\r\n", "\n\n\n\n"])
def test_sentences_of_any_file_can_be_written_one_after_the_other(tmp_path, end):
    text = RICH.replace("\n", "\r\n") if "\r" in end else RICH
    one, other = read_treebank(write(tmp_path, text.rstrip("\r\n") + end))
    (tmp_path / "joined.conllu").write_bytes(as_conllu([other, one, other]))
    joined = read_treebank(str(tmp_path / "joined.conllu"))
    assert [sentence.forms for sentence in joined] == [other.forms, one.forms, other.forms]
    assert as_conllu([one, other]) == text.encode()


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_lines_of_new_sentences_are_those_of_the_file_they_were_read_from(split):
    for sentence in read_treebank(f"data/quickstart/{split}.conllu"):
        comments = [line[2:-1] for line in sentence.lines if line.startswith("#")]
        rows = [line.rstrip("\n").split("\t") for line in sentence.lines if "\t" in line]
        tokens, covered = [], 0
        for identifier, form, *_, misc in rows:
            first, _, last = identifier.partition("-")
            if int(first) > covered:
                covered = int(last or first)
                tokens.append((form, covered - int(first) + 1, misc))
        words = list(zip(*(row for row in rows if "-" not in row[0]), strict=True))
        columns = dict(enumerate(words[FORM:MISC], FORM))
        lines, word_lines = sentence_lines(columns, tokens, comments)
        assert (tuple(lines), tuple(word_lines)) == (sentence.lines, sentence.word_lines)


def test_reads_words_without_ranges_and_empty_nodes(tmp_path):
    first, second = read_treebank(write(tmp_path, RICH))
    assert first.forms == ("Do", "n't", "go")
    assert first.upos == ("AUX", "PART", "VERB")
    assert first.heads == (3, 3, 0)
    assert first.labels == ("aux", "advmod", "root")
    assert (first.identifier, first.line) == ("one", 1)
    assert second.forms == ("_", "two  blanks")
    assert (second.identifier, second.line) == ("#2", 10)


VARIANTS = {
    "as it is": RICH,
    "CRLF": RICH.replace("\n", "\r\n"),
    "no final newline": RICH.rstrip("\n"),
    "extra blank lines": "\n\n" + RICH.replace("\n\n", "\n \n\n"),
    "separators of other kinds in a form": RICH.replace("\tgo\t", "\tg\u2028o\x85n\t"),
}


@pytest.mark.parametrize("text", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_byte_is_kept(tmp_path, text):
    path = write(tmp_path, text)
    assert rewritten(path) == text
    assert len(read_treebank(path)) == 2


def test_joined_files_are_read_as_without_their_byte_order_marks(tmp_path):
    """Including comments after the marks."""
    joined = write(tmp_path, "".join("\ufeff" + RICH.replace("one", name) for name in "abc"))
    assert [each.identifier for each in read_treebank(joined)] == ["a", "#2", "b", "#4", "c", "#6"]
    assert rewritten(joined) == "".join(RICH.replace("one", name) for name in "abc")


def test_files_joined_within_a_line_have_a_fault_in_the_next_one(tmp_path):
    joined = write(tmp_path, f"{RICH.rstrip()}\ufeff{RICH}")
    with pytest.raises(TreebankError, match=r"file\.conllu:14: .*range 1-2 does not fit"):
        read_treebank(joined)


def test_reads_gzip(tmp_path):
    path = tmp_path / "file.conllu.gz"
    path.write_bytes(gzip.compress(RICH.encode()))
    assert rewritten(str(path)) == RICH


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"not gzip"])
def test_a_broken_gzip_file_is_named(tmp_path, damage):
    path = tmp_path / "file.conllu.gz"
    path.write_bytes(damage(gzip.compress(RICH.encode())))
    with pytest.raises(ValueError, match=r"file\.conllu\.gz: not a complete gzip file"):
        read_treebank(str(path))


COLUMN = st.text(st.characters(blacklist_characters="\t\n\r", blacklist_categories=["Cs"]), min_size=1)
WORD = COLUMN.filter(
    lambda text: "\0" not in text and text == text.strip() and any(one != "\ufeff" for one in text)
)


@given(st.lists(st.tuples(WORD, COLUMN, COLUMN), min_size=1, max_size=5))
def test_any_text_in_a_column_survives(tmp_path_factory, rows):
    lines = [
        f"{number}\t{form}\t{lemma}\tX\t_\t_\t{number - 1}\tdep\t_\t{misc}\n"
        for number, (form, lemma, misc) in enumerate(rows, 1)
    ]
    path = write(tmp_path_factory.mktemp("any"), "".join(lines) + "\n")
    assert rewritten(path) == "".join(lines) + "\n"
    assert len(read_treebank(path)[0]) == len(rows)


def test_writes_head_and_label(tmp_path):
    first, _ = read_treebank(write(tmp_path, RICH))
    lines = with_tree(first, [2, 3, 0], ["aux", "advmod", "root"])
    assert lines[4] == "1\tDo\tdo\tAUX\tVB\tMood=Imp\t2\taux\t3:aux\t_\n"
    assert lines[:4] + lines[5:] == first.lines[:4] + first.lines[5:]


@pytest.mark.parametrize("text", VARIANTS.values(), ids=VARIANTS.keys())
def test_without_enhanced_dependencies_all_else_is_kept(tmp_path, text):
    """Only the empty node is gone, and DEPS is _."""
    bare = re.sub(r"\d:(aux|advmod|root)", "_", re.sub(r"2\.1\t.*\n", "", text))
    path = write(tmp_path, text)
    found = [without_enhanced(sentence.lines, sentence.word_lines) for sentence in stream_sentences(path)]
    assert "".join(line for lines in found for line in lines) == bare


EMPTY_NODES = {
    "without dependencies": "0.1\tx\t_\tX\t_\t_\t_\t_\t_\t_\n{}1.1\ty\t_\tX\t_\t_\t_\t_\t_\tCopyOf=1\n",
    "alone with dependencies": "{}1.1\tx\t_\tX\t_\t_\t_\t_\t1:dep\t_\n1.2\ty\t_\tX\t_\t_\t_\t_\t1.1:dep\t_\n",
    "behind a byte-order mark": "\ufeff0.1\tx\t_\tX\t_\t_\t_\t_\t_\t_\n{}",
}


@pytest.mark.parametrize("text", EMPTY_NODES.values(), ids=EMPTY_NODES.keys())
def test_empty_nodes_are_enhanced_dependencies_whatever_deps_has(tmp_path, text):
    comment = "# 1.1\tis no node\n"
    (sentence,) = read_treebank(write(tmp_path, text.format(comment + row())))
    assert without_enhanced(sentence.lines, sentence.word_lines) == (comment, row())


def test_probabilities_go_to_misc_once(tmp_path):
    path = tmp_path / "some.conllu"
    path.write_text("1\ta\ta\tX\tX\t_\t0\troot\t_\tA=1|B=2\r\n2\tb\tb\tX\tX\t_\t1\tobj\t_\t_\n\n", newline="")
    [sentence] = stream_sentences(str(path))
    once = with_probabilities(sentence, [0.25, 1.0])
    assert [line.split("\t")[-1] for line in once.lines[:2]] == [
        "A=1|B=2|ArcProbability=0.2500\r\n",
        "ArcProbability=1.0000\n",
    ]
    assert with_probabilities(once, [0.25, 1.0]) == once


def test_keeps_the_projective_heads_of_conll_x(tmp_path):
    text = "1\ta\ta\tN\tNN\t_\t0\tROOT\t0\tROOT\n\n"
    (sentence,) = read_treebank(write(tmp_path, text))
    with pytest.raises(ValueError, match="line 1: sentence #1 has the PHEAD and PDEPREL of CoNLL-X"):
        with_probabilities(sentence, [0.5])
    lines = with_tree(sentence, [0], ["dep"])
    assert without_enhanced(lines, [0]) == lines
    assert "".join(lines) == "1\ta\ta\tN\tNN\t_\t0\tdep\t0\tROOT\n\n"


def test_input_to_parse_needs_no_tree(tmp_path):
    path = write(tmp_path, "1\ta\t_\t_\t_\t_\t_\t_\t_\t_\n\n")
    (sentence,) = stream_sentences(path, tree=False)
    assert sentence.heads == (-1,)
    with pytest.raises(TreebankError, match="HEAD '_' is not the number of a word"):
        read_treebank(path)


def row(identifier="1", head="0", label="root", form="a"):
    return f"{identifier}\t{form}\t_\tX\t_\t_\t{head}\t{label}\t_\t_\n"


LONG_CYCLE = row() + "".join(row(str(n), str(n + 1 if n < 30 else 2), "x") for n in range(2, 31))
FAULTS = {
    ":1: sentence #1: 3 columns instead of 10": ["1\ta\t_\n"],
    "11 columns instead of 10": [row().replace("\n", "\tx\n")],
    "3 columns instead of 10; the file ends in this line": [row() + "2\tb\t_"],
    "no tabs": ["1  a  _  X  _  _  0  root  _  _\n"],
    "DEPREL is empty": [row(label="")],
    "DEPREL is missing": [row(label="_")],
    "ID 'x' is not of the form 1, 1-2 or 1.1": [row("x")],
    f"ID '{60 * '9'}…' is not": [row("9" * 500)],
    ":2: .*ID 3; expected 2": [row() + row("3", "1", "x")],
    "ID 1; expected 2": [row() + row("1", "1", "x")],
    "HEAD '(x|-1)' is not the number of a word": [row(head="x"), row(head="-1")],
    "HEAD 2 is beyond the last word, 1": [row(head="2")],
    "word 1 is its own head": [row(head="1")],
    "no word has HEAD 0": [row(head="2") + row("2", "1")],
    "2 words have HEAD 0": [row() + row("2")],
    ":2: .*words 2, 3 form a cycle": [row() + row("2", "3") + row("3", "2")],
    r"words 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … \(29 in all\) form a cycle": [LONG_CYCLE],
    "range 1-2 does not fit": [row("1-2") + row(), row() + row("1-2", "_", "_") + row("2", "1")],
    "empty node 2.1; expected 1.1": [row() + row("2.1", "_", "_")],
    ":1: .*empty nodes without words": ["0.1\tx\t_\tX\t_\t_\t_\t_\t_\t_\n"],
    "byte 0xff, number 5 of the line, is not UTF-8": [row(form="ä\udcff")],
    ":1: .*byte 0xe4, number 3 of the line": ["# \udce4\n" + row()],
    "'a↑b' has the character ↑, which marks lifted words": [row(label="a↑b")],
    "has a character that cannot be printed": [row(label=f"a{sign}b") for sign in "\u2028\r"],
    f"DEPREL '{60 * 'x'}…' has more than 1,000 characters": [row(label="x" * 1001)],
    f"DEPREL '{60 * 'x'}…' has a character": [row(label="x" * 500 + "\0")],
    r"FORM '(go\\xa0| go)' begins or ends with a blank": [row(form="go\xa0"), row(form=" go")],
    "DEPREL 'nsubj ' begins or ends with a blank": [row(label="nsubj ")],
    "UPOS 'X ' begins or ends with a blank": [row().replace("X", "X ")],
    r"FORM '\\x0b \\x85' is blank; write _ for an empty value": [row(form="\x0b \x85")],
    r":1: .*FORM '\\(ufeff|xa0)' is blank": [row(form="\ufeff"), row("1-1", form="\xa0") + row()],
    r"FORM 'a\\x00b' has NUL": [row(form="a\0b")],
    r"FORM 'é\\rb' has a line end": [row(form="é\rb")],
    "comments without words": ["# only\n\n"],
    r"\.conllu: no sentences$": [""],
}


@pytest.mark.parametrize(
    ("text", "message"), [(text, message) for message, texts in FAULTS.items() for text in texts]
)
def test_faults_are_described(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(TreebankError, match=message) as error:
        read_treebank(path)
    assert str(error.value).startswith(path + ":")


def test_sentences_after_a_block_of_empty_nodes_are_validated(tmp_path):
    path = write(tmp_path, "0.1\tx\t_\tX\t_\t_\t_\t_\t_\t_\n\n" + row(head="7"))
    for tree, lines in ((True, [1, 3]), (False, [1])):
        with pytest.raises(TreebankError) as error:
            list(stream_sentences(path, tree))
        assert [fault.line for fault in error.value.faults] == lines


@pytest.mark.parametrize("comment", ["# sent_id" + " " * 200_000, "# sent_id =" + " " * 200_000])
def test_a_comment_with_many_spaces_is_read_in_linear_time(tmp_path, comment):
    (sentence,) = read_treebank(write(tmp_path, f"{comment}\n#sent_id=a b \n{row()}"))
    assert sentence.identifier == "a b"


@pytest.mark.extended
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"x" * (MAX_LINE_LENGTH + 1), ":5: .*the line is longer than 1,048,576 characters"),
        (
            b"# a comment\n" * (MAX_BLOCK_BYTES // 60),
            ":5: .*sentence #3, up to the next one, takes more than 64 MiB",
        ),
        (b"\n" * (MAX_BLOCK_BYTES // 8), ":3: .*sentence #2, up to the next one, takes more than 64 MiB"),
    ],
)
def test_endless_input_is_refused(tmp_path, content, message):
    path = tmp_path / "endless.conllu.gz"
    path.write_bytes(gzip.compress(f"{row(head='x')}\n{row()}\n".encode() + content, 1))
    with pytest.raises(TreebankError, match=message) as error:
        read_treebank(str(path))
    assert len(error.value.faults) == 2  # with the fault of the first sentence


def test_any_number_of_blank_lines_may_follow(tmp_path):
    path = write(tmp_path, row() + "\n" * (MAX_BLOCK_BYTES // 50) + row())
    assert len(read_treebank(path)) == 2


def test_a_line_of_tabs_is_one_fault(tmp_path):
    with pytest.raises(TreebankError, match="500,001 columns instead of 10"):
        read_treebank(write(tmp_path, "1" + 500_000 * "\t" + "\n"))


@pytest.mark.parametrize(
    ("text", "heads", "labels"),
    [
        (
            row(head="2", label="x") + row("2") + row("3", "4", "x") + row("4"),
            *((2, 0, 4, 2), ("x", "root", "x", "dep")),
        ),
        (
            row(head="2", label="x") + row("2") + row("3", label="parataxis") + row("4", label="ROOT"),
            *((2, 0, 2, 2), ("x", "root", "parataxis", "dep")),
        ),
    ],
)
def test_further_roots_are_attached_to_the_first_and_keep_other_labels_than_root(
    tmp_path, text, heads, labels
):
    path = write(tmp_path, text)
    with pytest.raises(TreebankError, match=r"\d words have HEAD 0 .* `roots: attach-to-first`"):
        read_treebank(path)
    (sentence,) = read_treebank(path, "attach-to-first")
    assert (sentence.heads, sentence.labels) == (heads, labels)


def test_a_stream_ends_with_all_faults_of_the_file(tmp_path):
    path = write(tmp_path, "\n".join([row(), row(head="7"), row(), row(head="x")]))
    read = []
    with pytest.raises(TreebankError) as error:
        read.extend(stream_sentences(path))
    assert [fault.line for fault in error.value.faults] == [3, 7]


def test_lists_all_faults_and_counts_those_it_does_not_show(tmp_path):
    path = write(tmp_path, (row(head="7") + row("2", "9") + "\n") * 100)
    with pytest.raises(TreebankError) as error:
        read_treebank(path)
    assert len(error.value.faults) == SHOWN_FAULTS
    lines = str(error.value).splitlines()
    assert len(lines) == SHOWN_FAULTS + 1
    assert lines[2].startswith(f"{path}:4: sentence #2: ")
    assert lines[-1].endswith("and 150 more faults")


@pytest.mark.real_data
def test_real_treebanks_are_preserved_byte_by_byte(treebanks):
    paths = sorted(treebanks.glob("*/*.conllu"))
    assert paths
    for path in paths:
        with open_text(str(path)) as file:
            assert rewritten(str(path)) == file.read(), path


JUNK = [b"\t", b"\n", b"\r\n", b"\r", b" ", b"#", b"_", b"-", b".", b"0", b"1", b"1-2", b"1.1", b"\0"]
JUNK += [b"\xff", b"\xc3\xa4", b"\xe2\x86\x91", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\x85", b"9" * 5000]
JUNK += [b"=", b"|"]


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Some sentences of a treebank with some random changes."""
    sentences = content.split(b"\n\n")
    start = draw.randrange(len(sentences))
    data = b"\n\n".join(sentences[start : start + draw.randint(1, 4)]) + b"\n\n"
    for _ in range(draw.choice([1, 1, 1, 2, 3, 8])):
        data = draw.choice(CHANGES)(data, draw) or data
    return data


def changed_span(data: bytes, draw: random.Random) -> bytes:
    """Delete, duplicate or replace some bytes."""
    start = draw.randrange(len(data) + 1)
    end = min(len(data), start + draw.choice([0, 0, 1, 1, 5, 30]))
    middle = draw.choice([b"", draw.choice(JUNK), draw.choice(JUNK), data[start:end] * 2])
    return data[:start] + middle + data[end:]


def cut(data: bytes, draw: random.Random) -> bytes:
    return data[: draw.randrange(len(data))]


def lost_or_shuffled_lines(data: bytes, draw: random.Random) -> bytes:
    lines = data.splitlines(keepends=True)
    kept = [line for line in lines if draw.random() < 0.9]
    return b"".join(draw.choice([kept, draw.sample(lines, len(lines))]))


def other_separators(data: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.3:
        return data.replace(b"\n", b"\r\n")
    return data.replace(b"\t", draw.choice([b" ", b"\t\t", b"  "]), draw.randint(1, 20))


def other_heads(data: bytes, draw: random.Random) -> bytes:
    number = b"\t%d\t" % draw.randrange(40)
    return data.replace(draw.choice([b"\t0\t", b"\t2\t", b"\t3\t"]), number, draw.randint(1, 3))


CHANGES = (changed_span, changed_span, cut, lost_or_shuffled_lines, other_separators, other_heads)


def check(path: Path) -> bool:
    """Whether the file is accepted. If so, writing must reproduce it, except for byte-order marks in it."""
    try:
        sentences = read_treebank(str(path))
    except TreebankError as refused:
        error = refused
    else:
        error = None
    if error:
        assert all(line.startswith(f"{path}:") for line in str(error).splitlines())
        assert error.faults
        return False
    with open_text(str(path)) as file:
        kept = "".join(line.lstrip(BYTE_ORDER_MARK) for line in file)
    assert "".join(line for sentence in sentences for line in sentence.lines) == kept
    for sentence in sentences:
        assert with_tree(sentence, sentence.heads, sentence.labels) == sentence.lines
        assert sentence.heads.count(0) == 1
        for word in range(1, len(sentence) + 1):
            climbed = 0
            while word:
                word, climbed = sentence.heads[word - 1], climbed + 1
                assert climbed <= len(sentence)
    assert list(stream_sentences(str(path))) == sentences
    return True


@pytest.mark.parametrize("files", [60, *extended((300,)), pytest.param(100_000, marks=pytest.mark.soak)])
def test_damaged_treebanks(tmp_path, files):
    contents = [path.read_bytes() for path in sorted(Path("data/quickstart").glob("*.conllu"))]
    path, accepted = tmp_path / "damaged.conllu", 0
    for number in range(files):
        draw = random.Random(number)
        path.write_bytes(damaged(draw.choice(contents), draw))
        try:
            accepted += check(path)
        except Exception as error:
            raise AssertionError(f"file number {number}: {path.read_bytes()!r}") from error
    assert files / 20 < accepted < files
