"""Training several variants of a config, and a table of their results."""
