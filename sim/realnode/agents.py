"""The node agent's roles as processes on this machine, for a real node: data for the supervisor.

In a cluster they are pods. Here a pod reaches neither the API server (Services are not routed, and it listens on
loopback) nor the fake machine, so each role runs beside its pod, under the identity that its pod would have, and the
pod holds a stand-in that answers probes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controllers.api import names
from sim.controlplane import ProcessSpec, Ready
from sim.module.install import ROOT
from sim.module.processes import STAGE
from sim.nvml import VARIABLE

if TYPE_CHECKING:
    from sim.realnode.node import RealNode

DISCOVER: Final = names.MANAGER_DISCOVER
PLUGIN: Final = "gpu-nodeagent-device-plugin"
GRACE: Final = 10.0


def discover(node: RealNode, kubeconfig: Path, port: int) -> ProcessSpec:
    """`nodeagent discover`; it looks at the bus every second."""
    return _process("nodeagent-discover", "nodeagent.discover", node, kubeconfig, port, "--scan-period=1")


def plugin_name(pool: str) -> str:
    """The name of a pool's device plugin as a process."""
    return f"device-plugin-{pool}"


def device_plugin(node: RealNode, kubeconfig: Path, port: int, pool: str, strategy: str = "cdi") -> ProcessSpec:
    """`nodeagent device-plugin` of a pool; `strategy`: how a container gets its cards."""
    places = node.places
    flags = (
        f"--pool={pool}",
        f"--pod-resources={places.pod_resources}",
        f"--device-strategy={strategy}",
        f"--cdi-dir={places.cdi}",
        f"--dev={places.devices}",
    )
    return _process(plugin_name(pool), "nodeagent.deviceplugin", node, kubeconfig, port, *flags)


def _process(name: str, module: str, node: RealNode, kubeconfig: Path, port: int, *flags: str) -> ProcessSpec:
    tree = node.tree
    where = (f"--sys={tree.sys}", f"--proc={tree.proc}", f"--root={tree.root}")
    common = (f"--node={node.name}", f"--kubeconfig={kubeconfig}", f"--health-port={port}")
    return ProcessSpec(
        name=name,
        argv=(sys.executable, "-m", module, *common, *where, *flags),
        env={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", VARIABLE: str(node.places.nvml)},
        ready=Ready(urls=(f"http://127.0.0.1:{port}/readyz",)),
        grace=GRACE,
        stage=STAGE,
        ports={"health": port},
    )
