"""A real node beside the simulated ones: kubelet, containerd and runc on this machine, with four cards made of files.

`needs.lacking` says whether this machine can do it, `node.up` joins it to a control plane, `node.clear` leaves nothing
of it. What is real there and what is played: docs/dev/e2e.md.
"""
