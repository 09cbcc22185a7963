"""Parsing folders of many files with the workers of a Ray cluster."""
