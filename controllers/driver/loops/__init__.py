"""The loops of the process: nodes, GPUDrivers, DaemonSets."""
