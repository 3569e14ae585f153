"""Tells the cluster which cards a node has: sysfs and the driver become NodeFeature `gpu-<node>`."""
