"""A column that is added to the registry is read, embedded, watched, predicted and written."""

from dataclasses import fields

import pytest
import torch

from parser.api.tree import Tags, Tree
from parser.models.column_shares import InputColumnCheck
from parser.models.network_model import NetworkModel
from parser.models.settings import ParserSettings
from parser.networks.settings import NetworkSettings
from parser.parsing.engine import parse
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import with_tags
from parser.treebank.sentence import (
    FORM,
    MISC,
    TITLES,
    WORD_COLUMNS,
    Sentence,
    WordColumn,
    annotation_columns,
)
from parser.treebank.tokens import encode_tokens
from parser.treebank.vocabulary import Vocabulary

LINES = """\
1\tgo\t_\tVERB\t_\t_\t0\troot\t_\tGloss=go
2\tgo\t_\tVERB\t_\t_\t1\tdep\t_\tGloss=run

"""
SMALL = {"word_size": 4, "token_size": 6, "hidden_size": 5, "transition_size": 3}


@pytest.fixture(params=["word", "tag", "features"])
def gloss(request, monkeypatch):
    """Registers MISC as a column under a name that is used nowhere else. It uses the field of XPOS."""
    monkeypatch.setitem(WORD_COLUMNS, "gloss", WordColumn(MISC, "xpos", request.param))


def sentences_in(text, tmp_path):
    (tmp_path / "some.conllu").write_text(text, encoding="utf-8")
    return read_treebank(str(tmp_path / "some.conllu"))


def small_model(sentences, **network):
    settings = ParserSettings(network=NetworkSettings(**SMALL, **network))
    predicted = settings.network.tags.predict
    vocabulary = Vocabulary.build(sentences, settings.network.columns, predicted=predicted)
    return NetworkModel.build(settings, Vocabulary.from_json(vocabulary.as_json()), torch.device("cpu"))


@pytest.mark.usefixtures("gloss")
def test_a_new_column_is_embedded(tmp_path):
    sentences = sentences_in(LINES, tmp_path)
    model = small_model(sentences, tag_sizes={"gloss": 2})
    encoder = model.network.tokens.eval()
    first, second = encoder(encode_tokens(model.vocabulary, sentences))
    assert not torch.equal(first, second)  # the words differ in nothing else
    (first - second).square().sum().backward()
    [weight] = encoder.embeddings["gloss"].parameters()
    assert weight.grad[1:].any(1).all()


@pytest.mark.usefixtures("gloss")
def test_a_new_column_is_watched(tmp_path):
    model = small_model(sentences_in(LINES, tmp_path), tag_sizes={"gloss": 2})
    blank = sentences_in(LINES.replace("Gloss=go", "_").replace("Gloss=run", "_"), tmp_path)
    found = []
    check = InputColumnCheck(model.read_lexicons, {})
    assert list(check.check(blank, found.append)) == blank
    assert [message.partition(" of the words")[0] for message in found] == ["MISC is blank for 100%"]


@pytest.mark.parametrize("gloss", ["tag", "features"], indirect=True)
@pytest.mark.usefixtures("gloss")
def test_a_new_column_is_predicted_and_written(tmp_path):
    sentences = sentences_in(LINES, tmp_path)
    model = small_model(sentences, tag_sizes={}, tags={"predict": ["gloss"]})
    [tree] = parse(model, sentences)
    assert set(tree.tags["gloss"]) <= {"Gloss=go", "Gloss=run"}
    [written] = sentences_in("".join(with_tags(sentences[0], tree.tags, "all")[0].lines), tmp_path)
    assert written.column("gloss") == tree.tags["gloss"]


def test_a_column_that_is_not_there_is_refused():
    for network in ({"tag_sizes": {"gloss": 2}}, {"tags": {"predict": ["form"]}}):
        with pytest.raises(ValueError, match="Input should be 'lemma', 'upos', 'xpos' or 'feats'"):
            NetworkSettings(**network)


@pytest.mark.parametrize("name", WORD_COLUMNS)
def test_the_values_are_those_at_its_place(name, tmp_path):
    line = ["1", *TITLES[FORM:]]
    line[TITLES.index("HEAD")] = "0"
    [sentence] = sentences_in("\t".join(line) + "\n\n", tmp_path)
    assert sentence.column(name) == (WORD_COLUMNS[name].title,)


def test_every_column_has_its_fields():
    assert {one.attribute for one in WORD_COLUMNS.values()} < {field.name for field in fields(Sentence)}
    annotations = {one.attribute for one in annotation_columns().values()}
    assert annotations < {field.name for field in fields(Tree)}
    assert annotations == Tags.__annotations__.keys()
