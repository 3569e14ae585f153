"""Selectors of pools and access rules: matched, compiled for many cards, explained where they do not match. Pure."""
