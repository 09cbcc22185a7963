"""On-the-fly operation batching (Neubig, Goldberg & Dyer 2017).

The computation of single examples is written with `Graph`, alone or as templates, and runs in batches.
"""
