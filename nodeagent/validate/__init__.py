"""Tells the cluster whether a node's cards can be used: the driver on the host, and a container that gets them.

Results go to feature `gpu.validation` of NodeFeature `gpu-<node>`; `controllers.api.validation` has the words.
"""
