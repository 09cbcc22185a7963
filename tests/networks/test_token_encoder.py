import torch

from parser.config import NetworkSettings
from parser.networks.token_encoder import TokenEncoder
from parser.treebank.ragged import Ragged
from parser.treebank.tokens import Tokens
from parser.treebank.vocabulary import PRETRAINED


def tokens(rows):
    """Of one sentence."""
    return Tokens(Ragged(torch.tensor(rows), torch.tensor([len(rows)])))


def test_pretrained_vectors_are_kept_and_not_trained():
    vectors = torch.randn(3, 5)
    encoder = TokenEncoder(NetworkSettings(), {"form": 7, "upos": 4, PRETRAINED: 4}, vectors)
    embedding = encoder.embeddings[PRETRAINED]
    assert not embedding.weight.requires_grad
    assert torch.equal(embedding.weight[1:], vectors)
    assert not embedding.weight[0].any()
    encoder(tokens([[1, 2, 3]])).sum().backward()
    assert embedding.weight.grad is None


def test_root_and_end_come_after_the_words():
    encoder = TokenEncoder(NetworkSettings(token_size=9), {"form": 7, "upos": 4})
    table = encoder(tokens([[1, 2], [3, 1], [0, 0]]))
    assert table.shape == (5, 9)
    assert torch.equal(table[3], encoder.root)
    assert torch.equal(table[4], encoder.end)
