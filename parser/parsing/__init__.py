"""A trained network at work."""
