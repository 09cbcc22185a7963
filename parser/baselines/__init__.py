"""Slower ways of running the same parser, to compare with: the paper's decoder, and no batching."""
