"""Batching of irregular computation. Independent of sentences and parsers."""
