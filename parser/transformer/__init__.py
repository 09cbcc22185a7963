"""Pretrained transformers: their pieces of words, windows over long sentences, their files."""
