"""gpu-admission-webhook: gives a pod its card, or says why not, while it is being created."""
