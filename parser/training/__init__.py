"""From treebanks to a trained model: data, one training step, the loop, and the folder of a run."""
