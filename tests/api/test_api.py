"""The program's functions for other programs."""

import asyncio
import gc
import re
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import conllu
import pytest

import parser
from parser.cli import main
from parser.treebank.conllu import read_treebank

MODEL = "tests/model"
GOLD = "tests/model/parsed.conllu"
CAT = ["The", "cat", "sleeps", "."]


@pytest.fixture(scope="module")
def english():
    return parser.load(MODEL, device="cpu")


def test_importing_is_quick():
    code = "import sys, parser; dir(parser); assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"load", "train", "evaluate"} <= set(dir(parser))
    with pytest.raises(AttributeError, match="no attribute 'miracle'"):
        parser.miracle  # noqa: B018


def test_trees_and_tags_are_those_of_the_command(english, tmp_path):
    gold = read_treebank(GOLD)
    trees = list(english.parse_all([sentence.forms for sentence in gold], probabilities=True))
    written = tmp_path / "parsed.conllu"
    assert main(["parse", MODEL, GOLD, "--tags=all", "--probabilities", "-o", str(written)]) == 0
    again = tmp_path / "again.conllu"
    again.write_text("".join(tree.to_conllu() for tree in trees), encoding="utf-8")
    for tree, ours, theirs in zip(trees, read_treebank(str(again)), read_treebank(str(written)), strict=True):
        for field in ("forms", "lemmas", "upos", "xpos", "feats", "heads", "labels"):
            assert getattr(ours, field) == getattr(theirs, field)
        probabilities = [
            line.split("ArcProbability=")[1].partition("|")[0] for line in theirs.lines if "Arc" in line
        ]
        assert list(map(float, probabilities)) == pytest.approx(tree.probabilities, abs=2e-4)


def test_one_sentence(english):
    tree = english.parse(CAT)
    assert tree == next(english.parse_all([CAT]))
    assert tree.words == tuple(CAT)
    assert len(tree) == 4
    assert tree.heads.count(0) == 1
    assert tree.upos[1] == "NOUN"
    assert tree.lemmas[2] == "sleep"
    assert tree.probabilities is None
    assert len(english.parse(CAT, probabilities=True).probabilities) == 4


def test_tasks_of_asyncio(english):
    async def parse_all(sentences):
        return await asyncio.gather(*map(english.parse_async, sentences), return_exceptions=True)

    sentences = [CAT[:words] for words in (1, 2, 3, 4)] * 20
    *trees, error = asyncio.run(parse_all([*sentences, []]))
    assert trees == list(english.parse_all(sentences))
    assert str(error) == "sentence 1: it has no words"
    tree = asyncio.run(asyncio.wait_for(english.parse_async(CAT, upos=["X"] * 4, probabilities=True), 60))
    assert tree == english.parse(CAT, upos=["X"] * 4, probabilities=True)


def test_the_thread_for_tasks_ends_with_the_parser():
    before = set(threading.enumerate())
    own = parser.load(MODEL, device="cpu")
    asyncio.run(own.parse_async(CAT))
    [thread] = set(threading.enumerate()) - before
    del own
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


def test_what_is_given_is_kept(english):
    tree = english.parse(CAT, upos=["X"] * 4, lemmas=("a", "b", "c", "d"))
    assert tree.upos == ("X",) * 4
    assert tree.lemmas == ("a", "b", "c", "d")
    assert tree.xpos == english.parse(CAT).xpos
    assert english.parse(CAT, upos=["X", "_", "X", "X"]).upos == ("X", "NOUN", "X", "X")


@pytest.mark.parametrize(
    "word", ["c\x0bat", "c\x85at", "c\u2028at", "\u200b", "\xad", "10\xa0000", "\x01", "#"]
)
def test_words_that_the_parser_takes_can_be_read_from_a_file(english, word, tmp_path):
    path = tmp_path / "parsed.conllu"
    path.write_text(english.parse(["The", word]).to_conllu(), encoding="utf-8", newline="\n")
    assert read_treebank(str(path))[0].forms == ("The", word)


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "x", None, True])
def test_what_is_no_batch_size_is_refused(english, batch_size):
    message = f"batch_size is {re.escape(repr(batch_size))}; it should be a whole number, at least 1"
    for parse in (english.parse_all, english.parse_texts):
        with pytest.raises(ValueError, match=message):
            parse([], batch_size=batch_size)
    for found in (english.best_trees, english.alternatives):
        with pytest.raises(ValueError, match=message.replace("batch_size", "count")):
            found(CAT, batch_size)


