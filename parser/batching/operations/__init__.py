"""On-the-fly operation batching (Neubig, Goldberg & Dyer 2017).

The computation of single examples is recorded with `Graph`, one operation or one template at a time, and runs
in batches.
"""
