"""Stepping without gradients, for parsing: each step computes only what a later step can read."""
