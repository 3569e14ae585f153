"""kubelet's configuration and command line; no I/O.

It listens on loopback and lets in whom the cluster's authority has certified. What it cannot do on a machine without
systemd and with control groups of version 1 is switched off.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.controlplane.spec import ProcessSpec, Ready

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.realnode.places import Places

NAME: Final = "kubelet"
STAGE: Final = 4
"""Ended after what watches the node, before the container runtime."""
GRACE: Final = 10.0


def config(places: Places, ca: Path, ports: Mapping[str, int]) -> str:
    """KubeletConfiguration; JSON, which is YAML."""
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": ports["https"],
            "healthzBindAddress": "127.0.0.1",
            "healthzPort": ports["healthz"],
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(ca)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "containerRuntimeEndpoint": f"unix://{places.socket}",
            "podLogsDir": str(places.pod_logs),
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failCgroupV1": False,
            "failSwapOn": False,
            "evictionHard": {},
            "makeIPTablesUtilChains": False,
            "resolvConf": "",
            # How late the API server hears of changed devices; 10 s is usual.
            "nodeStatusUpdateFrequency": "1s",
            "imageMinimumGCAge": "24h",
        },
        indent=1,
    )


def process(
    places: Places, program: Path, node: str, labels: Mapping[str, str], ports: Mapping[str, int]
) -> ProcessSpec:
    """Return kubelet; it is ready when it says so, and when device plugins can reach it."""
    argv = (
        str(program),
        f"--config={places.kubelet_config}",
        f"--kubeconfig={places.kubeconfig}",
        f"--root-dir={places.kubelet}",
        f"--cert-dir={places.kubelet / 'pki'}",
        f"--hostname-override={node}",
        f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}",
    )
    return ProcessSpec(
        name=NAME,
        argv=argv,
        ready=Ready(urls=(f"http://127.0.0.1:{ports['healthz']}/healthz",), files=(str(places.pod_resources),)),
        grace=GRACE,
        stage=STAGE,
        ports=ports,
    )
