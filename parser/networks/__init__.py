"""The network of the parser."""
