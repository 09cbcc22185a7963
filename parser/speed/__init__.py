"""Measures the speed of plugins, and reports it."""
