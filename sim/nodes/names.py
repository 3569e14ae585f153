"""Names that only the simulation knows."""

from __future__ import annotations

from typing import Final

FAKE: Final = "kwok.x-k8s.io/node"
"""Annotation of nodes without a machine; the value is `fake`."""
SHAPE: Final = "sim.gpu.deckhouse.io/shape"
"""Annotation that names the node's shape in the catalogue."""
FAULT: Final = "sim.gpu.deckhouse.io/fault"
"""Annotation with faults; see `sim.nodes.faults`."""
MIG: Final = "sim.gpu.deckhouse.io/mig"
"""Annotation with the cards that are in MIG mode: `{"0000:17:00.0": {"1g.10gb": 7}}`. It is their own state, which
no program's end undoes; without it no card is divided."""
SYSTEM: Final = "sim.gpu.deckhouse.io/system"
"""Annotation that names the operating system in the catalogue, such as ubuntu24.04; the usual one without it."""
HOST: Final = "sim.gpu.deckhouse.io/host"
"""Annotation with what else differs on the host, such as `bare`; see `sim.nodes.host`."""
MODULES: Final = "sim.gpu.deckhouse.io/modules"
"""Annotation with the driver's modules that a container loaded: the kernel's own state; see `sim.nodes.modules`."""
TAKES: Final = "sim.gpu.deckhouse.io/takes"
"""Annotation with the seconds that steps of a driver's installation take, as `pull=2,install=10`."""
RUN_FOR: Final = "sim.gpu.deckhouse.io/run-for"
"""Annotation of a Job's pod: how long it runs, such as `30s`; a second without it. KWOK ends it then."""
NO_GPU: Final = "no-gpu"
"""Shape of a node that names none."""

NFD_NAMESPACE: Final = "node-feature-discovery"
NFD_WORKER: Final = "nfd-worker"
NFD_MASTER: Final = "nfd-master"
NFD_OWNED: Final = "nfd.node.kubernetes.io/feature-labels"
"""Annotation in which nfd-master notes which labels of a node are its own."""
NFD_LABELS: Final = "feature.node.kubernetes.io"
"""Prefix of labels that name none."""
KUBELET: Final = "kubelet"
HARDWARE: Final = "sim-hardware"
"""Field manager of what is no program's doing."""
