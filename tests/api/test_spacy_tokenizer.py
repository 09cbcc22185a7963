"""The tokenizer of a model in spaCy's pipelines."""

import pickle
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import parser
from parser.models.model_files import TOKENIZER
from parser.text.tokenizer import Token, TokenizedSentence
from parser.text.treebank_text import treebank_text
from parser.treebank.conllu import read_treebank

pytest.importorskip("spacy")

import spacy

from parser.api.spacy_factory import make_tokenizer

KEPT = Path("tests/text/tokenizer.json")
TEXT = " The cat  sleeps. Don't\twake it!\n\n\n It's old.\n"


@pytest.fixture
def model(tmp_path):
    """The folder of a model with a trained tokenizer, which finds multiword tokens."""
    shutil.copytree("tests/model", tmp_path / "model")
    shutil.copy(KEPT, tmp_path / "model" / TOKENIZER)
    return tmp_path / "model"


def of_rules(folder):
    """The folder of a model that tokenizes text by spaCy's rules."""
    folder.mkdir()
    shutil.copytree("tests/model", folder, dirs_exist_ok=True)
    (folder / TOKENIZER).write_text('{"settings": {"kind": "spacy", "language": "en"}, "contents": {}}')
    return str(folder)


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    return make_tokenizer(of_rules(tmp_path_factory.mktemp("rules") / "model"))(spacy.blank("en"))


def sentences_of(doc):
    """Words, heads and labels of each sentence, without white space."""
    for sentence in doc.sents:
        words = [token for token in sentence if not token.is_space]
        heads = [0 if token.head == token else words.index(token.head) + 1 for token in words]
        yield [token.text for token in words], heads, [token.dep_ for token in words]


def test_words_sentences_and_trees_are_those_of_the_parser(model):
    nlp = parser.spacy_pipeline(model, "en", device="cpu")
    loaded = parser.load(model, device="cpu")
    long = treebank_text(read_treebank("data/quickstart/test.conllu")[:40])
    for text in (TEXT, long, "", " \n", "Don't"):
        doc = nlp(text)
        assert doc.text == text
        found = [sentence for sentence in sentences_of(doc) if sentence[0]]
        trees = loaded.parse_text(text)
        assert found == [(list(tree.words), list(tree.heads), list(tree.labels)) for tree in trees]
        assert len(list(doc.sents)) == max(len(trees), bool(text))


@pytest.mark.extended
def test_a_saved_pipeline_brings_its_tokenizer(model, tmp_path):
    nlp = parser.spacy_pipeline(model, device="cpu")
    expected = list(sentences_of(nlp(TEXT)))
    shutil.rmtree(model)
    nlp.to_disk(tmp_path / "pipeline")
    assert list(sentences_of(spacy.load(tmp_path / "pipeline")(TEXT))) == expected
    tokenizer = {"@tokenizers": "stack_parser.Tokenizer.v1", "model": None}
    other = spacy.blank("xx", config={"nlp": {"tokenizer": tokenizer}})
    other.add_pipe("stack_parser", config={"device": "cpu"})
    assert list(sentences_of(other.from_bytes(nlp.to_bytes())(TEXT))) == expected
    words = [token.text for token in nlp.make_doc(TEXT)]
    assert [token.text for token in pickle.loads(pickle.dumps(nlp.tokenizer))(TEXT)] == words


@pytest.mark.extended
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_several_processes(model):
    nlp = parser.spacy_pipeline(model, device="cpu")
    texts = [f"Don't go. The dog {number} sleeps." for number in range(6)]
    docs = list(nlp.pipe(texts, n_process=2, batch_size=2))
    assert [list(sentences_of(doc)) for doc in docs] == [list(sentences_of(nlp(text))) for text in texts]


@pytest.fixture(scope="module")
def blank():
    return spacy.blank("en")


@given(
    st.lists(st.sampled_from([" ", "  ", "\n", "\t", "\r\n", "\xa0", "\u2028", "The", "cat", ".", "it's"]))
)
def test_white_space_becomes_tokens_as_in_spacy(rules, blank, parts):
    text = "".join(parts)
    expected = [(token.text, token.whitespace_) for token in blank(text)]
    assert [(token.text, token.whitespace_) for token in rules(text)] == expected


def test_characters_that_are_blank_for_the_tokenizer_only_are_no_words(rules):
    assert [token.text_with_ws for token in rules("The\0cat")] == ["The", " ", "cat"]


class Expanding:
    """Replaces a reader: finds French `au` in any text."""

    def sentences(self, text):
        au = Token("au", 0, 2, ("à", "le"), True)
        yield TokenizedSentence((au, Token("chat", 3, 7, ("chat",), True)), "au chat", True)


def test_words_that_do_not_make_up_their_token_take_its_place(rules):
    own = pickle.loads(pickle.dumps(rules))
    own._reader = Expanding()
    with pytest.warns(UserWarning, match="au: spaCy has the words à le in its place, which changes the text"):
        doc = own("au chat")
    assert doc.text == "à le chat"
    assert [token.text for token in doc] == ["à", "le", "chat"]


@pytest.mark.parametrize(
    ("path", "message"),
    [(None, "no model: give nlp.tokenizer the config"), ("tests/model", "tests/model: the model has no tok")],
)
def test_without_a_tokenizer_the_first_use_says_so(path, message):
    own = make_tokenizer(path)(spacy.blank("en"))
    for use in (lambda: own("The cat."), own.to_bytes):
        with pytest.raises(ValueError, match=f"^the tokenizer of the pipeline: .*{message}"):
            use()
    with pytest.raises(ValueError, match=r"the tokenizer of the pipeline: tokenizer.json: .*JSON"):
        own.from_bytes(b"nothing")


def test_what_can_not_be_a_pipeline_is_refused_at_once(tmp_path):
    with pytest.raises(ValueError, match="tests/model: the model has no tokenizer"):
        parser.spacy_pipeline("tests/model", device="cpu")
    broken = Path(of_rules(tmp_path / "broken"))
    (broken / "weights.safetensors").write_bytes(b"broken")
    with pytest.raises(ValueError, match=r"the component stack_parser: .*files are broken"):
        parser.spacy_pipeline(broken, device="cpu")


def test_a_lone_surrogate_is_refused(rules):
    with pytest.raises(ValueError, match="the text, character 5: a lone surrogate, which is no character"):
        rules("The \ud800")


def test_without_spacy_a_pipeline_is_refused_by_name(monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"a pipeline of spaCy needs spacy, .* pip install 'spacy>="):
        parser.spacy_pipeline("tests/model")
