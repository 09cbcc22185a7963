"""The project's own parser, as the speed harness measures it (Ding & Koehn 2019), and its baselines.

The baselines are slower ways of running it: stepping with gradients, the paper's decoder, and no batching.
"""
