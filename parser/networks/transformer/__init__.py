"""Pretrained transformers: pieces of words, windows over long sentences, and files."""
