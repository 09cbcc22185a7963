"""Running the parser one transition at a time, for many sentences at once."""
