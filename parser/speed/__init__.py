"""Measures the speed of plugins (model x batching method x batch size x device) and draws plots."""
