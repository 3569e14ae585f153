"""TODO tests/faults."""
