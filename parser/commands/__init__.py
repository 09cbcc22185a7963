"""The commands of `stack-parser`, a file each: its arguments, and what it does."""
