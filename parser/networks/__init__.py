"""The torch modules, and the batches that they take."""
