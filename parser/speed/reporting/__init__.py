"""Draws the rows of a run as a report: tables and plots."""