def test_what_is_said_of_a_sentence_stays_with_it(english):
    own = {"words": CAT, "sent_id": "s1", "text": "The cat sleeps."}
    tree, plain = english.parse_all([own, CAT])
    assert (tree.sent_id, tree.text) == ("s1", "The cat sleeps.")
    assert tree.to_conllu() == f"# sent_id = s1\n# text = The cat sleeps.\n{plain.to_conllu()}"
    assert (plain.sent_id, plain.text) == (None, None)
    known = {"sent_id": "s1", "text": "The cat sleeps."}
    assert asyncio.run(english.parse_async(CAT, **known)) == tree
    best = english.best_trees(CAT, 2, **known)
    assert {(each.sent_id, each.text) for each in best} == {("s1", "The cat sleeps.")}


@pytest.mark.extended
def test_any_number_of_sentences_in_order(english):
    made, asked = 0, 12_000

    def sentences():
        nonlocal made
        for number in range(asked):
            made += 1
            yield [*["the", "dog"] * 6, str(number)]

    trees = english.parse_all(sentences())
    assert [tree.words[12] for tree in islice(trees, 3)] == ["0", "1", "2"]
    assert 3 < made < asked / 2  # sentences are read only when they are needed
    assert next(islice(trees, 6_000, None)).words[12] == "6003"
    assert list(english.parse_all([])) == []


def test_what_is_no_list_is_refused(english):
    with pytest.raises(ValueError, match="sentences: a list of them is needed, not int"):
        english.parse_all(5)
    with pytest.raises(ValueError, match=r"words: a list of strings .* not dict; parse_all takes mappings"):
        english.parse({"words": ["a"]})
    with pytest.raises(ValueError, match="sentences: a list of them is needed, not TokenList"):
        english.parse_all(conllu.TokenList([{"id": 1, "form": "Dogs"}]))
    with pytest.raises(ValueError, match="model: a name, a path or a list of these is needed, not int"):
        parser.load(3)
    assert repr(english).startswith("<Parser: arc-hybrid, ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("The cat sleeps.", "words: a list of strings is needed, not str"),
        ([], "it has no words"),
        (None, "it has no words"),
        (["The", 3], "words, number 2: 3 is no string"),
        (["The", ""], "words, number 2 is empty; write _ for an empty value"),
        (["The", " "], "words, number 2 ' ' is blank; write _ for an empty value"),
        (["The", "\x0b\x85"], "words, number 2 '\\\\x0b\\\\x85' is blank; write _ for an empty value"),
        (["The", "\ufeff"], "words, number 2 '\\\\ufeff' is blank; write _ for an empty value"),
        (["The", "cat "], "words, number 2 'cat ' begins or ends with a blank"),
        (["The", "c\tat"], "words, number 2 'c\\\\tat' has a tab"),
        (["The", "c\r\nat"], "words, number 2 'c\\\\r\\\\nat' has a line end"),
        (["The", "c\0at"], "words, number 2 'c\\\\x00at' has NUL"),
        ({"words": ["a"], "text": "a\nb"}, "text 'a\\\\nb' has a line end"),
        ({"words": ["a"], "sent_id": 3}, "sent_id: 3 is no string"),
        ({"words": ["a", "b"], "upos": ["X"]}, "2 words, but 1 upos"),
        (
            {"words": ["a"], "tags": ["X"]},
            "unknown: tags; known: words, lemmas, upos, xpos, feats, heads, labels, sent_id, text",
        ),
        ({"words": ["a"], "feats": "_"}, "feats: a list of strings is needed, not str"),
        ({"words": ["a"], "feats": []}, "1 words, but 0 feats"),
        ({"words": {"a", "b"}}, "words: a list of strings is needed, not set"),
        (["\ud800"], "words, number 1: '\\\\ud800' has a lone surrogate, which is no character"),
    ],
)
def test_what_is_no_sentence_is_refused(english, given, message):
    with pytest.raises(ValueError, match=f"^sentence 3: {message}$"):
        list(english.parse_all([CAT, CAT, given]))
    if not isinstance(given, dict):
        with pytest.raises(ValueError, match=f"^sentence 1: {message}$"):
            english.parse(given)


