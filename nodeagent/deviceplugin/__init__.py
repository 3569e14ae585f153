"""Offers the cards of one pool on one node to kubelet, and reports which pod got which.

One program for each pool and node. Four parts meet in `plugin.Plugin`: the pool's ConfigMaps (`config`), the scans of
the node (`scanner`), kubelet's API (`service`, `kubelet`) and the GPUDevices in the API server. Decisions are pure and
in `devices`.
"""
