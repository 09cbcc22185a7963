"""Training one parser with several processes: starting them on one machine, and joining them."""
