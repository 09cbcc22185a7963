"""Beam search, compared with a plain one and with all sequences of transitions."""

import copy
from dataclasses import replace
from functools import partial

import conllu
import pytest
import torch
from extended import first_of
from hypothesis import given
from hypothesis import strategies as st
from parsing.test_reparsing import model_of
from plain_parser import PlainParser, is_tree
from random_parsers import RUNNERS, model, numbered_sentence, run_by

from parser import load
from parser.cli import main
from parser.models.network_model import NetworkModel
from parser.networks.stack_parser import EncodedSentences
from parser.parsing.engine import Engine, parse
from parser.parsing.options import ParseOptions
from parser.parsing.pytorch.beam_search import WIDTH, search
from parser.parsing.pytorch.runner import opinions
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import deprojectivize
from parser.treebank.sentence import NO_HEAD
from parser.treebank.tokens import encode_tokens

SYSTEMS = ["arc-hybrid", "arc-eager", "arc-standard"]
WAYS = [(system, composition) for system in SYSTEMS for composition in (False, True)]
LENGTHS = [5, 1, 12, 3, 2, 7]
SENTENCES = read_treebank("data/quickstart/dev.conllu")[:40]
SCORING = model_of(1)


class Hypothesis:
    """A hypothesis of one plain parser, or of several with averaged scores and equal transition numbers."""

    def __init__(self, members, one):
        self.parsers = [
            PlainParser(each.network, each.inventory, encode_tokens(each.vocabulary, [one]))
            for each in members
        ]
        self.sum, self.taken, self.labels, self.is_greedy = 0.0, 0, {}, True

    @property
    def is_finished(self):
        return self.parsers[0].configuration.finished()

    @property
    def mean(self):
        return self.sum / self.taken

    def continuations(self):
        """A list of (sort key, function that makes the continuation), in which greedy ones sort first."""
        if self.is_finished:
            return [((not self.is_greedy, -self.mean), lambda: self)]
        scores = sum(parser.scores() for parser in self.parsers) / len(self.parsers)
        best, logs = int(scores.argmax()), scores.log_softmax(0).tolist()
        found = []
        for number, log in enumerate(logs):
            if log > -torch.inf:
                is_greedy = self.is_greedy and number == best
                mean = (self.sum + log) / (self.taken + 1)
                found.append(((not is_greedy, -mean), partial(self._after, number, log, is_greedy)))
        return found

    def _after(self, transition, log, is_greedy):
        found = copy.copy(self)
        found.parsers = []
        for parser in self.parsers:
            own = copy.copy(parser)
            own.vectors, own.states = [*own.vectors], [*own.states]
            own.configuration = copy.deepcopy(own.configuration)
            own.take(transition)
            found.parsers.append(own)
        new = found.parsers[0].configuration.heads.keys() - self.parsers[0].configuration.heads.keys()
        label = int(self.parsers[0].inventory.label[transition])
        found.labels = {**self.labels, **dict.fromkeys(new, label)}
        found.sum, found.taken, found.is_greedy = self.sum + log, self.taken + 1, is_greedy
        return found

    @property
    def tree(self):
        heads = self.parsers[0].configuration.tree()
        return heads, tuple(self.labels[word] for word in range(1, len(heads) + 1))


def plain_beam(members, one, width):
    """The hypotheses that a plain beam search finds. width: None for all sequences of transitions."""
    beam = [Hypothesis(members, one)]
    while not all(each.is_finished for each in beam):
        found = [continuation for each in beam for continuation in each.continuations()]
        beam = [make() for _, make in sorted(found, key=lambda pair: pair[0])[:width]]
    return beam


@torch.no_grad()
def found_by(parser, sentences, width):
    read = []
    for each in parser.members:
        tokens = encode_tokens(each.vocabulary, sentences)
        read.append(EncodedSentences(tokens, each.network.encode_distinct(tokens)[0]))
    found = search(parser.members, read, [None] * len(sentences), width)
    return [[(tuple(arcs.heads), tuple(arcs.labels), arcs.score) for arcs in own] for own in found]


