"""Benchmarks, soak and fault campaign: the module as a whole, measured, worn and broken on a simulated cluster."""
