"""Training that starts from a model."""

import pytest
import torch
from extended import first_of
from safetensors.torch import load_file
from stopped_runs import left_behind

from parser.models.model import numbers_in
from parser.models.network_model import load_network
from parser.networks.replay.examples import Examples
from parser.networks.stack_parser import StackParser
from parser.training import data
from parser.training.config import read_config
from parser.training.initial_model import OF_CHARACTERS
from parser.training.run import train
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")
NETWORK = [
    "parser.network.tag_sizes={upos: 4, feats: 3}",
    "parser.network.composition=true",
    "parser.network.characters={size: 4, filters: 4}",
    "parser.network.sentence_encoder={hidden_size: 8, layers: 1}",
    "parser.network.dropout=0.3",
    "parser.network.arcs={size: 6}",
]
TAGS = [
    "parser.network.tags={predict: [xpos, lemma], layers_above: 1}",
    "parser.network.characters={kind: lstm, size: 4, hidden_size: 3}",
]
OTHER = """1\tHühner\tHuhn\tNOUN\tNN\tCase=Nom\t2\tnsubj\t_\t_
2\tsleep\tsleep\tVERB\tVBP\tMood=Ind\t0\troot\t_\t_
3\tWürmer\tWurm\tNOUN\tNN\tCase=Acc\t2\tobj\t_\t_
4\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

"""


@pytest.fixture(params=first_of([[], TAGS]), ids=["gold tags", "predicted tags"])
def network(request):
    return [*NETWORK, *request.param]


@pytest.fixture
def model(config_file, tmp_path, network):
    """The folder of a trained model."""
    train(read_config(config_file, [*network, "training.epochs=3"]), tmp_path / "first", CPU)
    return tmp_path / "first" / "model"


@pytest.fixture
def changes(model, tmp_path, network):
    """Changes of the config for training on another treebank, starting from that model."""
    other = tmp_path / "other.conllu"
    other.write_text(OTHER * 8)
    return [
        *network,
        f"initial_model={model}",
        f"treebank.train={other}",
        f"treebank.dev={other}",
        "treebank.test=null",
        "training.epochs=4",
    ]


def scores_of(model, path):
    """[S, transitions] scores in all states of the oracle's trajectories."""
    trees = read_treebank(path)
    examples = Examples.of(model.inventory.to(CPU), model.vocabulary, trees)
    model.network.eval().double()
    with torch.no_grad():
        return model.network.replay(examples.batch(torch.arange(len(trees))))


def test_what_a_model_knows_it_still_knows(config_file, tmp_path, model, changes):
    source = load_network(model, CPU)
    target, loaded = data.load(read_config(config_file, changes), CPU)
    for name, lexicon in source.vocabulary.columns.items():
        assert target.vocabulary.columns[name].strings[: len(lexicon) - 1] == lexicon.strings
    assert target.vocabulary.columns["form"].number("Würmer")
    assert target.vocabulary.columns["characters"].number("ü")
    assert target.vocabulary.labels.number("obj")
    assert len(loaded.train) == 8
    if target.vocabulary.predicted:  # new values take part of the probabilities that are read
        new = target.vocabulary.predicted["xpos"].strings
        assert new == (*source.vocabulary.predicted["xpos"].strings, "NN")
        for name in ("tags.xpos.weight", "layers_above_tags.embeddings.xpos.weight"):
            old = source.network.state_dict()[name]
            assert torch.equal(target.network.state_dict()[name][tuple(map(slice, old.shape))], old)
        return
    path = str(tmp_path / "tiny.conllu")
    ours, theirs = scores_of(target, path), scores_of(source, path)
    torch.testing.assert_close(ours[:, numbers_in(target, source)[:-1]], theirs, rtol=1e-9, atol=1e-9)
    assert ours.shape[1] > theirs.shape[1]


@pytest.mark.extended
def test_frozen_weights_stay(config_file, tmp_path, model, changes):
    frozen = ["training.frozen=[tokens.embeddings, stack, from_stack.bias]", "training.average=0.5"]
    train(read_config(config_file, [*changes, *frozen]), tmp_path / "second", CPU)
    before, after = (
        load_file(path / "weights.safetensors") for path in (model, tmp_path / "second" / "model")
    )
    for name, weight in before.items():
        kept = after[name][tuple(map(slice, weight.shape))]
        if name.startswith(("tokens.embeddings.", "stack.")) or name == "from_stack.bias":
            if name == OF_CHARACTERS:  # the padding character stays the last one
                kept = torch.cat([kept[:-1], after[name][-1:]])
            assert torch.equal(kept, weight), name
        elif name in ("from_stack.weight", "buffer.weight_hh_l0", "tokens.join.weight"):
            assert not torch.equal(kept, weight), name


@pytest.mark.extended
def test_fine_tuning_is_resumed_to_the_bit(tmp_path, model, changes, monkeypatch, trained):
    class KillError(BaseException):
        pass

    calls, replay = [], StackParser.replay_words

    def replay_or_die(network, table, batch):
        calls.append(network.training)
        if sum(calls) == 5:
            raise KillError
        return replay(network, table, batch)

    changes = [each for each in changes if not each.startswith("initial_model")]
    changes += [f"--from={model}", "device=cpu"]
    trained(*changes, run="whole")
    with monkeypatch.context() as patch:
        patch.setattr(StackParser, "replay_words", replay_or_die)
        with pytest.raises(KillError):
            trained(*changes, run="killed")
    trained(*changes, "--resume", run="killed")
    assert left_behind(tmp_path / "killed") == left_behind(tmp_path / "whole")


@pytest.mark.extended
def test_a_model_is_not_replaced_by_the_run_that_begins_with_it(model, changes, refused):
    assert f"first: would overwrite {model}, which is read" in refused(*changes, run="first")
    assert load_network(model, CPU)


NOT_FITTING = {
    "parser.network.hidden_size=20": "parser.network.hidden_size is 20 in the config, 16 in the model",
    "parser.system=arc-eager": "parser.system is arc-eager in the config, arc-hybrid in the model",
    "parser.network.tag_sizes={upos: 4}": "tag_sizes.feats is not there in the config, 3 in the model",
    "training.frozen=[stacks]": "training.frozen: no weight's name begins with stacks",
    "parser.network.tag_sizes={feats: 3, upos: 4}": "have another order than in the model",
    "parser.network.pretrained=vectors.txt": "the model has no pretrained vectors",
    "initial_model=nowhere": "nowhere: there is no such file or folder",
}


def test_what_does_not_fit_is_refused(changes, refused):
    for change, message in NOT_FITTING.items():
        assert message in refused(*changes, change)


@pytest.mark.extended
def test_pretrained_vectors_are_those_of_the_model(config_file, tmp_path, changes, network):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("dogs 1 2\nsleep 3 4\n")
    pretrained = f"parser.network.pretrained={vectors}"
    train(read_config(config_file, [*network, pretrained, "training.epochs=1"]), tmp_path / "first", CPU)
    vectors.unlink()
    fine_tuned, _ = data.load(read_config(config_file, changes), CPU)
    assert fine_tuned.vocabulary.columns["pretrained"].strings == ("dogs", "sleep")
    [weight] = fine_tuned.network.tokens.pretrained_weights()
    assert weight[1:].tolist() == [[1, 2], [3, 4]]
