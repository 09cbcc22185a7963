"""Training the tokenizer, and what it finds without PyTorch."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load, save

from parser.runtime.kernels import instruction_sets, kernels
from parser.runtime.reference import NumPyKernels
from parser.text.bilstm import arrays
from parser.text.bilstm.arrays import BiLSTMTokenizer, UnitNetwork
from parser.text.bilstm.content import TrainedTokenizer, as_content, tokenizer_in
from parser.text.bilstm.kind import BiLSTMKind
from parser.text.bilstm.multiword_tokens import MultiwordTokens
from parser.text.bilstm.network import TextBatch, TokenizerNetwork
from parser.text.bilstm.training import known_units, scores, train
from parser.text.bilstm.units import (
    CONTINUES,
    ENDS_SENTENCE,
    Alphabet,
    category_of,
    code_points,
    features_of,
    forms_of,
)
from parser.text.tokenizer import Paragraph
from parser.text.tokenizer_kinds import tokenizer_from_json
from parser.treebank.conllu import read_treebank
from parser.treebank.vocabulary import Lexicon

SMALL = BiLSTMKind(kind="bilstm", character_size=5, character_hidden_size=6, form_size=4, hidden_size=7)
ALPHABET = Alphabet(
    Lexicon(" ab.'"), Lexicon(["a", "ab", "."]), MultiwordTokens({"ab": ("a", "b")}, {"'a": ("", "'a")})
)
TEXT = st.text(st.sampled_from("ab.' \nZ\u4e2d"), max_size=40).map(str.strip).filter(bool)
KERNELS = [*instruction_sets(), NumPyKernels.name]


def random_network(seed=0):
    torch.manual_seed(seed)
    network = TokenizerNetwork(SMALL, len(ALPHABET.characters), len(ALPHABET.forms)).eval()
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.7)
    weights = {name: each.half().float() for name, each in network.state_dict().items()}
    network.load_state_dict(weights)
    return network, TrainedTokenizer(ALPHABET, {name: each.numpy() for name, each in weights.items()})


NETWORK, TRAINED = random_network()


def by_pytorch(text):
    """The units of a text, and the scores of their decisions. text: without white space but single blanks."""
    characters = torch.tensor(list(map(ALPHABET.characters.number, text)))
    categories = torch.tensor(list(map(category_of, text)))

    def batch(ends):
        starts = [0, *(end + (text[end : end + 1] == " ") for end in ends[:-1])]
        return TextBatch(
            characters=characters,
            categories=categories,
            lengths=[len(text)],
            forms=torch.tensor(list(map(ALPHABET.forms.number, forms_of(text, starts, ends)))),
            features=torch.from_numpy(features_of(code_points(text), np.array(ends))),
            firsts=torch.tensor(starts),
            lasts=torch.tensor(ends) - 1,
            units=[len(ends)],
        ), starts

    with torch.no_grad():
        divides, _ = NETWORK(batch([len(text)])[0])
        ends = [
            place
            for place in range(1, len(text) + 1)
            if text[place - 1] != " " and (divides[place - 1] > 0 or text[place : place + 1] in ("", " "))
        ]
        of_units, starts = batch(ends)
        return starts, ends, NETWORK(of_units)[1].numpy()


@given(st.text(st.sampled_from("ab.'Z\u4e2d"), min_size=1, max_size=9).filter(str.strip), st.integers(0, 3))
@pytest.mark.parametrize("name", KERNELS)
def test_scores_are_those_of_the_trained_network(name, text, blanks):
    text = " ".join([text] * (blanks + 1))
    starts, ends, expected = by_pytorch(text)
    [found] = UnitNetwork(TRAINED, kernels(name), is_int8=False)([text])
    assert (found.starts, found.ends) == (starts, ends)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-4, atol=1e-4)


@given(st.lists(TEXT, min_size=1, max_size=6))
@pytest.mark.parametrize("name", KERNELS)
def test_a_text_gets_the_same_scores_in_any_company(name, texts):
    network = UnitNetwork(TRAINED, kernels(name))
    assert network(texts) == [network([text])[0] for text in texts]


@given(st.lists(TEXT, min_size=1, max_size=3), st.integers(4, 30), st.integers(1, 5), st.booleans())
def test_nothing_is_lost_between_the_parts_of_a_long_text(texts, together, margin, is_sentence):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "TOGETHER", together)
        patch.setattr(arrays, "MARGIN", margin)
        patch.setattr(arrays, "MOST_TOKENS", 4)
        paragraphs = [Paragraph(text, 100 * number) for number, text in enumerate(texts)]
        found = list(BiLSTMTokenizer(TRAINED).sentences(paragraphs, is_sentence))
    tokens = [token for one in found for token in one.tokens]
    assert "".join("".join(token.form.split()) for token in tokens) == "".join("".join(texts).split())
    assert [token.start for token in tokens] == sorted(token.start for token in tokens)
    for token in tokens:
        text, offset = paragraphs[token.start // 100]
        assert " ".join(text[token.start - offset : token.end - offset].split()) == token.form
        assert token.space_after == text[token.end - offset : token.end - offset + 1].isspace() or (
            token.space_after and token.end - offset == len(text)
        )
    assert all(len(one.tokens) <= 4 for one in found) or is_sentence
    if is_sentence:
        assert len(found) == len(texts)
    else:
        assert sum(one.begins_paragraph for one in found) == len(texts)


def with_biases(ends_sentence=0.0, divides=0.0):
    """A tokenizer that always, or never, ends a sentence or divides a token."""
    weights = {name: each.copy() for name, each in TRAINED.weights.items()}
    weights["decides.bias"][ENDS_SENTENCE] += ends_sentence
    weights["decides.bias"][CONTINUES] -= 1000
    weights["divides.bias"] += divides
    return BiLSTMTokenizer(TRAINED._replace(weights=weights))


def test_a_sentence_without_end_does_not_become_many_short_ones(monkeypatch):
    monkeypatch.setattr(arrays, "MOST_TOKENS", 8)
    tokenizer = with_biases(ends_sentence=-1000, divides=-1000)
    *found, last = tokenizer.sentences([Paragraph("ab a' Z " * 40 + "a", 0)], False)
    assert {4 < len(one.tokens) <= 8 for one in found} == {True}
    assert sum(len(one.tokens) for one in [*found, last]) == 121


def test_no_sentence_ends_where_a_token_is_cut(monkeypatch):
    monkeypatch.setattr(arrays, "TOGETHER", 20)
    monkeypatch.setattr(arrays, "MARGIN", 5)
    tokenizer = with_biases(ends_sentence=1000, divides=-1000)
    found = list(tokenizer.sentences([Paragraph(f"ab {'a' * 200} ab", 0)], False))
    assert [len("".join(token.form for token in one.tokens)) for one in found] == [2, 200, 2]
    assert len(found[1].tokens) > 2


def test_a_long_text_is_divided_like_a_short_one():
    stored = tokenizer_from_json(Path("tests/text/tokenizer.json").read_bytes())
    tokenizer = stored.settings.opened(stored.content())
    text = "The cat sleeps. Don't go! Was it round? " * 400
    found = [one.text for one in tokenizer.sentences([Paragraph(text, 0)], False)]
    assert found == ["The cat sleeps.", "Don't go!", "Was it round?"] * 400


TREEBANK = """# newpar
1-2\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tdo\t_\t_\t_\t_\t_\t_\t_\t_
2\tn't\t_\t_\t_\t_\t_\t_\t_\t_
3\tgo\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
4\t!\t_\t_\t_\t_\t_\t_\t_\t_

