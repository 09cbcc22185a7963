"""Which sentences people should annotate, and what they are given of their trees."""
