"""The control plane of most themes: etcd, an API server, our chart; no controllers, no nodes.

What would run beside costs time on a small machine, and nothing that is measured needs it.
The latency theme takes a whole cluster from `sim.cluster` instead.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api import names
from sim import controlplane
from sim.controlplane import ControlPlane
from sim.controlplane.ports import free_ports
from sim.module.identities import kubeconfig_for
from sim.module.install import Tools, install_chart, install_crds
from tools import programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.programs import Progress

MANAGER = "bench"


@dataclass(frozen=True)
class Environment:
    """A control plane with the module's CRDs, RBAC, policies and webhook configuration."""

    plane: ControlPlane
    tools: Tools
    webhook_port: int

    @cached_property
    def identities(self) -> Path:
        """Where kubeconfigs of ServiceAccounts go; removed with the control plane."""
        return self.plane.dir / "pki" / "identities"

    def kubeconfig(self, account: str) -> Path:
        """The kubeconfig of a ServiceAccount of the module, made anew."""
        return kubeconfig_for(self.plane, self.tools, account, self.identities)


@contextmanager
def running_environment(folder: Path, progress: Progress) -> Iterator[Environment]:
    """Bring it up, and take it down whatever happens."""
    helm = programs.ensure(["helm"], progress=progress)["helm"]
    try:
        plane = controlplane.up(
            folder, with_controller_manager=False, with_scheduler=False, with_kwok=False, progress=progress
        )
        tools, (port,) = Tools(plane.kubectl, helm, plane.kubeconfig), free_ports(1)
        with progress.task("installing the module's CRDs, RBAC, webhook and policies"):
            install_crds(tools)
            install_chart(tools, {"gpuControlPlane.webhook.url": f"https://127.0.0.1:{port}"})
            # Cards are assigned here while no webhook serves, and a refusal of its absence is no figure.
            tools.run("delete", "validatingwebhookconfiguration", names.WEBHOOK_CONFIGURATION)
        yield Environment(plane, tools, port)
    finally:
        controlplane.down(folder)
