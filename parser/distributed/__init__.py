"""Several processes that train one parser: joining them, and starting them on one machine."""
