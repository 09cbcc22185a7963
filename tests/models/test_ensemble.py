"""Several models parse like a plain parser that averages their scores."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from extended import first_of
from plain_parser import PlainParser, PlainProbabilities, sentence

import parser
from parser.cli import main
from parser.models.loading import ModelChoice, load_models
from parser.models.network_model import NetworkModel, as_network, load_network
from parser.models.settings import ParserSettings
from parser.networks.settings import NetworkSettings
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.transitions import SYSTEMS
from parser.treebank.lemma_rules import lemma_rule
from parser.treebank.tokens import encode_tokens
from parser.treebank.vocabulary import Lexicon, Vocabulary

CPU = torch.device("cpu")
TOKENIZER = Path("tests/text/tokenizer.json")
TREES = [
    sentence((2, 0, 2, 3), labels=["det", "root", "obj", "det"]),
    sentence((0, 1), labels=["root", "punct"]),
]
OTHER_TREES = [
    sentence((0, 1, 1, 1), labels=["root", "punct", "punct", "punct"], forms=["other"] * 4),
    *TREES,
]
"""Trees with more words, and with the labels in another order."""


def saved(folder, trees=TREES, system="arc-hybrid", columns=("form", "upos"), **options):
    """A model with large random weights."""
    sizes = {name: 3 for name in columns if name != "form"}
    network = {"word_size": 5, "tag_sizes": sizes, "token_size": 6, "hidden_size": 7, "transition_size": 4}
    settings = ParserSettings(system=system, network=NetworkSettings(**network, **options))
    model = NetworkModel.build(settings, Vocabulary.build(trees, columns), CPU)
    for weight in model.network.parameters():
        torch.nn.init.normal_(weight, std=0.8)
    model.save(folder, {})
    return folder


def three(tmp_path, system="arc-hybrid"):
    """Models that read different columns, have different networks, and number labels differently."""
    torch.manual_seed(1)
    return [
        saved(tmp_path / "one", system=system, layers=2),
        saved(tmp_path / "two", OTHER_TREES, system, ("form",), composition=True, layers=1),
        saved(tmp_path / "three", OTHER_TREES, system, word_features=True),
    ]


def named(member, number):
    """The kind and the label of a transition."""
    label = member.vocabulary.labels.string(int(member.inventory.label[number]))
    return int(member.inventory.kind[number]), label


def plain_trees(models, one):
    """Heads, labels and probabilities from the mean of the scores of plain parsers."""
    plain = [
        PlainParser(member.network, member.inventory, encode_tokens(member.vocabulary, [one]))
        for member in models
    ]
    labels, found = {}, PlainProbabilities(len(one))
    while not plain[0].configuration.finished():
        scores = [
            {named(member, number): float(score) for number, score in enumerate(own.scores())}
            for member, own in zip(models, plain, strict=True)
        ]
        means = {name: sum(own[name] for own in scores) / len(scores) for name in scores[0]}
        best = max(means, key=means.get)
        values = torch.tensor(list(means.values()), dtype=torch.double).softmax(0).tolist()
        probabilities = dict(zip(means, values, strict=True))
        names, of_kinds = [kind.name for kind in plain[0].inventory.system.transitions], Counter()
        for (kind, _), probability in probabilities.items():
            of_kinds[names[kind]] += probability
        found.add(plain[0].configuration, of_kinds, names[best[0]], probabilities[best])
        before = set(plain[0].configuration.heads)
        for member, own in zip(models, plain, strict=True):
            own.take(next(number for number in range(len(member.inventory)) if named(member, number) == best))
        for dependent in plain[0].configuration.heads.keys() - before:
            labels[dependent] = best[1]
    heads = plain[0].configuration.tree()
    words = range(1, len(heads) + 1)
    return heads, tuple(labels[word] for word in words), [found.of_arcs[word] for word in words]


@pytest.mark.parametrize("system", first_of(SYSTEMS))
@torch.no_grad()
def test_scores_are_averaged_at_every_transition(tmp_path, system):
    paths = three(tmp_path, system)
    ensemble = as_network(load_models(ModelChoice(tuple(paths))))
    members = [load_network(path, CPU) for path in paths]
    for member in (ensemble, *ensemble.others, *members):
        member.network.double()
    sentences = [sentence((0, *range(1, length))) for length in (5, 1, 17, 3, 9)]
    found = parse(ensemble, sentences, batch_size=2, options=ParseOptions(probabilities=True))
    for one, tree in zip(sentences, found, strict=True):
        heads, labels, probabilities = plain_trees(members, one)
        assert (tree.heads, tree.labels) == (heads, labels)
        assert tree.probabilities == pytest.approx(probabilities, rel=1e-5)


def test_equal_models_parse_as_one(tmp_path):
    path = saved(tmp_path / "one")
    sentences = [sentence((0, *range(1, length))) for length in (5, 1, 17)]
    assert parse(load_models(ModelChoice((path,) * 3)), sentences) == parse(
        load_network(path, CPU), sentences
    )


def predicting(column, values, **options):
    """A model with random weights that predicts a column."""
    network = {"word_size": 5, "token_size": 6, "hidden_size": 7, "transition_size": 4, "tag_sizes": {}}
    settings = ParserSettings(network=NetworkSettings(**network, tags={"predict": [column]}, **options))
    vocabulary = replace(Vocabulary.build(TREES, ("form",)), predicted={column: Lexicon(values)})
    model = NetworkModel.build(settings, vocabulary, CPU)
    for weight in model.network.parameters():
        torch.nn.init.normal_(weight, std=2.0)
    torch.nn.init.zeros_(model.network.tags[column].bias)
    model.network.eval()
    return model


def certain(column, probabilities):
    """A model that gives the values of a column these probabilities, whatever the word is."""
    model = predicting(column, probabilities)
    classifier = model.network.tags[column]
    torch.nn.init.zeros_(classifier.weight)
    of_unknown = 9.0  # the unknown value is never predicted
    with torch.no_grad():
        classifier.bias.copy_(torch.tensor([of_unknown, *probabilities.values()]).log())
    return model


def together(models):
    return replace(models[0], others=tuple(models[1:]))


WORDS = [sentence((0, *range(1, length))) for length in (3, 1, 6)]


@pytest.mark.parametrize("column", ["upos", "xpos", "feats"])
def test_tags_have_the_highest_mean_of_probabilities(column):
    with_x = lemma_rule("word", "wordx")
    first, *others = [
        certain(column, {"A": 0.5, "B": 0.4, "C": 0.1}),
        certain(column, {"D": 0.4, "B": 0.6}),
        certain("lemma", {with_x: 1.0}),
    ]
    for one, tree in zip(WORDS, parse(first, WORDS), strict=True):
        assert tree.tags == {column: ("A",) * len(one)}
    ensemble = together([first, *others])
    assert ensemble.predicted_columns == [column, "lemma"]
    for one, tree in zip(WORDS, parse(ensemble, WORDS), strict=True):
        assert tree.tags == {column: ("B",) * len(one), "lemma": tuple(f"{form}x" for form in one.forms)}


def test_lemmas_are_made_by_the_rule_with_the_highest_mean_of_probabilities():
    rules = {ending: lemma_rule("word", f"word{ending}") for ending in "abc"}
    members = [{"a": 0.5, "b": 0.4, "c": 0.1}, {"c": 0.0, "b": 0.1, "a": 0.9}, {"b": 1.0}]
    models = [certain("lemma", {rules[ending]: own[ending] for ending in own}) for own in members]
    for count, ending in [(1, "a"), (2, "a"), (3, "b")]:
        for one, tree in zip(WORDS, parse(together(models[:count]), WORDS), strict=True):
            assert tree.tags["lemma"] == tuple(f"{form}{ending}" for form in one.forms)


@pytest.mark.parametrize("encoder", [None, {"hidden_size": 4, "layers": 1}])
@torch.no_grad()
def test_each_word_has_its_own_tag(encoder):
    torch.manual_seed(9)
    orders = ["NOUN", "VERB", "ADP"], ["ADP", "NOUN", "VERB"]
    models = [predicting("upos", order, sentence_encoder=encoder) for order in orders]
    found = [tree.tags["upos"] for tree in parse(together(models), WORDS)]
    for one, tags in zip(WORDS, found, strict=True):
        sums = torch.zeros(len(one), 3)
        for model, order in zip(models, orders, strict=True):
            [scores] = model.network.encode(encode_tokens(model.vocabulary, [one])).tag_scores
            sums += scores[:, 1:].softmax(1)[:, [order.index(value) for value in orders[0]]]
        assert tags == tuple(orders[0][best] for best in sums.argmax(1).tolist())
    assert len({value for tags in found for value in tags}) > 1


def test_models_that_do_not_fit_together_are_refused(tmp_path):
    first = saved(tmp_path / "one")
    with pytest.raises(ValueError, match=r"eager: cannot parse together with .*one: its transition system"):
        load_models(ModelChoice((first, saved(tmp_path / "eager", system="arc-eager"))))
    more = [*TREES, sentence((0, 1), labels=["root", "vocative"])]
    with pytest.raises(
        ValueError,
        match=r"only one of them has the transitions vocative \(Left-Arc\), vocative \(Right-Arc\)$",
    ):
        load_models(ModelChoice((first, saved(tmp_path / "two", more))))
    with pytest.raises(ValueError, match="nowhere: there is no such file or folder"):
        load_models(ModelChoice((first, tmp_path / "nowhere")))


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "gold.conllu"
    lines = ["1\tword0\t_\tNOUN\t_\t_\t2\tdet\t_\t_", "2\tword1\t_\tVERB\t_\t_\t0\troot\t_\t_"]
    path.write_text(("\n".join(lines) + "\n\n") * 30 + "\n".join(lines[1:]).replace("2\tw", "1\tw") + "\n\n")
    return path


@pytest.mark.extended
def test_commands_and_programs_take_several_models(tmp_path, treebank, capsys):
    first, *others = map(str, three(tmp_path))
    package, outputs, scores = str(tmp_path / "all.stackparser"), [], []
    ensemble = [argument for other in others for argument in ("--ensemble", other)]
    assert main(["pack", first, *ensemble, "-o", package]) == 0
    packed_again = str(tmp_path / "again.stackparser")
    assert main(["pack", package, "--ensemble", first, "-o", packed_again]) == 0
    assert main(["pack", first, *ensemble]) == 2
    assert (
        "a package of several models, or of another package, needs a name: -o FILE" in capsys.readouterr().err
    )
    for models in ([first, *ensemble], [package]):
        for more in ([], ["--processes", "2", "--device", "cpu"]):
            out = tmp_path / "parsed.conllu"
            assert main(["parse", *models, str(treebank), "-o", str(out), *more]) == 0
            outputs.append(out.read_text())
            assert main(["evaluate", *models, str(treebank), "--json", *more]) == 0
            scores.append(json.loads(capsys.readouterr().out))
    assert all(output == outputs[0] for output in outputs)
    assert all(score == scores[0] for score in scores)
    alone = tmp_path / "alone.conllu"
    assert main(["parse", first, str(treebank), "-o", str(alone)]) == 0
    assert alone.read_text() != outputs[0]
    words = {"words": ["word0", "word1"], "upos": ["NOUN", "VERB"]}
    trees = [
        next(parser.load(path, device="cpu").parse_all([words])) for path in ([first, *others], Path(package))
    ]
    assert trees[0] == trees[1]
    assert trees[0].to_conllu().split("\t")[6:8] == outputs[0].split("\t")[6:8]
    with pytest.raises(ValueError, match="an empty list names none"):
        parser.load([])


def test_a_package_of_several_models_has_the_tokenizer_of_the_first(tmp_path, capsys):
    first, *others = three(tmp_path)
    shutil.copy(TOKENIZER, first / "tokenizer.json")
    package, text = str(tmp_path / "all.stackparser"), tmp_path / "text.txt"
    text.write_text("The cat sleeps.\n")
    assert main(["pack", str(first), "--ensemble", str(others[0]), "-o", package]) == 0
    for models in ([package], [str(first), "--ensemble", str(others[0])]):
        out = tmp_path / "trees.conllu"
        assert main(["parse", *models, str(text), "--text", "-o", str(out)]) == 0
        assert "# text = The cat sleeps." in out.read_text()
    with pytest.raises(ValueError, match="holds several models, where one is needed"):
        load_network(Path(package), CPU)


@pytest.mark.extended
def test_each_model_reads_its_own_columns_in_spacy(tmp_path):
    spacy, tokens = pytest.importorskip("spacy"), pytest.importorskip("spacy.tokens")
    torch.manual_seed(1)
    paths = [saved(tmp_path / "forms", columns=("form",)), saved(tmp_path / "tags")]
    package = tmp_path / "both.stackparser"
    assert main(["pack", str(paths[0]), "--ensemble", str(paths[1]), "-o", str(package)]) == 0
    nlp, both = spacy.blank("en"), parser.load(package, device="cpu")
    component = nlp.add_pipe("stack_parser", config={"model": str(package), "device": "cpu"})
    forms, trees = [f"word{number}" for number in range(4)], set()
    for tags in product(("NOUN", "VERB", "ADP"), repeat=4):
        doc = component(tokens.Doc(nlp.vocab, words=forms, pos=list(tags)))
        heads = tuple(0 if token.head == token else token.head.i + 1 for token in doc)
        assert heads == both.parse(forms, upos=tags).heads
        trees.add(heads)
    assert len(trees) > 1  # the tags matter


def test_columns_that_any_model_reads_are_watched(tmp_path):
    forms, tags = saved(tmp_path / "forms", columns=("form",)), saved(tmp_path / "tags")
    model, found = load_models(ModelChoice((forms, tags))), []
    untagged = [replace(one, upos=("_",) * len(one)) for one in TREES * 50]
    assert list(model.watch().check(untagged, found.append)) == untagged
    assert [message.partition(" is ")[0] for message in found] == ["UPOS"]
