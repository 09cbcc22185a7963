"""Models with a pretrained transformer in spaCy's pipelines."""

import json

import pytest
import torch
from small_transformers import make_transformer

from parser.api.parser import load
from parser.config.file import read_config
from parser.training.run import train

spacy = pytest.importorskip("spacy")


def test_a_pipeline_gives_the_trees_of_the_model(config_file, tmp_path):
    own = {"model": str(make_transformer(tmp_path / "pretrained")), "layers": 2}
    changes = [f"parser.network.transformer={json.dumps(own)}", "training.epochs=4"]
    train(read_config(config_file, changes), tmp_path / "run", torch.device("cpu"))
    model = str(tmp_path / "run" / "model")
    nlp = spacy.blank("en")
    nlp.add_pipe("stack_parser", config={"model": model, "device": "cpu"})
    words, tags = ["the", "dogs", "sleep", "."], ["DET", "NOUN", "VERB", "PUNCT"]
    doc = spacy.tokens.Doc(nlp.vocab, words=words, pos=tags, sent_starts=[True, False, False, False])
    [found] = nlp.pipe([doc])
    tree = load(model, "cpu").parse(words, upos=tags)
    heads = [0 if token.head == token else token.head.i + 1 for token in found]
    assert heads == list(tree.heads)
    # The pipeline holds all that the model needs.
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "run" / "model").rename(tmp_path / "elsewhere")
    [again] = spacy.load(tmp_path / "pipeline").pipe([spacy.tokens.Doc(nlp.vocab, words=words, pos=tags)])
    assert [token.head.i for token in again] == [token.head.i for token in found]
