"""Reparsing, compared with an enumeration of all trees, and alternatives, compared with a plain version."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from extended import first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import plain_label_scores, projective_trees, sentence
from random_parsers import RUNNERS, run_by
from small_parsers import SMALL

from parser.api.parser import Parser
from parser.cli import main
from parser.models.network_model import NetworkModel
from parser.models.settings import ParserSettings
from parser.networks.settings import ArcSettings, NetworkSettings
from parser.parsing.constraints import ConstraintReader
from parser.parsing.engine import Engine, parse, parse_stream
from parser.parsing.engine_thread import EngineThread
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import Alternative, Arcs
from parser.parsing.pytorch import runner
from parser.parsing.pytorch.runner import opinions
from parser.parsing.reparsing import Reparser, as_text, with_bonus
from parser.runtime.arcs import SecondOpinion
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import MARK, NO_HEAD
from parser.treebank.tokens import encode_tokens
from parser.treebank.vocabulary import Vocabulary

CPU = torch.device("cpu")
SENTENCES = read_treebank("data/quickstart/dev.conllu")[:40]
SIZE = 5
NONE = [None]
"""One sentence without constraints."""


def model_of(seed, sentences=SENTENCES):
    settings = ParserSettings(network=NetworkSettings(**SMALL, arcs=ArcSettings(size=SIZE), tag_sizes={}))
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = NetworkModel.build(settings, Vocabulary.build(sentences, settings.network.columns), CPU)
        for weight in model.network.parameters():
            if weight.requires_grad:
                torch.nn.init.normal_(weight, std=0.4)
    model.network.eval()
    return model


MODEL = model_of(1)


def random_opinion(words, random):
    scores = random.normal(size=(words, words + 1), scale=2).astype(np.float32)
    scores[np.arange(words), np.arange(1, words + 1)] = -np.inf
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    size = MODEL.network.labels.head.out_features
    as_heads, as_dependents = (
        random.normal(size=(count, size)).astype(np.float32) for count in (words + 1, words)
    )
    return SecondOpinion(logs, logs.max(1), as_heads, as_dependents)


def trees_of(words):
    return [list(tree) for tree in projective_trees(words) if list(tree).count(0) == 1]


def plain_label(opinion, head, word):
    scorer, vocabulary = MODEL.network.labels, MODEL.vocabulary
    hidden = torch.from_numpy(opinion.as_heads[head] + opinion.as_dependents[word])
    scores = scorer.labels(hidden.relu()).tolist()
    possible = vocabulary.word_labels if head else vocabulary.root_labels
    return max(possible, key=lambda label: scores[label])


@pytest.mark.parametrize("bonus", [None, 0.0, 1.0, 3.0])
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_trees_are_the_best_of_all(bonus, lengths, seed):
    random = np.random.default_rng(seed)
    reparser = Reparser.of(with_bonus(MODEL, bonus))
    opinions = [random_opinion(length, random) for length in lengths]
    trees = []
    for length in lengths:
        candidates = trees_of(length)
        heads = candidates[random.integers(len(candidates))]
        trees.append(Arcs(heads, [2] * length, random.random(length).tolist()))
    for opinion, own, found in zip(
        opinions, trees, reparser.reparse(opinions, trees, NONE * len(trees)), strict=True
    ):

        def total(heads, opinion=opinion, own=own):
            pairs = zip(opinion.log_probabilities, heads, own.heads, strict=True)
            return sum(logs[head] + (bonus or 0) * (head == before) for logs, head, before in pairs)

        candidates = [own.heads] if bonus is None else trees_of(len(own.heads))
        assert found.heads in candidates
        assert total(found.heads) == pytest.approx(max(map(total, candidates)), abs=1e-4)
        for word, (head, before) in enumerate(zip(found.heads, own.heads, strict=True)):
            kept = head == before
            assert found.labels[word] == (own.labels[word] if kept else plain_label(opinion, head, word))
            of_parser = own.probabilities[word] if kept else 1 - own.probabilities[word]
            mean = (of_parser + np.exp(opinion.log_probabilities[word, head])) / 2
            assert found.probabilities[word] == pytest.approx(mean, abs=1e-6)


def plain_opinions(models, sentence):
    """[words, words + 1] log-probabilities, and label scores of the arcs from each previous word."""
    logs = []
    for model in models:
        tokens = encode_tokens(model.vocabulary, [sentence])
        *words, root, _ = table = model.network.word_table(tokens)
        scorer = model.network.arcs
        heads = torch.stack([scorer.head(each).relu() for each in (root, *words)])
        scores = torch.stack([heads @ scorer.attention(scorer.dependent(word).relu()) for word in words])
        own = torch.eye(len(words), dtype=torch.bool)
        scores[:, 1:].masked_fill_(own, -torch.inf)
        logs.append(scores.log_softmax(1))
        if model is models[0]:
            labels = plain_label_scores(model.network.labels, root, words, list(range(len(words))))
        assert len(table) == len(words) + 2
    return torch.stack(logs).mean(0).log_softmax(1), labels


@pytest.mark.parametrize("count", [1, 2])
def test_opinions_are_those_of_one_sentence_after_the_other(count):
    models = [MODEL, model_of(2)][:count]
    tokens = [encode_tokens(model.vocabulary, SENTENCES) for model in models]
    with torch.inference_mode():
        scoring = [
            (model.network, model.network.encode_distinct(own)[0])
            for model, own in zip(models, tokens, strict=True)
        ]
        found = opinions(scoring, tokens[0].lengths)
        for sentence, opinion in zip(SENTENCES, found, strict=True):
            logs, labels = plain_opinions(models, sentence)
            np.testing.assert_allclose(opinion.log_probabilities, logs, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(opinion.greatest, logs.max(1).values, rtol=1e-4, atol=1e-4)
            hidden = torch.from_numpy(
                opinion.as_heads[:-1] + opinion.as_dependents
            )  # each word below the last
            found_labels = MODEL.network.labels.labels(hidden.relu())
            torch.testing.assert_close(found_labels, labels, rtol=1e-4, atol=1e-4)


def test_labels_have_the_numbers_of_the_first_model():
    """In an ensemble whose first model scores no arcs and numbers the labels differently."""
    settings = ParserSettings(network=NetworkSettings(**SMALL, tag_sizes={}))
    plain = NetworkModel.build(
        settings, Vocabulary.build(SENTENCES[::-1][:30], settings.network.columns), CPU
    )
    scoring = model_of(3, SENTENCES[::-1][:30])
    numbers = Reparser.of(replace(plain, others=(scoring,))).numbers
    for number, name in enumerate(scoring.vocabulary.labels.strings, 1):
        assert plain.vocabulary.labels.string(numbers[number]) == name


def test_without_a_scorer_there_is_none():
    settings = ParserSettings(network=NetworkSettings(**SMALL, tag_sizes={}))
    assert Reparser.of(NetworkModel.build(settings, Vocabulary.build(SENTENCES, ["form"]), CPU)) is None


@pytest.mark.parametrize("size", first_of([len(SENTENCES), 1]))
def test_parsing_gives_these_trees_to_one_sentence_as_to_many(size):
    model, number = with_bonus(MODEL, 0.01), MODEL.vocabulary.labels.number
    tokens = encode_tokens(model.vocabulary, SENTENCES)
    words, _ = model.network.encode_distinct(tokens)
    reparser = Reparser.of(model)
    own = [
        Arcs(list(tree.heads), list(map(number, tree.labels)), [])
        for tree in parse(with_bonus(MODEL, None), SENTENCES)
    ]
    expected = reparser.reparse(opinions([(model.network, words)], tokens.lengths), own, NONE * len(own))
    assert expected != own
    groups = (SENTENCES[start : start + size] for start in range(0, len(SENTENCES), size))
    found = [
        tree for group in groups for tree in parse(model, group, options=ParseOptions(probabilities=True))
    ]
    assert [list(tree.heads) for tree in found] == [tree.heads for tree in expected]
    assert [list(map(number, tree.labels)) for tree in found] == [tree.labels for tree in expected]
    assert all(0 < probability <= 1 for tree in found for probability in tree.probabilities)


@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_trees_are_the_best_of_those_with_all_given_arcs(lengths, seed):
    random, reparser = np.random.default_rng(seed), Reparser.of(with_bonus(MODEL, 0.1))
    reader = ConstraintReader(MODEL)
    for length in lengths:
        candidates = trees_of(length)
        tree = candidates[random.integers(len(candidates))]
        heads = np.where(random.random(length) < 0.5, tree, NO_HEAD).tolist()
        one = replace(sentence([0] * length), heads=tuple(heads), labels=("_",) * length)
        wanted = ParseOptions(keep="given", not_root=("NOUN",))
        constraints = reader.read(one, wanted, {})
        roots = {word for word, tag in enumerate(one.upos, 1) if tag != "NOUN"}
        fitting = [
            each
            for each in candidates
            if all(own in (NO_HEAD, head) for own, head in zip(heads, each, strict=True))
        ]
        fitting = [each for each in fitting if each.index(0) + 1 in roots] or fitting
        own = Arcs(fitting[random.integers(len(fitting))], [2] * length, [])
        opinion = random_opinion(length, random)
        among = opinion.among(constraints.possible_heads())
        assert np.exp(among.log_probabilities).sum(1) == pytest.approx(np.ones(length))
        given_words = np.flatnonzero(np.not_equal(heads, NO_HEAD))
        assert (np.exp(among.greatest[given_words]) == 1).all()
        [found] = reparser.reparse([among], [own], [constraints])

        def total(heads, opinion=opinion, own=own):
            pairs = zip(opinion.log_probabilities, heads, own.heads, strict=True)
            return sum(logs[head] + 0.1 * (head == before) for logs, head, before in pairs)

        assert found.heads in fitting
        assert total(found.heads) == pytest.approx(max(map(total, fitting)), abs=1e-4)


@pytest.mark.parametrize("size", first_of([len(SENTENCES), 1]))
def test_reparsed_trees_keep_constraints(size):
    model, at_most_one = with_bonus(MODEL, 0.01), ("nsubj", "det", "case")
    random, sentences = np.random.default_rng(1), []
    for one in SENTENCES:
        drawn = random.random((2, len(one))) < 0.5
        heads, labels = (
            tuple(np.where(keep, values, blank).tolist())
            for keep, values, blank in zip(drawn, (one.heads, one.labels), (NO_HEAD, "_"), strict=True)
        )
        sentences.append(replace(one, heads=heads, labels=labels))
    wanted = ParseOptions(keep="given", non_projective="given", at_most_one=at_most_one)
    groups = (sentences[start : start + size] for start in range(0, len(sentences), size))
    found = [tree for group in groups for tree in parse(model, group, options=wanted)]
    alone = parse(with_bonus(model, None), sentences, options=wanted)
    assert [tree.heads for tree in found] != [tree.heads for tree in alone]
    for one, tree, before in zip(sentences, found, alone, strict=True):
        assert all(own in (NO_HEAD, head) for own, head in zip(one.heads, tree.heads, strict=True))
        assert all(own in ("_", label) for own, label in zip(one.labels, tree.labels, strict=True))
        assert sum(map(bool, tree.violations)) <= sum(map(bool, before.violations))


def test_long_sentences_have_no_second_opinion(monkeypatch):
    monkeypatch.setattr(runner, "MAX_WORDS", 6)
    tokens = encode_tokens(MODEL.vocabulary, SENTENCES)
    with torch.inference_mode():
        words, _ = MODEL.network.encode_distinct(tokens)
    found = opinions([(MODEL.network, words)], tokens.lengths)
    assert [opinion is None for opinion in found] == [len(sentence) > 6 for sentence in SENTENCES]
    monkeypatch.undo()
    for opinion, other in zip(found, opinions([(MODEL.network, words)], tokens.lengths), strict=True):
        assert opinion is None or np.array_equal(opinion.log_probabilities, other.log_probabilities)


@torch.inference_mode()
def plain_alternatives(sentence, count):
    """The alternatives of each word: head, label and probability."""
    tokens = encode_tokens(MODEL.vocabulary, [sentence])
    words, _ = MODEL.network.encode_distinct(tokens)
    [opinion] = opinions([(MODEL.network, words)], tokens.lengths)
    of_words = []
    for word, logs in enumerate(opinion.log_probabilities.tolist()):
        heads = sorted(range(len(logs)), key=lambda head, logs=logs: -logs[head])
        best = [head for head in heads if head != word + 1][:count]
        labels = (MODEL.vocabulary.labels.string(plain_label(opinion, head, word)) for head in best)
        shares = (torch.tensor(logs[head]).exp().item() for head in best)
        of_words.append(
            [
                (head, label.split(MARK)[0], share)
                for head, label, share in zip(best, labels, shares, strict=True)
            ]
        )
    return of_words


@pytest.mark.parametrize("runner", RUNNERS)
def test_alternatives_are_the_most_probable_heads_with_their_best_labels(runner, monkeypatch):
    run_by(monkeypatch, runner)
    sentences = SENTENCES
    for one, tree in parse_stream(MODEL, sentences, options=ParseOptions(alternatives=3)):
        for best, wanted in zip(tree.alternatives, plain_alternatives(one, 3), strict=True):
            assert [each[:2] for each in best] == [each[:2] for each in wanted]
            assert [each[2] for each in best] == pytest.approx([each[2] for each in wanted], rel=1e-4)
    assert all(not tree.alternatives for _, tree in parse_stream(MODEL, sentences))


def test_a_word_has_no_more_alternatives_than_there_are_others():
    for _, tree in parse_stream(MODEL, SENTENCES, options=ParseOptions(alternatives=1_000)):
        for own in tree.alternatives:
            assert len(own) == len(tree.heads)  # all words except itself, and ROOT
            assert sum(each.probability for each in own) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("number", [1, 50])
def test_a_label_that_is_given_is_that_of_all_alternatives(number):
    """Also in the thread of an engine."""
    options = ParseOptions(keep="given", alternatives=3)
    with EngineThread(Engine(MODEL)) as thread:
        given = replace(SENTENCES[0], heads=(NO_HEAD,) * len(SENTENCES[0]))
        given = replace(given, labels=("_", "conj", *given.labels[2:]))
        requests = [thread.add(given, options) for _ in range(number)]
        for request in requests:
            first, second, *_ = thread.result(request).alternatives
            assert [own.label for own in second] == ["conj"] * 3
            assert any(own.label != "conj" for own in first)


def test_labels_do_not_break_the_column():
    found = ((Alternative(2, "a,b|c%:d", 0.25), Alternative(0, "root", 0.125)), ())
    assert list(as_text(found)) == ["0.2500:2:a%2Cb%7Cc%25:d,0.1250:0:root", ""]


@pytest.mark.extended
def test_programs_and_the_command_have_alternatives(tmp_path):
    MODEL.save(tmp_path / "model", {})
    source = tmp_path / "in.conllu"
    source.write_text("".join(line for one in SENTENCES[:5] for line in one.lines))
    lines = {}
    for processes in ("1", "2"):
        output = tmp_path / f"{processes}.conllu"
        arguments = ["--alternatives", "2", "--processes", processes, "-o", str(output)]
        assert main(["parse", str(tmp_path / "model"), str(source), *arguments]) == 0
        lines[processes] = output.read_text()
    assert lines["1"] == lines["2"]
    found = re.findall(r"Alternatives=(\S+)", lines["1"])
    parser = Parser(MODEL)
    of_words = [each for one in SENTENCES[:5] for each in as_text(parser.alternatives(one.forms, 2))]
    assert [each.split(":")[1] for each in found] == [each.split(":")[1] for each in of_words]
    with pytest.raises(ValueError, match="at least 1"):
        parser.alternatives(["Dogs"], 0)


def test_a_model_without_a_scorer_is_refused(capsys):
    assert main(["parse", "tests/model", "data/quickstart/dev.conllu", "--alternatives", "2"]) == 2
    assert "scorer of arcs" in capsys.readouterr().err
