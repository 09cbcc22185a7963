"""Training on trees that are known in part, from their files to a parser."""

import random
import re
import shutil

import pytest
import torch
from extended import first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import is_projective, projective_trees, sentence

from parser.models.network_model import load_network
from parser.training import data
from parser.training.config import read_config
from parser.training.epoch import training_batch
from parser.training.run import new_training, train
from parser.training.trees import TreebankSettings, projective, read_training_trees
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_faults import TreebankError
from parser.treebank.conllu_output import with_tree
from parser.treebank.partial_trees import with_known
from parser.treebank.sentence import NO_HEAD

CPU = torch.device("cpu")
PARTIAL = "treebank.partial=true"


def rows(*arcs):
    """A sentence in CoNLL-U. arcs: HEAD and DEPREL of each word."""
    lines = (f"{n}\tw{n}\tw{n}\tX\tX\t_\t{head}\t{label}\t_\t_\n" for n, (head, label) in enumerate(arcs, 1))
    return "".join(lines) + "\n"


def treebank(tmp_path, *sentences, **settings):
    path = tmp_path / "some-train.conllu"
    path.write_text("".join(rows(*arcs) for arcs in sentences))
    return TreebankSettings(train=str(path), dev="dev", **settings)


def heads_of(settings):
    return [tree.heads for tree in read_training_trees(settings).all]


WHOLE = ((2, "a"), (0, "root"), (2, "b"))
PART = ((2, "a"), ("_", "_"), ("_", "b"))


def test_heads_and_labels_may_be_missing(tmp_path):
    found = read_training_trees(treebank(tmp_path, WHOLE, PART, ((2, "_"), (0, "root")), partial=True))
    assert [tree.heads for tree in found.all] == [(2, 0, 2), (2, NO_HEAD, NO_HEAD), (2, 0)]
    assert [tree.labels for tree in found.all] == [("a", "root", "b"), ("a", "_", "_"), ("_", "root")]
    assert found.crossing == 0


@pytest.mark.parametrize(
    ("arcs", "line", "message"),
    [
        (((2, "a"), ("_", "_")), 6, "HEAD '_' is not the number of a word"),
        (((2, "_"), (0, "root")), 5, "DEPREL is missing"),
    ],
)
def test_without_the_setting_the_message_names_it(tmp_path, arcs, line, message):
    with pytest.raises(TreebankError) as error:
        read_training_trees(treebank(tmp_path, WHOLE, arcs))
    told = str(error.value).splitlines()[0]
    assert f"some-train.conllu:{line}: sentence #2: {message}" in told
    assert "`treebank.partial: true`" in told


@pytest.mark.parametrize(
    ("arcs", "line", "message"),
    [
        (((2, "a"), (1, "a"), ("_", "_")), 5, "the heads of the words 1, 2 form a cycle"),
        (((0, "root"), ("_", "_"), (0, "root")), 7, r"2 words have HEAD 0 \(1, 3\)"),
        (((2, "a"), (2, "a"), ("_", "_")), 6, "word 2 is its own head"),
        (((2, "a"), (3, "a")), 6, "HEAD 3 is beyond the last word, 2"),
        (((2, "a"), (3, "a"), (1, "a")), 5, "no word has HEAD 0"),
    ],
)
def test_what_no_tree_can_have_is_a_fault(tmp_path, arcs, line, message):
    settings = treebank(tmp_path, PART, arcs, partial=True)
    with pytest.raises(TreebankError, match=rf"some-train.conllu:{line}: sentence #2: {message}"):
        read_training_trees(settings)


def test_several_roots_may_be_attached_to_the_first(tmp_path):
    arcs = (("_", "_"), (0, "root"), (0, "root"))
    [tree] = read_training_trees(treebank(tmp_path, arcs, partial=True, roots="attach-to-first")).all
    assert (tree.heads, tree.labels) == ((NO_HEAD, 0, 2), ("_", "root", "dep"))


CROSSING = ((3, "a"), (4, "b"), ("_", "_"), (0, "root"))


def test_known_arcs_that_cross_become_unknown_or_their_tree_is_left_out(tmp_path):
    lifted = treebank(tmp_path, CROSSING, PART, WHOLE, partial=True)
    assert heads_of(lifted) == [(3, NO_HEAD, NO_HEAD, 0), (2, NO_HEAD, NO_HEAD), (2, 0, 2)]
    assert read_training_trees(lifted).crossing == 1
    dropped = treebank(tmp_path, CROSSING, PART, WHOLE, partial=True, non_projective="drop")
    assert heads_of(dropped) == heads_of(lifted)[1:]


@given(st.sampled_from(projective_trees(5)), st.permutations(range(5)), st.integers(1, 5))
def test_of_any_tree_that_is_known_in_part_a_projective_tree_has_what_is_left(tree, order, unknown):
    """Even if words are permuted, which makes the tree non-projective."""
    heads = [0] * 5
    for word, head in enumerate(tree):
        heads[order[word]] = order[head - 1] + 1 if head else 0
    known = [word >= unknown for word in range(5)]
    [found] = projective([with_known(sentence(heads), known)], lifts=True)
    assert [head == NO_HEAD for head in found.heads][:unknown] == [True] * unknown
    assert any(
        all(head in (NO_HEAD, other) for head, other in zip(found.heads, its, strict=True))
        for its in projective_trees(5)
    )
    if is_projective(heads):
        assert found.heads == tuple(h if k else NO_HEAD for h, k in zip(heads, known, strict=True))


