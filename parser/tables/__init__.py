"""Many training runs of one config, each a little different, and a table of what they gave."""
