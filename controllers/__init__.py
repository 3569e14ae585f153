"""The controllers of gpu-control-plane, and what they share: `api`, `domain`, `runtime`."""
