"""Treebank files, sentences, vocabularies, and their conversion to integer tensors."""
