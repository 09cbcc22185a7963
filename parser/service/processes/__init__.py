"""A service of several processes with one socket: a supervisor, workers, and what passes between them."""
