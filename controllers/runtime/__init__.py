"""Knows Kubernetes, knows nothing about GPUs.

apiserver ─list/watch─▶ Reflector ─▶ Store ─handlers─▶ WorkQueue ─key─▶ Controller
                                       ▲                                    │ reconcile
                                       └── what a write returned ── Executor ◀── Plan
"""
