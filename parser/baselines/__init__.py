"""Slower ways of running the parser, for comparison: the decoder of Ding & Koehn 2019, and no batching."""
