"""The commands of `stack-parser`, with a module for each, and their arguments."""
