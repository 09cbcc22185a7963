"""Known trajectories as batches that the network replays level by level."""
