"""What benchmarks, soak and fault campaign share: an API server to break, a proxy that injects faults, commands."""
