"""The module's container images: their locks, and how they are built where a Docker daemon answers."""
