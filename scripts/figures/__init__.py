"""What README.md and the pages in docs/ show of the rows in docs/measurements."""
