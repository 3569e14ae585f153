"""How the module's processes and the simulated agent are started: data for the supervisor."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from controllers.api import names
from sim.controlplane import ProcessSpec, Ready
from sim.module.install import ROOT
from sim.nodes.exporter import PATH

STAGE = 5
"""Ended before the control plane, which they need to end in order."""
MODULES = {
    names.INVENTORY: "controllers.inventory",
    names.BOOTSTRAP: "controllers.bootstrap",
    names.POOL_CONTROLLER: "controllers.gpupool",
    names.WEBHOOK: "webhook",
}
OPTIONAL = {names.DRIVER_CONTROLLER: "controllers.driver"}
"""What runs where the chart's `driver.enabled` says so."""

ENV = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "MALLOC_MMAP_THRESHOLD_": "131072"}
"""Of a process of the module, as images/control-plane/Dockerfile sets it and says why."""


@dataclass(frozen=True, slots=True)
class Timers:
    """Times in seconds that tests scale down; the processes' own defaults where None."""

    lease_duration: float | None = None
    renew_deadline: float | None = None
    retry_period: float | None = None
    watch_idle: float | None = None

    def flags(self) -> list[str]:
        """As the processes take them."""
        pairs = {
            "lease-duration": self.lease_duration,
            "renew-deadline": self.renew_deadline,
            "retry-period": self.retry_period,
            "watch-idle": self.watch_idle,
        }
        return [f"--{key}={value}" for key, value in pairs.items() if value is not None]


def module_process(
    name: str, kubeconfig: Path, port: int, timers: Timers, *extra: str, replica: int = 1
) -> ProcessSpec:
    """One process of the module, as its container would run it; `port`: of its health."""
    argv = [sys.executable, "-m", (MODULES | OPTIONAL)[name], f"--kubeconfig={kubeconfig}", f"--health-port={port}"]
    return ProcessSpec(
        name=name if replica == 1 else f"{name}-{replica}",
        argv=(*argv, *timers.flags(), *extra),
        env=ENV,
        ready=Ready(urls=(f"http://127.0.0.1:{port}/readyz",)),
        stage=STAGE,
        grace=15.0,
        ports={"health": port},
    )


def exporter_url(port: int) -> str:
    """Where gpu-bootstrap-controller finds a simulated node's DCGM text: the template of its flag --exporter-url."""
    return f"http://127.0.0.1:{port}{PATH}"


def agent_process(kubeconfig: Path, port: int, exporter_port: int) -> ProcessSpec:
    """The agent that plays kubelet, NFD, the node agents and DCGM's exporters on the simulated nodes."""
    argv = (sys.executable, "-m", "sim.nodes.agent", f"--kubeconfig={kubeconfig}")
    return ProcessSpec(
        name="simulated-agent",
        argv=(*argv, f"--health-port={port}", f"--exporter-port={exporter_port}"),
        env=ENV,
        ready=Ready(urls=(f"http://127.0.0.1:{port}/readyz",)),
        stage=STAGE,
        ports={"health": port, "exporters": exporter_port},
    )
