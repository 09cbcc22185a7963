"""What programs that are compared have in common: the batches, the weights, and how they are timed.

The programs have environments of their own: this needs only NumPy.
"""
