"""The program on the nodes: the only code that touches sysfs, NVML and kubelet's sockets.

One role for each DaemonSet: discover, validate, device-plugin, mig. Until a role is here,
`sim.nodes` plays it on simulated nodes.
"""
