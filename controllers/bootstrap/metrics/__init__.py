"""Prometheus metrics of nodes, counted from the caches when they are scraped."""
