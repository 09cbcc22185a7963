"""From treebanks to a trained model."""
