"""Trained models, and parsing with them."""

BATCH_SIZE = 256
"""Sentences that are parsed at the same time, if nothing else is asked for."""
