"""A real control plane on one machine, and simulated GPU nodes.

The demo, the tests and the benchmarks stand on it; nothing of the product imports it.
"""
