"""A service of several processes at one socket: the supervisor, the workers, and how they communicate."""
