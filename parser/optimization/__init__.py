"""One training step: gradients, clipping, the optimizer and the moving average of the weights."""
