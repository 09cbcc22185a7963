"""Data of the papers' tasks that are no treebanks."""
