"""Prepares nodes: components in order, gated on each node, until its cards may be pooled."""
