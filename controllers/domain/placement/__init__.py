"""Which cards a pod gets: what nodes have free, the best node, and the nearest cards on it. Pure."""
