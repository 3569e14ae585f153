"""Tells the cluster which cards a node has: sysfs and the driver become NodeFeature `gpu-<node>`."""

VERSION = "0.1.0"
"""The agent's own version, the project's."""
