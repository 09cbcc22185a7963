"""Measures plugins: model x batching method x batch size x device, side by side, and draws what it finds."""