1\tviệt nam\t_\t_\t_\t_\t_\t_\t_\t_
2\tnam\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
3\t.\t_\t_\t_\t_\t_\t_\t_\t_

1\tdu\t_\t_\t_\t_\t_\t_\t_\t_
2\tgo\t_\t_\t_\t_\t_\t_\t_\t_

"""


@pytest.fixture(scope="module")
def learnt(tmp_path_factory):
    """A tokenizer of a treebank that is easy to learn."""
    treebank = tmp_path_factory.mktemp("treebank") / "train.conllu"
    treebank.write_text(TREEBANK * 8, encoding="utf-8")
    changes = {"least_steps": 150, "most_steps": 150, "learning_rate": 0.02, "dropout": 0.0}
    settings = BiLSTMKind(**(SMALL.model_dump() | changes))
    return settings, train(settings, treebank, treebank)


def test_training_learns_each_decision(learnt, capfd):
    settings, content = learnt
    tokenizer = settings.opened(content)
    text = "Don't go! việt nam nam. don't\ngo! du go"
    found = list(tokenizer.sentences([Paragraph(text, 0)], False))
    assert [one.text for one in found] == ["Don't go!", "việt nam nam.", "don't go!", "du go"]
    assert [one.words for one in found] == [
        ("Do", "n't", "go", "!"),
        ("việt nam", "nam", "."),
        ("do", "n't", "go", "!"),
        ("du", "go"),
    ]
    [line] = tokenizer.sentences([Paragraph(text, 0)], True)
    assert line.text == " ".join(text.split())
    assert not line.begins_paragraph


def test_scores_of_a_tokenizer(learnt):
    settings, content = learnt
    treebank = read_treebank("data/quickstart/dev.conllu")[:20]
    tokenizer = settings.opened(content)
    of_tokens, of_sentences = scores(tokenizer, treebank)
    [known] = known_units(treebank)
    found = list(tokenizer.sentences([Paragraph(known.text, 0)], False))
    tokens = {(token.start, token.end) for one in found for token in one.tokens}
    right = sum(
        (start, end) in tokens for start, end in zip(known.starts.tolist(), known.ends.tolist(), strict=True)
    )
    assert of_tokens == pytest.approx(200 * right / (len(tokens) + len(known.starts)))
    assert 0 <= of_sentences <= 100


def changed(change):
    """The content of a tokenizer after a change to its weights."""
    weights = load(as_content(TRAINED))
    change(weights)
    return as_content(TrainedTokenizer(ALPHABET, weights))


WEIGHT = "unit_lstm.weight_hh_l0"
SOUND = as_content(TRAINED)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "header too small"),
        (b"abc", "header too small"),
        (SOUND[:-1], "incomplete"),
        (save({"a": np.zeros(3)}), "__metadata__"),
        (changed(lambda weights: weights.pop(WEIGHT)), f"the weight {WEIGHT} is missing or unknown"),
        (changed(lambda weights: weights.update(x=np.zeros(2))), "the weight x is missing or unknown"),
        (changed(lambda weights: weights.update({WEIGHT: np.zeros((2, 2))})), r"has the shape \(2, 2\), not"),
        (changed(lambda weights: weights[WEIGHT].fill(np.nan)), "is not finite"),
        (
            as_content(TRAINED._replace(alphabet=ALPHABET._replace(forms=Lexicon(["a", "a", "."])))),
            "a string occurs twice",
        ),
        (
            as_content(
                TRAINED._replace(
                    alphabet=ALPHABET._replace(multiword_tokens=MultiwordTokens({"ab": ("a",)}, {}))
                )
            ),
            "alphabet.words.ab: ",
        ),
        *(
            (
                as_content(TRAINED._replace(alphabet=ALPHABET._replace(multiword_tokens=tokens))),
                "has an empty word, a tab or a line end",
            )
            for tokens in (
                MultiwordTokens({"ab": ("a\tb", "c")}, {}),
                MultiwordTokens({"ab": ("a", "")}, {}),
                MultiwordTokens({}, {"ab": ("\n", "b")}),
            )
        ),
    ],
)
def test_unsound_tokenizers_are_refused(content, message):
    with pytest.raises(ValueError, match=f"^not a sound tokenizer: .*{message}.*; get the model again"):
        tokenizer_in(content, SMALL)
    assert tokenizer_in(SOUND, SMALL).alphabet.forms.strings == ALPHABET.forms.strings
