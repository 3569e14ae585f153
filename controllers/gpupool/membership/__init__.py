"""Which GPUDevice belongs to which GPUPool: assignment, approval, release, candidates. Pure."""
