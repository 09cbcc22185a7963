"""Trained models: format, files, names, ensembles, wheels, and the reader of text that belongs to a model."""
