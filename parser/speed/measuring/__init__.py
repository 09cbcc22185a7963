"""Measures the cells of a config into rows: model x batching method x batch size x device."""
