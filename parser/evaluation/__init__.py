"""Scores, reports, significance tests, and the selection of sentences for annotation."""
