"""Code shared by the compared programs: their batches, their weights, and their timing.

The programs have separate environments, so this package needs only NumPy.
"""
