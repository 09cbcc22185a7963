"""Batches of known trajectories, which the network replays level by level."""
