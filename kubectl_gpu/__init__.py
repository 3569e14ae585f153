"""`kubectl gpu`: cards, nodes and pools as a person asks for them, and why a pod waits.

`say/` decides what is said, over frozen values; the modules here read the command line and the cluster.
"""
