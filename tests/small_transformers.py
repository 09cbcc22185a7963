"""Small transformers with random weights: BERT, RoBERTa (bytes) and XLM-R (sentencepiece)."""

import json

import pytest

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
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "initializer_range": 0.5,  # large weights, so that errors are visible
}
TEXT = ["the cat sat on the mat", "Don't wake the cats!", "unbelievable sleepers sleep", "12 000 naïve cafés"]
POSITIONS = 40


def make_transformer(folder, kind="bert", positions=POSITIONS, text=TEXT, **sizes):
    """Write a transformer and its tokenizer as the library does."""
    tokenizer = _tokenizer(kind, text)
    pad, unknown, begin, end, mask = SPECIAL[kind]
    names = {"pad_token": pad, "unk_token": unknown, "cls_token": begin, "sep_token": end, "mask_token": mask}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    offset = 0 if kind == "bert" else tokenizer.token_to_id(pad) + 1
    config = transformers.AutoConfig.for_model(
        kind,
        vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=positions + offset,
        pad_token_id=tokenizer.token_to_id(pad),
        **{**SIZES, **sizes},
    )
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    return folder


def transformer_of(folder, **settings):
    """The setting of a network with this transformer."""
    settings = {"model": str(folder), "layers": 2, "learning_rate": 1e-3, **settings}
    return f"parser.network.transformer={json.dumps(settings)}"


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
