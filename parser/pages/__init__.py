"""Pages for a browser, each one file."""
