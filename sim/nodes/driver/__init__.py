"""Drivers that come from images: what the pods of a driver do on a simulated node, and what becomes of it."""
