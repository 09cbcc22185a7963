"""Disks that become full."""

import resource
from contextlib import contextmanager


@contextmanager
def file_sizes_limited(size):
    """Whoever writes more than `size` bytes to a file gets an error, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