def ensemble_of(system, composition, members):
    first, *others = (model(system, dtype=torch.double, composition=composition) for _ in range(members))
    return replace(first, others=tuple(others))


@pytest.mark.parametrize("way", first_of(WAYS))
@given(seed=st.integers(0, 1000), width=st.integers(1, 6), members=st.integers(1, 2))
@torch.no_grad()
def test_hypotheses_are_those_of_a_plain_beam(way, seed, width, members):
    """Sentences of several lengths are parsed together."""
    torch.manual_seed(seed)
    parser = ensemble_of(*way, members)
    sentences = [numbered_sentence(number, length) for number, length in enumerate((4, 1, 6, 3))]
    for one, found in zip(sentences, found_by(parser, sentences, width), strict=True):
        wanted = [(*each.tree, pytest.approx(each.mean)) for each in plain_beam(parser.members, one, width)]
        assert found == wanted


def best_trees(hypotheses):
    """All distinct trees, each with the score of its best sequence, best ones first."""
    best = {}
    for heads, labels, score in hypotheses:
        best[heads, labels] = max(score, best.get((heads, labels), -torch.inf))
    return sorted(best.items(), key=lambda pair: -pair[1])


@pytest.mark.parametrize("way", first_of(WAYS))
@torch.no_grad()
def test_a_beam_with_room_for_all_finds_the_best_of_all_trees(way):
    torch.manual_seed(7)
    parser = ensemble_of(*way, 1)
    for length in (1, 2, 3):
        one = numbered_sentence(length, length)
        every = plain_beam(parser.members, one, None)
        [found] = found_by(parser, [one], len(every))
        wanted = best_trees([(*each.tree, each.mean) for each in every])
        assert len(wanted) > (0, 1, 4, 60)[length] - 1
        assert best_trees(found) == [(tree, pytest.approx(score)) for tree, score in wanted]


def all_of(tree):
    return [tree, *tree.others]


@pytest.mark.parametrize("runner", first_of([*RUNNERS]))
@pytest.mark.parametrize("way", first_of(WAYS))
def test_trees_are_different_and_ordered_in_any_company(way, runner, monkeypatch):
    """The first tree is the one found with greater width; for a single tree it is the greedy parser's."""
    run_by(monkeypatch, runner)
    torch.manual_seed(5)
    parser = ensemble_of(*way, 1)
    sentences = [numbered_sentence(number, length) for number, length in enumerate(LENGTHS)]
    found = parse(parser, sentences, options=ParseOptions(trees=4))
    for one, tree, greedy in zip(sentences, found, parse(parser, sentences), strict=True):
        trees = all_of(tree)
        assert len({(each.heads, each.labels) for each in trees}) == len(trees) <= 4
        scores = [each.score for each in trees]
        assert scores == sorted(scores, reverse=True)
        hypotheses = plain_beam(parser.members, one, WIDTH * 4)
        wanted = best_trees([(*each.tree, each.mean) for each in hypotheses])[:4]
        named = [
            (heads, tuple(map(parser.vocabulary.labels.string, labels))) for (heads, labels), _ in wanted
        ]
        assert [(each.heads, each.labels) for each in trees] == named
        [alone] = parse(parser, [one], options=ParseOptions(trees=4))
        assert [each[:2] for each in all_of(alone)] == named
        assert parse(parser, [one], options=ParseOptions(trees=1)) == [greedy]
        assert len(one) > 1 or len(trees) == 1


def test_requests_for_one_tree_and_for_several_are_parsed_beside_each_other():
    parser = ensemble_of("arc-hybrid", False, 1)
    run, sentences = Engine(parser), [numbered_sentence(number, 6) for number in range(40)]
    wanted = [ParseOptions(trees=1 + number % 3) for number in range(40)]
    requests = list(map(run.add, sentences, wanted))
    for one, options, request in zip(sentences, wanted, requests, strict=True):
        found, [alone] = all_of(run.result(request)), parse(parser, [one], options=options)
        assert [each[:2] for each in found] == [each[:2] for each in all_of(alone)]
        assert len(found) == options.trees


