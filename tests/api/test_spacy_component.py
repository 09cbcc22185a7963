"""The component of spaCy's pipelines."""

import json
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from extended import extended, first_of
from programs import make_foreign

from parser.api.parser import load
from parser.evaluation.evaluate import evaluate
from parser.evaluation.scores import score
from parser.models.loading import ModelChoice, load_models
from parser.parsing.engine import Engine, parse_stream
from parser.parsing.parsed_tree import ParsedTree
from parser.training.config import read_config
from parser.training.run import train
from parser.treebank.conllu import read_treebank

pytest.importorskip("spacy")

import spacy
from spacy.attrs import DEP
from spacy.tokens import Doc
from spacy.training import Example

from parser.api import spacy_component
from parser.api.spacy_factory import ComponentSettings

MODEL = "tests/model"
CAT = "The cat sleeps."


@pytest.fixture(scope="module")
def english():
    return pipeline()


@pytest.fixture(scope="module")
def gold():
    return read_treebank("data/quickstart/dev.conllu")


def pipeline(model=MODEL, **config):
    nlp = spacy.blank("en")
    nlp.add_pipe("stack_parser", config={"model": model, "device": "cpu", **config})
    return nlp


def document(nlp, sentences, *, trees=False, tags=False):
    """A document of gold sentences, without trees and tags unless they are asked for."""
    given = {"words": [form for one in sentences for form in one.forms]}
    given["sent_starts"] = [word == 0 for one in sentences for word in range(len(one))]
    if tags:
        given["pos"] = [tag for one in sentences for tag in one.upos]
        given["morphs"] = [feats for one in sentences for feats in one.feats]
    if trees:
        ends = accumulate(map(len, sentences), initial=0)
        given["heads"] = [
            before + (head - 1 if head else word)
            for before, one in zip(ends, sentences, strict=False)
            for word, head in enumerate(one.heads)
        ]
        given["deps"] = [label for one in sentences for label in one.labels]
    return Doc(nlp.vocab, **given)


def arcs(doc):
    return [(token.i, token.head.i, token.dep_) for token in doc]


def trees_of(doc):
    for sentence in doc.sents:
        heads = [0 if token.head == token else token.head.i - sentence.start + 1 for token in sentence]
        yield ParsedTree(tuple(heads), tuple(token.dep_ for token in sentence))


@pytest.mark.parametrize(
    ("which", "treebank"), [(None, None), *extended(("reader_of_tags", None), ("reader_of_treebanks", "two"))]
)
@pytest.mark.parametrize("sentences", first_of([7, 1]))
def test_the_trees_are_those_that_the_evaluation_scores(which, treebank, sentences, gold, request):
    model = request.getfixturevalue(which) if which else MODEL
    nlp = pipeline(model, treebank=treebank)
    parts = [gold[start : start + sentences] for start in range(0, len(gold), sentences)]
    docs = nlp.pipe([document(nlp, part, tags=model != MODEL) for part in parts])
    found = [tree for doc in docs for tree in trees_of(doc)]
    loaded = load_models(ModelChoice((Path(model),), treebank))
    for ours, (_, theirs) in zip(found, parse_stream(loaded, gold), strict=True):
        assert (ours.heads, ours.labels) == (theirs.heads, theirs.labels)
    if model == MODEL:
        assert score(gold, found).las == evaluate(loaded, gold).las > 50


def test_one_text_without_sentences_is_one_sentence(english):
    doc = english(CAT + " It barks.")
    assert [sentence.text for sentence in doc.sents] == [doc.text]
    assert [token.dep_ for token in doc].count("root") == 1


@pytest.mark.parametrize("text", ["", " \n ", "a", " a", CAT])
def test_short_texts(english, text):
    doc = english(text)
    assert doc.text == text
    assert [sentence.text for sentence in doc.sents] == [text][: len(doc)]
    assert [token.dep_ for token in doc if token.is_space] == ["dep"] * (text[:1] == " ")
    [again] = english.pipe([text])
    assert arcs(again) == arcs(doc)


