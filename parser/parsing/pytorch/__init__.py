"""The part of parsing that PyTorch computes: sentences on a GPU, and searches for several trees."""
