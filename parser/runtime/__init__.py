"""Parsing on a CPU without PyTorch: weights as arrays, and compiled products, LSTMs and transitions."""
