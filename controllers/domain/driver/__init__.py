"""Drivers of nodes: who of several GPUDrivers has a node, what a revision is, and which image serves a node. Pure."""
