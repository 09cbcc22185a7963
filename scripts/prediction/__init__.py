"""A model of a GPU, from counts of what a training step or parsing asks of it."""
