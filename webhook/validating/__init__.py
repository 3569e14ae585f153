"""Validation of cards, pools, settings, workloads and admitted pods: what is refused, what is warned of. Pure."""
