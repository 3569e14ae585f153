"""What a YAML block that no API server takes as it is stands for: marker `part of: <name>`."""

from __future__ import annotations

from typing import Any

import yaml

from sim.workload import IMAGE
from tests.docs.site import ROOT


def container(part: dict[str, Any]) -> list[dict[str, Any]]:
    """A pod whose only container has that part."""
    spec = {"containers": [{"name": "main", "image": IMAGE} | part]}
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "whole", "namespace": "default"}, "spec": spec}]


def chart_values(part: dict[str, Any]) -> list[dict[str, Any]]:
    """Values of the chart are no objects: each has to be one that the chart has, of the same type."""

    def strangers(given: dict[str, Any], known: Any, at: str) -> list[str]:
        found = []
        for key, value in given.items():
            if not isinstance(known, dict) or key not in known:
                found.append(f"{at}{key}")
            elif isinstance(value, dict):
                found += strangers(value, known[key], f"{at}{key}.")
            elif not isinstance(value, type(known[key])):
                found.append(f"{at}{key} is {known[key]!r} in values.yaml")
        return found

    values = yaml.safe_load((ROOT / "values.yaml").read_text("utf-8"))
    assert strangers(part, values, "") == []
    return []


def leader_worker_set(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """The StatefulSet of workers that its controller makes: its own definition is not in the cluster."""
    meta, template = whole["metadata"], whole["spec"]["leaderWorkerTemplate"]
    mark = "leaderworkerset.sigs.k8s.io"
    labels = {f"{mark}/name": meta["name"], f"{mark}/group-index": "0"}
    marked = {"labels": labels, "annotations": {f"{mark}/size": str(template["size"])}}
    spec = {
        "serviceName": meta["name"],
        "replicas": template["size"] - 1,
        "selector": {"matchLabels": labels},
        "template": {**template["workerTemplate"], "metadata": marked},
    }
    named = {"name": f"{meta['name']}-0", "namespace": meta["namespace"]}
    return [{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": named, "spec": spec}]


WHOLE = {"container": container, "chart values": chart_values, "leader worker set": leader_worker_set}
