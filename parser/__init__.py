"""Trains StackLSTM dependency parsers in batches, and parses with them."""

__version__ = "0.1.0"
