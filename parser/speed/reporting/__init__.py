"""Writes the rows of a run as a report of tables and plots."""
