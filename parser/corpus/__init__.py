"""Parsing folders of many files by the workers of a Ray cluster."""
