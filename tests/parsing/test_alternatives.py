"""The most probable heads of words, compared with a plain version."""

import re
from dataclasses import replace

import pytest
import torch
from parsing.test_reparsing import model_of

from parser.api.parser import Parser
from parser.cli import main
from parser.parsing.engine import FEW, Engine, parse_stream
from parser.parsing.engine_thread import EngineThread
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import Alternative
from parser.parsing.reparsing import Reparser, as_text
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import MARK, NO_HEAD

SENTENCES = read_treebank("data/quickstart/dev.conllu")[:40]
MODEL = model_of(1)


@torch.inference_mode()
def plain(sentence, count):
    """The alternatives of each word: head, label and probability."""
    tokens = MODEL.vocabulary.encode_tokens([sentence])
    words, _ = MODEL.network.encode_distinct(tokens)
    [opinion] = Reparser.of(MODEL).opinions(tokens.lengths, [words])
    scorer, vocabulary = MODEL.network.labels, MODEL.vocabulary
    *vectors, root, _ = opinion.table
    found = []
    for word, logs in enumerate(opinion.log_probabilities.tolist()):
        heads = sorted(range(len(logs)), key=lambda head, logs=logs: -logs[head])
        own = []
        for head in [each for each in heads if each != word + 1][:count]:
            hidden = scorer.head(vectors[head - 1] if head else root) + scorer.dependent(vectors[word])
            scores = scorer.labels(hidden.relu()).tolist()
            possible = vocabulary.word_labels if head else vocabulary.root_labels
            label = vocabulary.labels.string(max(possible, key=lambda each, scores=scores: scores[each]))
            own.append((head, label.split(MARK)[0], torch.tensor(logs[head]).exp().item()))
        found.append(own)
    return found


@pytest.mark.parametrize("sentences", [SENTENCES[: FEW // 4], SENTENCES], ids=["alone", "batch"])
def test_they_are_the_most_probable_heads_with_their_best_labels(sentences):
    for sentence, tree in parse_stream(MODEL, sentences, options=ParseOptions(alternatives=3)):
        for own, wanted in zip(tree.alternatives, plain(sentence, 3), strict=True):
            assert [each[:2] for each in own] == [each[:2] for each in wanted]
            assert [each[2] for each in own] == pytest.approx([each[2] for each in wanted], rel=1e-4)
    assert all(not tree.alternatives for _, tree in parse_stream(MODEL, sentences))


def test_a_word_has_no_more_than_there_are_others():
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
def test_programs_and_the_command_have_them(tmp_path):
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
