"""A model of a GPU's speed, from counts of the work in a training step or in parsing."""
