"""The public functions and classes of `parser`, such as `parser.load`; see docs/python.md."""
