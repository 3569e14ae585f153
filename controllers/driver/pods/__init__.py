"""Pods of drivers: what brings one onto a node, what looks at the node first, and how their ends are read. Pure."""
