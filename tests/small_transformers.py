"""Small transformers with random weights. Their tokenizers are like those of BERT, RoBERTa (bytes) and XLM-R
(sentencepiece)."""

import json
from itertools import chain

import pytest
import torch

from parser.batching.ragged import Ragged
from parser.treebank.tokens import Tokens

transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
pytest.importorskip("peft")
models, normalizers, pre_tokenizers = tokenizers.models, tokenizers.normalizers, tokenizers.pre_tokenizers
decoders, processors, trainers = tokenizers.decoders, tokenizers.processors, tokenizers.trainers

SPECIAL = {
    "bert": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "roberta": ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
    "xlm-roberta": ("<pad>", "<unk>", "<s>", "</s>", "<mask>"),
}
KINDS = list(SPECIAL)
CONFIGS = {
    **dict.fromkeys(("bert", "albert", "deberta-v2", "distilbert", "electra", "modernbert"), "bert"),
    **dict.fromkeys(("roberta",), "roberta"),
    **dict.fromkeys(("xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet"), "xlm-roberta"),
}
"""The kinds of transformers, and the tokenizer that each gets here."""
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "initializer_range": 0.5,  # large weights, so that errors are visible
}
VARIANTS = {
    "bert": {},
    "xlm-roberta": {},
    "roberta": {"hidden_act": "relu"},
    "camembert": {"hidden_act": "gelu_new"},
    "electra": {"embedding_size": 6},
    "electra-as-wide": {"embedding_size": 8},
    "distilbert": {"hidden_dim": 12},
    "mpnet": {},
    "albert": {"embedding_size": 6, "num_hidden_groups": 2, "inner_group_num": 2},
    "xlm-roberta-xl": {},
    "modernbert": {"local_attention": 6},
    "modernbert-with-biases": {
        **dict.fromkeys(("norm_bias", "mlp_bias", "attention_bias"), True),
        "hidden_activation": "silu",
    },
    "deberta-v2": {
        **{"relative_attention": True, "pos_att_type": "p2c|c2p", "position_buckets": 8},
        **{"norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False},
    },
    "deberta-v2-without-distances": {"type_vocab_size": 2, "embedding_size": 6},
    "deberta-v2-by-queries": {"relative_attention": True, "pos_att_type": ["p2c"]},
    "deberta-v2-by-keys": {"relative_attention": True, "pos_att_type": ["c2p"], "position_buckets": 6},
}
"""What each kind of transformer, or a variant of it, has besides `SIZES`."""
TEXT = ["the cat sat on the mat", "Don't wake the cats!", "unbelievable sleepers sleep", "12 000 naïve cafés"]
POSITIONS = 40


def make_transformer(folder, kind="bert", positions=POSITIONS, text=TEXT, **sizes):
    """Write a transformer and its tokenizer as the library does. kind: one of `VARIANTS`."""
    variant = kind
    kind = max((name for name in CONFIGS if variant.startswith(name)), key=len)
    of_tokenizer = CONFIGS[kind]
    tokenizer = _tokenizer(of_tokenizer, text)
    pad, unknown, begin, end, mask = SPECIAL[of_tokenizer]
    names = {"pad_token": pad, "unk_token": unknown, "cls_token": begin, "sep_token": end, "mask_token": mask}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    offset = 0 if of_tokenizer == "bert" else tokenizer.token_to_id(pad) + 1
    config = transformers.AutoConfig.for_model(
        kind,
        vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=positions + offset,
        pad_token_id=tokenizer.token_to_id(pad),
        **{**SIZES, **VARIANTS[variant], **sizes},
    )
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    return folder


def transformer_of(folder, **settings):
    """The setting of a network with this transformer."""
    settings = {"model": str(folder), "layers": 2, "learning_rate": 1e-3, **settings}
    return f"parser.network.transformer={json.dumps(settings)}"


def tokens_of(encoder, sentences):
    """The words of sentences, as the encoder reads them."""
    words = list(chain.from_iterable(sentences))
    found = encoder.tokenizer.pieces(words)
    numbers = Ragged(torch.zeros(len(words), 1, dtype=torch.long), torch.tensor(list(map(len, sentences))))
    pieces = Ragged(torch.tensor(list(chain.from_iterable(found))), torch.tensor(list(map(len, found))))
    return Tokens(numbers, pieces=pieces)


def _tokenizer(kind, text):
    _, unknown, begin, end, _ = special = SPECIAL[kind]
    if kind == "bert":
        tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token=unknown))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=90, special_tokens=list(special), show_progress=False)
    elif kind == "roberta":
        tokenizer = tokenizers.Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=list(special),
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        )
    else:
        tokenizer = tokenizers.Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=70, special_tokens=list(special), unk_token=unknown, show_progress=False
        )
    tokenizer.train_from_iterator(text, trainer)
    numbers = [(name, tokenizer.token_to_id(name)) for name in (begin, end)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=numbers
    )
    return tokenizer
