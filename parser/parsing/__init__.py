"""Trained models, and parsing with them."""