@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
def test_all_trees_keep_what_is_given(system):
    parser = ensemble_of(system, False, 1)
    for seed in range(5):
        torch.manual_seed(seed)
        heads = [NO_HEAD, 4, NO_HEAD, NO_HEAD, 4]
        given = replace(numbered_sentence(seed, 5), heads=tuple(heads), labels=("_", "_", "obj", "_", "_"))
        free = replace(given, heads=(NO_HEAD,) * 5, labels=("_",) * 5)
        options = ParseOptions(keep="given", at_most_one=("det",), trees=6)
        tree, other = parse(parser, [given, free], options=options)
        assert len(tree.others) == len(other.others) == 5
        for each in all_of(tree):
            assert each.heads[1] == each.heads[4] == 4
            assert each.labels[2] == "obj"
            assert is_tree(each.heads)
        for each in [*all_of(tree), *all_of(other)]:
            limited = [head for head, label in zip(each.heads, each.labels, strict=True) if label == "det"]
            assert len(set(limited)) == len(limited) or each.violations


def test_scorers_of_arcs_have_a_say_in_the_order():
    sentences = SENTENCES[:8]
    found = parse(SCORING, sentences, options=ParseOptions(trees=5))
    tokens = encode_tokens(SCORING.vocabulary, sentences)
    with torch.inference_mode():
        words, _ = SCORING.network.encode_distinct(tokens)
        of_sentences = opinions([(SCORING.network, words)], tokens.lengths)
        read = [EncodedSentences(tokens, words)]
        hypotheses = search(SCORING.members, read, [None] * len(sentences), WIDTH * 5)
    string = SCORING.vocabulary.labels.string
    for tree, opinion, own in zip(found, of_sentences, hypotheses, strict=True):
        named = [(*deprojectivize(arcs.heads, tuple(map(string, arcs.labels))), arcs.score) for arcs in own]
        scores = {}
        for (heads, labels), score in best_trees(named)[:5]:
            of_arcs = [opinion.log_probabilities[word, head] for word, head in enumerate(heads)]
            scores[heads, labels] = score + sum(of_arcs) / len(of_arcs)
        wanted = sorted(scores.values(), reverse=True)
        assert [each.score for each in all_of(tree)] == pytest.approx(wanted, rel=1e-4)
        assert {(each.heads, each.labels) for each in all_of(tree)} == scores.keys()


def test_a_device_finds_the_same(device):
    torch.manual_seed(3)
    parser = ensemble_of("arc-hybrid", False, 1)
    sentences = [numbered_sentence(number, length) for number, length in enumerate(LENGTHS)]
    on_cpu = parse(parser, sentences, options=ParseOptions(trees=3))
    parser.network.to(device)
    moved = NetworkModel(parser.settings, parser.vocabulary, parser.inventory.to(device), parser.network)
    found = parse(moved, sentences, options=ParseOptions(trees=3))
    assert [[each[:2] for each in all_of(tree)] for tree in found] == [
        [each[:2] for each in all_of(tree)] for tree in on_cpu
    ]


