"""Selecting sentences for annotation, and writing the reliable parts of their trees."""
