"""Compares NFD's reports, the node labels, the node agent's reports and the GPUDevices of each node. Pure."""
