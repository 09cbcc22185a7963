"""Models with large random weights, for what the kept one lacks; their words are the shipped treebank's."""

from dataclasses import replace

import torch

from parser.config.settings import CharacterSettings, NetworkSettings, ParserSettings, SentenceEncoderSettings
from parser.parsing.input_columns import column_shares
from parser.parsing.model import Model
from parser.treebank.conllu import read_treebank
from parser.treebank.vocabulary import Vocabulary

SMALL = {
    "word_size": 8,
    "characters": CharacterSettings(size=6, filters=6, widths=(2, 3)),
    "token_size": 24,
    "sentence_encoder": SentenceEncoderSettings(hidden_size=8, layers=1),
    "word_features": True,
    "hidden_size": 24,
    "layers": 1,
    "transition_size": 8,
}


def save_reader_of_tags(folder):
    """Reads UPOS and FEATS, and composes."""
    return _saved(folder, ["shipped"], tag_sizes={"upos": 6, "feats": 6}, composition=True)


def save_reader_of_treebanks(folder):
    """Has an embedding of the treebank, of which there are `one` and `two`; reads UPOS."""
    return _saved(folder, ["one", "two"], tag_sizes={"upos": 6}, treebank_size=4)


def _saved(folder, treebanks, **network):
    sentences = read_treebank("data/quickstart/dev.conllu")
    named = [replace(sentence, treebank=name) for name in treebanks for sentence in sentences]
    settings = ParserSettings(network=NetworkSettings(**SMALL, **network))
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = Model.build(settings, Vocabulary.build(named, settings.network.columns), torch.device("cpu"))
        for weight in model.network.parameters():
            torch.nn.init.normal_(weight, std=0.5)
    shares = column_shares(model.vocabulary, settings.network.read_columns, sentences)
    replace(model, dev_shares=shares).save(folder, {})
    return str(folder)
