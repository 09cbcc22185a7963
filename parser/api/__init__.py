"""For programs: the functions of `parser`, such as `parser.load`; see docs/python.md."""
