"""TODO tests/gpupool."""
