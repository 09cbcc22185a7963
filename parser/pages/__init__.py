"""Pages for a browser, each in one file, and the page of a service."""