@pytest.mark.extended
def test_the_command_writes_a_sentence_for_each_tree(tmp_path):
    source = tmp_path / "in.conllu"
    lines = [line for one in SENTENCES[:6] for line in one.lines]
    source.write_text("# newdoc id = first\n" + "".join(lines))
    written = {}
    for processes in ("1", "2"):
        output = tmp_path / f"{processes}.conllu"
        arguments = ["--trees", "3", "--processes", processes, "-o", str(output)]
        assert main(["parse", "tests/model", str(source), *arguments]) == 0
        written[processes] = output.read_text()
    assert written["1"] == written["2"]
    assert written["1"].count("# newdoc") == 1
    sentences = conllu.parse(written["1"])
    ids = [one.metadata["sent_id"] for one in sentences]
    assert len(set(ids)) == len(ids) > len(SENTENCES[:6])
    assert ids[:2] == [SENTENCES[0].identifier, f"{SENTENCES[0].identifier}-tree-2"]
    read = read_treebank(str(tmp_path / "1.conllu"))
    heads = [[token["head"] for token in one if isinstance(token["id"], int)] for one in sentences]
    assert [list(one.heads) for one in read] == heads
    [best, *others] = load("tests/model").best_trees(SENTENCES[0].forms, 3)
    assert sentences[0].metadata["tree"] == f"1 of {1 + len(others)}"
    assert sentences[0].metadata["tree_score"] == f"{best.score:.6f}"
    assert [one.heads for one in read[: 1 + len(others)]] == [best.heads, *(each.heads for each in others)]
    again = tmp_path / "again.conllu"
    assert main(["parse", "tests/model", str(tmp_path / "1.conllu"), "--trees", "2", "-o", str(again)]) == 0
    assert again.read_text().count("# tree = ") == again.read_text().count("# sent_id = ")


@pytest.mark.parametrize("end", ["\n\n", "\n", ""])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_trees_stay_apart_however_the_file_ends(tmp_path, end, line_end):
    source, output = tmp_path / "in.conllu", tmp_path / "out.conllu"
    comments = "\n\n# newpar id = p\n#sent_id=a b\n# tree = 7 of 9\n"
    words = [f"{word}\tw{word}" + "\t_" * 8 for word in (1, 2, 3)]
    text = comments + "\n".join(words) + end
    source.write_bytes(text.replace("\n", line_end).encode())
    assert main(["parse", "tests/model", str(source), "--trees", "2", "-o", str(output)]) == 0
    written = output.read_bytes().decode()
    assert written.count(line_end) == written.count("\n")
    first, second = read_treebank(str(output))
    assert [line.strip() for line in first.lines[2:6]] == [
        "# newpar id = p",
        "#sent_id=a b",
        "# tree = 1 of 2",
        f"# tree_score = {first.lines[5].split()[-1]}",
    ]
    assert [line.strip() for line in second.lines[:2]] == ["#sent_id=a b-tree-2", "# tree = 2 of 2"]
    assert (first.heads, first.labels) != (second.heads, second.labels)


@pytest.mark.extended
def test_texts_have_several_trees_by_several_processes(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("\n".join(["Dogs bark .", "A cat sleeps ."] * 300))
    written = []
    for processes in ("1", "2"):
        output = tmp_path / f"{processes}.conllu"
        arguments = ["--tokenized", "--trees", "2", "--processes", processes, "-o", str(output)]
        assert main(["parse", "tests/model", str(text), *arguments]) == 0
        written.append(output.read_text())
    assert written[0] == written[1]
    ids = [one.metadata["sent_id"] for one in conllu.parse(written[0])]
    assert ids[:3] == ["1", "1-tree-2", "2"]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("option", [["--probabilities"], ["--alternatives", "2"]])
def test_what_is_of_one_tree_is_refused(option, capsys):
    assert main(["parse", "tests/model", "data/quickstart/dev.conllu", "--trees", "2", *option]) == 2
    assert "of one tree" in capsys.readouterr().err


def test_no_sentence_has_so_many_trees():
    model = load("tests/model")
    with pytest.raises(ValueError, match="1,001 trees of a sentence: it can have from 1 to 1,000"):
        model.best_trees(["Dogs"], 1_001)
    with pytest.raises(ValueError, match="count is 0; it should be a whole number, at least 1"):
        model.best_trees(["Dogs"], 0)


def test_the_best_tree_alone_is_the_first_of_several_with_its_score():
    model = load("tests/model")
    [best] = model.best_trees(SENTENCES[0].forms, 1)
    assert best == model.best_trees(SENTENCES[0].forms, 2)[0]
    assert best.score is not None
