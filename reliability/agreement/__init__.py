"""How often the verdicts on nodes agree with Kubernetes' own scheduler: `python -m reliability.agreement`."""
