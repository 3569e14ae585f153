"""A real control plane as processes: ``up`` starts it, ``down`` leaves nothing of it.

Processes run under a detached supervisor (:mod:`sim.controlplane.supervisor`); more of
them are added with :func:`add_process`. All functions block and none is bound to a thread
or an event loop; call them from asyncio through ``asyncio.to_thread``.
"""

from sim.controlplane.client import add_process, remove_process, wait_ready
from sim.controlplane.lifecycle import down, up
from sim.controlplane.plane import ControlPlane, Status, load, status
from sim.controlplane.spec import ProcessSpec, Ready

__all__ = [
    "ControlPlane",
    "ProcessSpec",
    "Ready",
    "Status",
    "add_process",
    "down",
    "load",
    "remove_process",
    "status",
    "up",
    "wait_ready",
]
