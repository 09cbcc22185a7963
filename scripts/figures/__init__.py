"""The tables and pictures in README.md and docs/, made from the rows in docs/measurements."""
