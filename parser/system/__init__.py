MOST_THREADS = 1024
"""Maximum threads of a process. PyTorch fails with a much larger number."""
