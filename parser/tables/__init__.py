"""Trains several variants of one config and makes a table of their results."""
