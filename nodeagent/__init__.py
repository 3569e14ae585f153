"""The program on the nodes: the only code that touches sysfs, NVML and kubelet's sockets.

One role for each DaemonSet: discover, validate, device-plugin, mig; `python -m nodeagent ROLE` starts
one. On simulated nodes `sim.nodes` plays them.
"""
