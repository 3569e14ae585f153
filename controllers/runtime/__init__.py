"""Caches, work queues, leases, plans and their execution: Kubernetes, and nothing about GPUs.

apiserver ─list/watch─▶ Reflector ─▶ Store ─handlers─▶ WorkQueue ─key─▶ Controller
                                       ▲                                    │ reconcile
                                       └── what a write returned ── Executor ◀── Plan
"""
