"""Scores, reports and significance tests."""
