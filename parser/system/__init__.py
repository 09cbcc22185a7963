MOST_THREADS = 1024
"""Of a process. PyTorch fails with a much larger number."""
