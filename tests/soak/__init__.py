"""TODO tests/soak."""