def without_arcs(path, share, seed=1):
    """Remove the heads and labels of some words in a file. Returns the share of words that keep them."""
    draw, lines, words, left = random.Random(seed), [], 0, 0
    for own in read_treebank(str(path)):
        known = with_known(own, [draw.random() >= share for _ in own.forms])
        words += len(own)
        left += len(own) - known.heads.count(NO_HEAD)
        lines += with_tree(own, known.heads, known.labels)
    path.write_text("".join(lines))
    return left / words


def test_dev_sets_must_be_complete(config_file, tmp_path):
    without_arcs(tmp_path / "tiny.conllu", 0.5)
    with pytest.raises(TreebankError, match=r"HEAD '_' is not the number .*only files to train on"):
        data.load(read_config(config_file, [PARTIAL]), CPU)


@pytest.mark.parametrize(("kept", "where"), [("root", "between two words"), ("nsubj", "from ROOT")])
def test_labels_of_both_kinds_of_arcs_must_be_known(config_file, tmp_path, kept, where):
    train_file = tmp_path / "part.conllu"
    text = (tmp_path / "tiny.conllu").read_text()
    train_file.write_text(re.sub(rf"\t\d\t(?!{kept}\t)\w+\t_\t_$", "\t_\t_\t_\t_", text, flags=re.MULTILINE))
    config = read_config(config_file, [PARTIAL, f"treebank.train={train_file}"])
    with pytest.raises(ValueError, match=f"part.conllu: no arc {where} with a label to learn from"):
        data.load(config, CPU)


def weights(config, run):
    train(config, run, CPU)
    return load_network(run / "model", CPU).network.state_dict()


@pytest.mark.parametrize(
    "changes", first_of([[], ["training.exploration={from_epoch: 1}"]]), ids=["gold", "explored"]
)
def test_complete_trees_are_learnt_as_without_the_setting(config_file, tmp_path, changes):
    configs = [
        read_config(config_file, [*changes, "training.epochs=2", "parser.network.arcs={}", *more])
        for more in ([], [PARTIAL])
    ]
    one, other = (weights(config, tmp_path / str(place)) for place, config in enumerate(configs))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_complete_trees_of_a_batch_keep_their_trajectories(config_file, tmp_path):
    train_file = tmp_path / "part.conllu"
    train_file.write_text((tmp_path / "tiny.conllu").read_text().replace("\t0\troot\t", "\t_\t_\t", 8))
    config = read_config(config_file, [PARTIAL, f"treebank.train={train_file}"])
    model, loaded = data.load(config, CPU)
    step = new_training(model, loaded, config).step
    rows = torch.tensor([12, 3, 0, 9, 7])
    batch, gold = training_batch(step, loaded, rows), loaded.train.batch(rows, 64)
    is_complete = (batch.heads.view(-1, 3) != NO_HEAD).all(1)
    assert is_complete.tolist() == [True, False, False, True, False]
    for found, expected in ((batch.optimal_labels, gold.optimal_labels), (batch.legal, gold.legal)):
        assert torch.equal(found.view(5, -1)[is_complete], expected.view(5, -1)[is_complete])
    of_complete = batch.transitions.view(5, -1)[is_complete]
    assert torch.equal(of_complete, gold.transitions.view(5, -1)[is_complete])
    # The parser takes transitions with labels, which are unknown in fixed trajectories.
    assert model.inventory.known[batch.transitions].all()
    assert not model.inventory.known[gold.transitions].all()


SMALL = "word_size: 24, tag_sizes: {upos: 8}, token_size: 32, word_features: true, hidden_size: 32, layers: 1"
GUESS = 31.3
"""The LAS on dev of a parser that guesses by tags, see docs/treebanks.md."""


@pytest.mark.extended
@pytest.mark.parametrize("exploration", first_of(["null", "{from_epoch: 3, probability: 1}"]))
def test_a_parser_learns_from_half_of_the_arcs(config_file, tmp_path, exploration):
    train_file = tmp_path / "part.conllu"
    shutil.copy("data/quickstart/train.conllu", train_file)
    assert 0.45 < without_arcs(train_file, 0.5) < 0.55
    changes = [
        f"treebank={{train: {train_file}, dev: data/quickstart/dev.conllu, partial: true}}",
        "treebank.train_sentences=300",
        f"parser.network={{{SMALL}, sentence_encoder: {{hidden_size: 24, layers: 1}}, arcs: {{}}}}",
        "training={epochs: 5, batch_size: 8, learning_rate: {start: 1e-2, peak: 1e-2, warmup_epochs: 0}}",
        f"training.exploration={exploration}",
    ]
    assert train(read_config(config_file, changes), tmp_path / "run", CPU).las > 2 * GUESS
