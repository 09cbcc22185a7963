"""Pages for a browser, each one file, and that of a service."""
