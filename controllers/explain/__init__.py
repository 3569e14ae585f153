"""What people are told of cards, pods, pools, nodes and drivers, computed from what was read. Pure.

Used by `kubectl gpu` and by the console.
"""
