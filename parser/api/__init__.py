"""For programs: `parser.load`, `parser.train` and `parser.evaluate`; see docs/python.md."""