def test_white_space_is_not_parsed(english):
    words = ["\n", "The", " ", "cat", "sleeps", "\n", "\n", ".", "\n", " ", "It", "barks", " ", "\t", " "]
    starts = [number in (0, 9, 13) for number in range(len(words))]
    doc = english(Doc(english.vocab, words=words, sent_starts=starts))
    words = ["The", "cat", "sleeps", ".", "It", "barks"]
    plain = english(Doc(english.vocab, words=words, sent_starts=[1, 0, 0, 0, 1, 0]))
    kept = [token for token in doc if not token.is_space]
    assert [(kept.index(token.head), token.dep_, token.pos_) for token in kept] == [
        (token.head.i, token.dep_, token.pos_) for token in plain
    ]
    spaces = [token for token in doc if token.is_space]
    assert [token.head.i for token in spaces] == [1, 1, 4, 4, 7, 10, 11, 13, 13]
    assert {(token.dep_, token.pos_, token.tag_, str(token.morph)) for token in spaces} == {
        ("dep", "SPACE", "_SP", "")
    }
    assert all(token.lemma_ == token.text for token in spaces)
    assert [sentence.start for sentence in doc.sents] == [0, 9, 13]


def test_boundaries_stay_whatever_the_tree(monkeypatch, reader_of_tags):
    words = 121
    outward = sorted(range(words), key=lambda word: (abs(word - words // 2), word))
    heads = np.zeros(words, dtype=int)
    heads[outward[1:]] = np.array(outward[:-1]) + 1  # all arcs cross each other
    tree = ParsedTree(tuple(heads.tolist()), ("dep",) * words)
    monkeypatch.setattr(Engine, "stream", lambda engine, found, *_, **__: ((one, tree) for one in found))
    starts = [number % words == 0 for number in range(3 * words)]
    nlp = pipeline(reader_of_tags)
    with pytest.warns(UserWarning, match="blank for 100%"):
        doc = nlp(Doc(nlp.vocab, words=["a"] * 3 * words, sent_starts=starts))
    assert [sentence.start for sentence in doc.sents] == [0, words, 2 * words]
    assert [found.heads for found in trees_of(doc)] == [tree.heads] * 3


def test_tags_are_set_where_there_are_none(english):
    words = ["The", "cat", "sleeps"]
    doc = english(Doc(english.vocab, words=words))
    assert [token.pos_ for token in doc] == ["DET", "NOUN", "VERB"]
    assert (doc[1].tag_, str(doc[1].morph), doc[2].lemma_) == ("NN", "Number=Sing", "sleep")
    assert doc.has_annotation("MORPH", require_complete=True)
    given = {
        "pos": ["X", "", "X"],
        "tags": ["a", "", ""],
        "morphs": ["", "Case=Nom", ""],
        "lemmas": ["b", "", ""],
    }
    for overwrite, expected in ((False, ["X", "NOUN", "X"]), (True, ["DET", "NOUN", "VERB"])):
        nlp = pipeline(overwrite=overwrite)
        again = nlp(Doc(nlp.vocab, words=words, **given))
        assert [token.pos_ for token in again] == expected
        assert (again[0].tag_ == "a") == (again[0].lemma_ == "b") == (not overwrite)
        assert str(again[1].morph) == ("Number=Sing" if overwrite else "Case=Nom")
        assert again[2].tag_ == doc[2].tag_


def test_tags_that_spacy_does_not_have(tmp_path):
    shutil.copytree(MODEL, tmp_path / "model")
    vocabulary = tmp_path / "model/vocabulary.json"
    text = vocabulary.read_text().replace('"NOUN"', '"NOMEN"').replace('"DET"', '"_"')
    vocabulary.write_text(text.replace('"Number=Sing"', '"Sing|Case=Nom|a=b=c"').replace('"VBZ"', '"_"'))
    with pytest.warns(UserWarning, match=r"UPOS that spaCy does not have, X instead of them: NOMEN$"):
        nlp = pipeline(str(tmp_path / "model"))
    doc = nlp("The cat sleeps")
    assert [token.pos_ for token in doc] == ["", "X", "VERB"]
    assert str(doc[1].morph) == "Case=Nom"


def test_a_model_that_reads_tags_and_gets_none_warns_once(reader_of_tags):
    nlp = pipeline(reader_of_tags)
    with pytest.warns(UserWarning, match="UPOS is blank for 100% of the words") as caught:
        nlp(CAT)
    assert len([one for one in caught if "UPOS" in str(one.message)]) == 1
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "FEATS")
        nlp(CAT)
        list(nlp.pipe([CAT]))


def test_sentences_of_many_documents_are_parsed_together(english, monkeypatch):
    together, stream = [], Engine.stream

    def stream_and_note(engine, sentences, *options, **more):
        together.append(len(sentences))
        return stream(engine, sentences, *options, **more)

    monkeypatch.setattr(Engine, "stream", stream_and_note)
    made = 0

    def text(number):
        return "" if number == 3 else "The dog" + " sleeps" * (number % 5)

    def texts():
        nonlocal made
        for number in range(1000):
            made += 1
            yield text(number)

    first = list(islice(english.pipe(texts(), batch_size=50), 60))
    assert together == [49, 50]
    assert made == 100
    assert [doc.text for doc in first] == list(map(text, range(60)))
    assert arcs(first[7]) == arcs(english(text(7)))


def test_all_documents_are_parsed_by_one_engine(monkeypatch):
    engines, stream = [], Engine.stream

    def stream_and_note(engine, sentences, *options, **more):
        engines.append(engine)
        return stream(engine, sentences, *options, **more)

    monkeypatch.setattr(Engine, "stream", stream_and_note)
    nlp = pipeline()
    nlp("The dog sleeps")
    list(nlp.pipe(["A cat", "Dogs"]))
    assert len(engines) >= 2
    assert len(set(engines)) == 1


def test_errors_go_to_the_handler(monkeypatch):
    nlp = pipeline()
    handled, stream = [], Engine.stream

    def refuse(engine, sentences, *options, **more):
        if any("bad" in sentence.forms for sentence in sentences):
            raise ValueError("refused")
        return stream(engine, sentences, *options, **more)

    monkeypatch.setattr(Engine, "stream", refuse)
    with pytest.raises(ValueError, match="refused"):
        nlp("bad")
    with pytest.raises(ValueError, match="refused"):
        list(nlp.pipe(["good", "bad"]))
    nlp.set_error_handler(lambda name, component, docs, error: handled.append((name, docs, str(error))))
    texts = ["a", "b", "good", "bad", "c"]
    assert [doc.text for doc in nlp.pipe(texts, batch_size=2)] == ["a", "b", "c"]
    [(name, docs, error)] = handled
    assert (name, [doc.text for doc in docs], error) == ("stack_parser", ["good", "bad"], "refused")
    assert not any(doc.has_annotation("DEP") for doc in docs)


@pytest.mark.extended
def test_a_saved_pipeline_needs_nothing_else(english, tmp_path):
    model, saved = tmp_path / "model", tmp_path / "saved"
    shutil.copytree(MODEL, model)
    (model / "tokenizer.json").write_bytes(b"nobody opens it")
    nlp = pipeline(str(model), overwrite=True)
    shutil.rmtree(model)
    nlp.to_disk(saved)
    assert (saved / "stack_parser/tokenizer.json").read_bytes() == b"nobody opens it"
    code = """
import sys, spacy, parser.api.spacy_factory
nlp = spacy.load(sys.argv[1])
print([(token.i, token.head.i, token.dep_) for token in nlp(sys.argv[2])])
print(nlp.config["components"]["stack_parser"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved), CAT], check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(arcs(english(CAT))))
    assert "'overwrite': True" in done.stdout
    (saved / "stack_parser/LICENSE.txt").write_text("of the other model")
    english.to_disk(saved)  # its model has neither a tokenizer nor a licence
    assert not (saved / "stack_parser/LICENSE.txt").exists()
    assert not (saved / "stack_parser/tokenizer.json").exists()
    (saved / "stack_parser/weights.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match="files are broken"):
        spacy.load(saved)


def test_bytes_and_pickles(english):
    expected = arcs(english(CAT))
    nlp = pipeline(None)
    assert nlp.get_pipe("stack_parser").labels == ()
    assert arcs(nlp.from_bytes(english.to_bytes())(CAT)) == expected
    again = pickle.loads(pickle.dumps(english.get_pipe("stack_parser")))
    assert arcs(again(english.make_doc(CAT))) == expected
    assert again.name == "stack_parser"
    with pytest.raises(ValueError, match="neither a model's folder nor a package"):
        again.from_bytes(b"no package")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, r"it has no model: give add_pipe the config \{'model': MODEL\}"),
        ("nowhere", "nowhere: there is no such file or folder, nor a model of that name"),
    ],
)
def test_without_a_model(model, message, tmp_path):
    nlp = pipeline(model)
    for use in (nlp, nlp.to_bytes, lambda: nlp.to_disk(tmp_path), lambda: list(nlp.pipe([CAT]))):
        with pytest.raises(ValueError, match=f"^the component stack_parser: {message}"):
            use(CAT) if use is nlp else use()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0; it should be a whole number, at least 1"),
        ({"device": "abacus"}, "abacus"),
        ({"model": 3}, "model"),
    ],
)
def test_a_config_that_can_not_be(config, message):
    with pytest.raises(ValueError, match=message):
        pipeline(**config)


def test_labels_and_scores(english, gold):
    labels = english.get_pipe("stack_parser").labels
    assert {"root", "nsubj", "acl:relcl"} <= set(labels)
    assert not any("↑" in label for label in labels)
    docs = [[document(english, [one], trees=trees) for one in gold[:60]] for trees in (False, True)]
    scores = english.evaluate([Example(*both) for both in zip(*docs, strict=True)])
    right = words = 0
    for both in zip(english.pipe(docs[0]), docs[1], strict=True):
        ours, theirs = ({arc for arc in arcs(doc) if arc[2] != "punct"} for doc in both)
        right += len(ours & theirs)
        words += len(ours) + len(theirs)
    assert scores["dep_las"] == pytest.approx(2 * right / words)
    assert scores["dep_uas"] >= scores["dep_las"]
    assert scores["sents_f"] == 1.0


@pytest.mark.extended
def test_many_threads_share_a_component(english, gold):
    texts = [" ".join(one.forms) for one in gold[:20]]
    alone = [arcs(english(text)) for text in texts]
    with ThreadPoolExecutor(8) as threads:
        assert [arcs(doc) for doc in threads.map(english, texts)] == alone


@pytest.mark.extended
@pytest.mark.usefixtures("several_threads")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_several_processes(english):
    texts = [f"The dog {number} sleeps." for number in range(12)]
    docs = list(english.pipe(texts, n_process=2, batch_size=3))
    assert [arcs(doc) for doc in docs] == [arcs(english(text)) for text in texts]


def test_a_drawing(english):
    doc = english(CAT)
    svg = spacy.displacy.render(doc, style="dep", jupyter=False)
    assert svg.startswith("<svg")
    assert all(f">{token.dep_}</textPath>" in svg for token in doc if token.dep_ not in ("root", "punct"))


@pytest.mark.extended
def test_spacy_of_an_environment_without_our_packages_says_what_the_component_needs(tmp_path):
    environment = make_foreign(tmp_path / "project")
    code = """
import spacy
nlp = spacy.blank("en")
print(len(nlp("The cat sleeps.")))
nlp.add_pipe("stack_parser", config={"model": "model"})
"""
    program, folder = [sys.executable, "-c", code], tmp_path / "project"
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.stdout == "4\n"
    assert re.search(r"Error: the component stack_parser needs \w+, which is not inst.*: pip", done.stderr)


def test_spacy_finds_the_component_and_nothing_else_needs_spacy():
    entries = tomllib.loads(Path("pyproject.toml").read_text())["project"]["entry-points"]
    assert entries["spacy_factories"] == {"stack_parser": "stack_parser:make_component"}
    assert entries["spacy_tokenizers"] == {"stack_parser.Tokenizer.v1": "stack_parser:make_tokenizer"}
    importing = [
        path.name
        for path in sorted(Path("parser").rglob("*.py"))
        if re.search(r"^\s*(import|from) spacy\b", path.read_text(), re.M)
    ]
    names = ("component", "factory", "pipeline", "rules")
    assert importing == [f"spacy_{name}.py" for name in names]


@pytest.mark.extended
def test_a_pipeline_gives_the_trees_of_the_model(config_file, tmp_path):
    """The model has a pretrained transformer."""
    from small_transformers import make_transformer  # skips this test without its libraries

    own = {"model": str(make_transformer(tmp_path / "pretrained")), "layers": 2}
    changes = [f"parser.network.transformer={json.dumps(own)}", "training.epochs=4"]
    train(read_config(config_file, changes), tmp_path / "run", torch.device("cpu"))
    model = str(tmp_path / "run" / "model")
    nlp = spacy.blank("en")
    nlp.add_pipe("stack_parser", config={"model": model, "device": "cpu"})
    words, tags = ["the", "dogs", "sleep", "."], ["DET", "NOUN", "VERB", "PUNCT"]
    doc = spacy.tokens.Doc(nlp.vocab, words=words, pos=tags, sent_starts=[True, False, False, False])
    [found] = nlp.pipe([doc])
    tree = load(model, "cpu").parse(words, upos=tags)
    heads = [0 if token.head == token else token.head.i + 1 for token in found]
    assert heads == list(tree.heads)
    # The pipeline holds all that the model needs.
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "run" / "model").rename(tmp_path / "elsewhere")
    [again] = spacy.load(tmp_path / "pipeline").pipe([spacy.tokens.Doc(nlp.vocab, words=words, pos=tags)])
    assert [token.head.i for token in again] == [token.head.i for token in found]


def given_document(nlp, heads, labels):
    words = ["The", "cat", "sleeps", "."]
    starts = [True, False, False, False]
    return Doc(nlp.vocab, words=words, heads=heads, deps=labels, sent_starts=starts)


def test_heads_and_labels_that_are_set_stay():
    nlp = pipeline(keep="given")
    plain = arcs(nlp("The cat sleeps."))
    assert plain == arcs(pipeline()("The cat sleeps."))
    found = nlp(given_document(nlp, [2, 0, 2, 3], ["dep", "obj", "", ""]))
    assert (found[0].head.i, found[1].head.i, found[1].dep_) == (2, 0, "obj")  # of `dep`, only the head
    found = nlp(given_document(nlp, [1, 1, 2, 3], ["dep", "ROOT", "", ""]))
    assert [token.i for token in found if token.head == token] == [1]
    doc = Doc(nlp.vocab, words=["The", "cat", "sleeps", "."])
    doc.from_array([DEP], np.array([[0], [0], [0], [nlp.vocab.strings.add("nsubj")]], dtype=np.uint64))
    assert [(token.dep_, token.head != token) for token in nlp(doc)][3] == ("nsubj", True)  # only a label
    found = pipeline()(given_document(nlp, [2, 0, 2, 3], ["dep", "obj", "", ""]))
    assert arcs(found) == plain


def test_heads_that_no_tree_has_are_an_error():
    nlp = pipeline(keep="given")
    with pytest.raises(ValueError, match="token 0, The: the heads of the words 1, 2 form a cycle"):
        nlp(given_document(nlp, [1, 0, 2, 3], ["det", "det", "", ""]))
    with pytest.raises(ValueError, match="keep is 'all'; it should be 'given' or None"):
        spacy_component.SpacyComponent("parser", MODEL, ComponentSettings("cpu", keep="all"))
    again = pickle.loads(pickle.dumps(nlp.get_pipe("stack_parser")))
    assert again(given_document(nlp, [2, 2, 2, 3], ["dep", "", "", ""]))[0].head.i == 2
