"""Offers the cards of one pool on one node to kubelet, and reports which pod got which.

One program for each pool and node. Four parts meet in `plugin.Plugin`: what the pool's ConfigMaps
allow (`config`), what is on the node (`look`), what kubelet is told (`service`, `kubelet`) and what
the API server is told (`publish`). What decides is pure: `offers`, `prefer`, `give`, `report`.
"""
