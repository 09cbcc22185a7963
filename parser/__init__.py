"""Trains StackLSTM dependency parsers in batches, and parses with them."""
