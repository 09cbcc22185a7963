"""Small networks and models with large random weights, and random sentences with gold trees."""

from dataclasses import replace

import torch
from plain_parser import PlainParser, projective_trees

from parser.batching.ragged import Ragged
from parser.models.column_shares import column_shares
from parser.models.network_model import NetworkModel
from parser.models.settings import ParserSettings
from parser.networks.replay.examples import Examples
from parser.networks.replay.making import made
from parser.networks.settings import (
    ArcSettings,
    ConvolutionSettings,
    NetworkSettings,
    SentenceEncoderSettings,
    TagSettings,
)
from parser.networks.stack_parser import StackParser
from parser.speed.tasks.stack_parser.stepper import score_by_stepping
from parser.transitions.labelled import UNKNOWN_LABEL
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import NO_HEAD
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import Vocabulary

SOME_TREES = [tree for length in (1, 2, 3, 5) for tree in projective_trees(length)[:: length * length]]
COLUMNS = {"form": 9, "upos": 4}
SOME_KNOWN_IN_PART = [
    tuple(head if (number + word) % 3 else NO_HEAD for word, head in enumerate(tree))
    for number, tree in enumerate(SOME_TREES)
]
LABELS = 4  # see `make_inventory`
RICH_COLUMNS = {**COLUMNS, "feats": 5, "characters": 11}
RICH = {
    "tag_sizes": {"upos": 3, "feats": 4},
    "characters": ConvolutionSettings(size=3, filters=2, widths=(1, 2, 5)),
    "sentence_encoder": SentenceEncoderSettings(hidden_size=3, layers=2),
    "word_features": True,
}


def network(
    inventory,
    layers=1,
    dropout=0.0,
    dtype=torch.double,
    device="cpu",
    rich=False,
    predicts_upos=False,
    reads_predicted=False,
    word_features=False,
    arcs=False,
    characters=None,
):
    read = {"form": COLUMNS["form"]} if predicts_upos else COLUMNS
    layers_above_tags = {
        "sentence_encoder": RICH["sentence_encoder"],
        "tags": TagSettings(predict=("upos",), layers_above=1, embedding_size=2),
    }
    plain = {"tag_sizes": dict.fromkeys(read.keys() - {"form"}, 3), "word_features": word_features}
    sizes = {"word_size": 5, "token_size": 6, "hidden_size": 7, "layers": layers, "transition_size": 4}
    parts = (layers_above_tags if reads_predicted else {}) | (RICH if rich else plain)
    if characters:
        parts["characters"] = characters
    if arcs:
        parts["arcs"] = ArcSettings(size=5, loss_weight=0.25)
    composition = inventory.system.composes
    settings = NetworkSettings(**{**sizes, "dropout": dropout, "composition": composition, **parts})
    columns, predicted = (RICH_COLUMNS if rich else read), COLUMNS.items() - read.items()
    parser = StackParser(settings, columns, len(inventory), predicted_sizes=dict(predicted), labels=LABELS)
    parser = parser.to(device, dtype)
    for weight in parser.parameters():  # large weights, so that errors are visible
        if weight.requires_grad:
            torch.nn.init.uniform_(weight, -0.8, 0.8)
    return parser


def gold_of(trees):
    """Heads, and labels that depend on the heads. Unknown heads have unknown labels."""
    heads = Ragged.of([torch.tensor(tree) for tree in trees])
    labels = torch.where(heads.values == 0, 1, 2 + heads.values % 2)
    return heads, Ragged(torch.where(heads.values == NO_HEAD, UNKNOWN_LABEL, labels), heads.lengths)


def examples(inventory, trees, rich=False):
    heads, labels = gold_of(trees)
    words = len(heads.values)
    columns = [torch.randint(size, (words,)) for size in COLUMNS.values()]
    parts = {}
    if rich:  # strings of three to nine characters, and of none to three features
        for name, fewest in (("feats", 0), ("characters", 3)):
            strings = [torch.randint(RICH_COLUMNS[name], (fewest * (1 + n % 3) + n % 4,)) for n in range(12)]
            parts[len(columns)] = Ragged.of(strings)
            columns.append(torch.randint(12, (words,)))
    return Examples.prepare(
        inventory, Tokens(Ragged(torch.stack(columns, 1), heads.lengths), parts), heads, labels
    )


def loss_and_gradients(parser, loss):
    parser.zero_grad()
    loss.backward()
    trained = [weight for weight in parser.parameters() if weight.requires_grad]
    return [loss.detach().cpu(), *(weight.grad.clone().cpu() for weight in trained)]


def assert_equal(results, tolerance=1e-9):
    for ours in results[1:]:
        for our, first in zip(ours, results[0], strict=True):
            torch.testing.assert_close(our, first, rtol=tolerance, atol=tolerance)


def plain_loss(parser, inventory, prepared):
    steps = prepared.trajectories.steps.unflatten()
    rows = torch.arange(len(prepared))
    sentences = [PlainParser(parser, inventory, prepared.tokens.select(row[None])) for row in rows]
    return sum(plain.loss(taken[:, 0].tolist()) for plain, taken in zip(sentences, steps, strict=True))


def padded(prepared, rows, shape):
    """A batch of the sentences `rows`, padded to a shape."""
    return made(prepared, prepared.select(rows, prepared.shape(rows), shape))


def scores_of(score, parser, inventory, batch):
    """[S, transitions] scores. score: a function that takes vectors of words, like `score_by_stepping`."""
    return score(parser, inventory, parser.word_table(batch.tokens), batch)


def stepped(parser, inventory, batch):
    """[S, transitions] scores as by `StackParser.replay`, computed step by step."""
    return scores_of(score_by_stepping, parser, inventory, batch)


SMALL = {
    "word_size": 8,
    "characters": ConvolutionSettings(size=6, filters=6, widths=(2, 3)),
    "token_size": 24,
    "sentence_encoder": SentenceEncoderSettings(hidden_size=8, layers=1),
    "word_features": True,
    "hidden_size": 24,
    "layers": 1,
    "transition_size": 8,
}


def save_reader_of_tags(folder):
    """Save a model that reads UPOS and FEATS, and composes. Returns its folder."""
    return _saved(folder, ["shipped"], tag_sizes={"upos": 6, "feats": 6}, composition=True)


def save_reader_of_treebanks(folder):
    """Save a model that reads UPOS and embeds the treebank, `one` or `two`. Returns its folder."""
    return _saved(folder, ["one", "two"], tag_sizes={"upos": 6}, treebank_size=4)


def _saved(folder, treebanks, **network):
    sentences = read_treebank("data/quickstart/dev.conllu")
    named = [replace(sentence, treebank=name) for name in treebanks for sentence in sentences]
    settings = ParserSettings(network=NetworkSettings(**SMALL, **network))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = NetworkModel.build(
            settings, Vocabulary.build(named, settings.network.columns), torch.device("cpu")
        )
        for weight in model.network.parameters():
            torch.nn.init.normal_(weight, std=0.5)
    shares = column_shares(model.read_lexicons, sentences)
    replace(model, dev_shares=shares).save(folder, {})
    return str(folder)
