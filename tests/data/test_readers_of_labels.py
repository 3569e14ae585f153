"""Readers of labels and reports: each on a small dump of ours, with what is odd in real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.data.generate.readers import labels, nodefeature
from tests.data.small import found

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMENTED = """\
kubectl get node $NODE | grep gpu
  "kubernetes.io/hostname": "s4124-0073",
  "nvidia.com/gpu": "2",
  "nvidia.com/gpu.count": "1", # <--- how many
  "nvidia.com/gpu.machine": "NVIDIA DGX",
  nvidia.com/gpu.memory:      81920M
  nvidia.com/gpu.product=A100
  nvidia.com/mig-1g.5gb: 7
  nvidia.com/mig.config: [...]"""
NODE = """
# Please edit the object below.
kind: Node
metadata: {name: qa-1, labels: {kubernetes.io/hostname: qa-1, nvidia.com/gpu.deploy.nvsm: ""}, uid: x}
status:
  addresses: [{address: 10.51.0.4, type: InternalIP}]
  conditions: [{type: Ready, status: "True", reason: KubeletReady, message: a sentence, lastHeartbeatTime: then}]
  nodeInfo: {architecture: amd64, bootID: b, machineID: m, systemUUID: s}
"""
FLEET = "sn,cpu_milli,gpu,model\nn-1,1,2,P100\nn-2,1,8,G2\nn-3,1,2,P100\n"
WORKER = """{"name": "host-1", "status": {"gpu_devices": [
 {"vendor": "amd", "uuid": "0x747e", "name": "A card", "index": 0, "memory": {"total": 17163091968}}]}}"""
TYPES = "nodes:\n- {type: a, count: 2, labels: {nvidia.com/gpu.count: '8'}}\n- {type: b, resources: {cpu: 48}}\n"
REPORTS = """\
# DERIVED
kind: NodeFeatureRule
metadata: {name: what-to-look-for}
---
kind: NodeFeature
metadata: {name: n, namespace: d, labels: {nfd.node.kubernetes.io/node-name: n}}
spec:
  features: {attributes: {os: {elements: {ID: x, HOME_URL: "https://…"}}}}
  labels: {a/b: "1"}
"""
CASES: dict[str, tuple[Callable[[Path], dict[str, Any]], str, dict[str, Any]]] = {
    "labels, one a line": (labels.lines, COMMENTED, {"nodes": [{"labels": {
        "kubernetes.io/hostname": "node", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "81920M",
        "nvidia.com/gpu.product": "A100",
    }}]}),
    "a describe's blocks": (labels.blocks, "# Single strategy output\n  nvidia.com/gpu: 56\n# Mixed strategy output", {
        "nodes": [{"name": "single"}, {"name": "mixed"}],
    }),
    "a Node": (labels.node, NODE, {"nodes": [{
        "labels": {"kubernetes.io/hostname": "node", "nvidia.com/gpu.deploy.nvsm": ""},
        "status": {
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"architecture": "amd64"},
        },
    }]}),
    "a profile": (labels.aicr, "spec: {gpu: {product: H100, count: 8, memory: 81920, other: x}}", {"nodes": [{
        "labels": {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920"},
    }]}),
    "types of nodes": (labels.knavigator, TYPES, {"nodes": [
        {"name": "a", "labels": {"nvidia.com/gpu.count": "8"}}, {"name": "b"},
    ]}),
    "a list of nodes": (labels.table, FLEET, {"nodes": [{"name": "2-P100", "times": 2}, {"name": "8-G2"}]}),
    "a worker": (labels.worker, WORKER, {"nodes": [{"cards": [
        {"vendor": "1002", "by_driver": True, "uuid": "0x747e", "product": "A card", "memory_mib": 16368},
    ]}]}),
    "NodeFeatures": (nodefeature.read, REPORTS, {"nodes": [{"reports": [{
        "kind": "NodeFeature",
        "metadata": {"name": "n", "namespace": "d"},
        "spec": {"features": {"attributes": {"os": {"elements": {"ID": "x"}}}}, "labels": {"a/b": "1"}},
    }]}]}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_reader_finds_what_is_told_and_no_more(tmp_path: Path, case: str) -> None:
    read, dump, told = CASES[case]
    assert found(tmp_path / "dump", read, dump) == told
