"""Files below /run/nvidia by which a driver's container and the node agent tell each other how far they are. Pure.

All are gone after a reboot, as the kernel's modules are.
"""

from __future__ import annotations

from typing import Final

RUN: Final = "/run/nvidia"
ROOT: Final = f"{RUN}/driver"
"""Where a driver's container mounts its own root."""
LOCK: Final = f"{RUN}/nvidia-driver.pid"
"""Locked by NVIDIA's script for as long as it runs."""
STATE: Final = f"{RUN}/nvidia-driver.state"
"""DRIVER_CONFIG_DIGEST of the modules that are loaded; NVIDIA's script writes it where it compiles."""
READY: Final = f"{RUN}/validations/.driver-ctr-ready"
"""There while the driver serves; containers of NVIDIA's wait for it."""
DAEMONS: Final = f"{RUN}/validations/.driver-daemons-status"
"""`Ready` once the driver's daemons run; NVIDIA's script writes it where it compiles, since August 2026."""
OURS: Final = f"{RUN}/gpu-control-plane"
MARK: Final = f"{OURS}/driver.state"
"""Digest of the driver that served last; the start-up probe writes it, whether modules were compiled or not."""
HOLD: Final = f"{OURS}/hold"
"""There while a driver's container does nothing, since its predecessor's modules are in use."""
