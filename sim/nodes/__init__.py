"""Simulated nodes: how to make them (`node_manifests`, `create_nodes`), and who lives on them (`sim.nodes.agent`)."""

from sim.nodes.manifests import create_nodes, node_manifests, parse_profile

__all__ = ["create_nodes", "node_manifests", "parse_profile"]