def test_a_model_that_reads_tags_and_gets_none_warns(reader_of_tags):
    reader = parser.load(reader_of_tags, device="cpu")
    for parse in (reader.parse, lambda words: next(reader.parse_all([words]))):
        with pytest.warns(UserWarning, match="UPOS is blank for 100% of the words") as caught:
            parse(CAT)
        assert caught[0].filename == __file__  # the warning names the line of this program
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reader.parse(CAT, upos=["DET", "NOUN", "VERB", "PUNCT"], feats=["Number=Sing"] * 4)


def test_scoring_a_file_without_the_tags_that_the_model_reads_warns(reader_of_tags, tmp_path):
    treebank = tmp_path / "words.conllu"
    treebank.write_text("1\tDogs\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\tbark\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    with pytest.warns(UserWarning, match="UPOS is blank for 100% of the words") as caught:
        parser.evaluate(reader_of_tags, treebank, device="cpu")
    assert caught[0].filename == __file__


def test_a_search_that_is_interrupted_is_not_computed_by_the_next_call(monkeypatch):
    english = parser.load(MODEL, device="cpu")
    called = []

    def interrupted(*given):
        called.append(given)
        raise KeyboardInterrupt

    monkeypatch.setattr("parser.parsing.pytorch.beam_search.search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        english.best_trees(CAT, 3)
    assert english.parse(CAT).heads == (2, 3, 0, 3)
    assert len(called) == 1


@pytest.mark.extended
def test_many_threads_share_a_parser(english):
    sentences = [list(sentence.forms) for sentence in read_treebank(GOLD)]
    alone = [english.parse(words) for words in sentences]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(english.parse, sentences)) == alone
        streams = threads.map(lambda _: list(english.parse_all(sentences)), range(8))
        assert all(trees == alone for trees in streams)


@pytest.mark.parametrize(("path", "device"), [("nowhere", "cpu"), (MODEL, "cuda:99"), (MODEL, "abacus")])
def test_what_can_not_be_loaded_is_a_value_error(path, device):
    with pytest.raises(ValueError, match=r"nowhere|cuda:99|abacus"):
        parser.load(path, device=device)


@pytest.mark.extended
def test_training_and_evaluating_are_those_of_the_commands(config_file, tmp_path, capsys):
    result = parser.train(str(config_file), run=tmp_path / "run")
    assert result.model == tmp_path / "run" / "model"
    assert result.epochs == 6
    assert 0 < result.best_epoch <= 6
    treebank = str(tmp_path / "tiny.conllu")
    scores = parser.evaluate(result.model, treebank, device="cpu")
    assert scores.as_dict() == result.dev == result.test
    assert parser.evaluate(parser.load(result.model, "cpu"), treebank).las == scores.las
    assert main(["train", str(config_file), "--run", str(tmp_path / "other")]) == 0
    with pytest.raises(ValueError, match="device is 'cpu', but the model is loaded"):
        parser.evaluate(parser.load(result.model, "cpu"), treebank, device="cpu")
    with pytest.raises(ValueError, match="roots is 'some'; it should be 'refuse' or 'attach-to-first'"):
        parser.evaluate(result.model, treebank, roots="some")
    weights = [(tmp_path / run / "model/weights.safetensors").read_bytes() for run in ("run", "other")]
    assert weights[0] == weights[1]


def test_a_config_without_a_file(config_file, tmp_path):
    treebank = str(tmp_path / "tiny.conllu")
    config = {"treebank": {"train": treebank, "dev": treebank}, "training": {"epochs": 1}, "device": "cpu"}
    with pytest.raises(ValueError, match="needs the folder of its run"):
        parser.train(config)
    with pytest.raises(ValueError, match="there is no such folder"):
        parser.train(config, run=tmp_path / "run", resume=True)
    with pytest.raises(ValueError, match="epochs"):
        parser.train({**config, "training": {"epochs": 0}}, run=tmp_path / "run")
    assert parser.train(config, run=tmp_path / "run").test is None
