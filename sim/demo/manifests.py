"""What the people of the story apply: a namespace, a pool, pods. Pure."""

from __future__ import annotations

from typing import Any

from controllers.api.names import GROUP, VERSION
from sim.workload import pod_spec

TEAM, STRANGER, POOL = "team-a", "team-b", "training"
PERSON = "joe"
"""Works in the stranger's namespace; an administrator may use every pool, by RBAC."""


def namespace(name: str) -> dict[str, Any]:
    """A team's namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def member(person: str, team: str) -> dict[str, Any]:
    """A person's right to work in a team's namespace."""
    rbac = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": person, "namespace": team},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": person}],
    }


def pool(product: str) -> dict[str, Any]:
    """A pool of whole cards of one product, for one team."""
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "GPUPool",
        "metadata": {"name": POOL},
        "spec": {
            "deviceSelector": {"include": {"products": [product]}},
            "allocation": {"mode": "Exclusive"},
            "access": {"namespaces": [TEAM]},
        },
    }


def pod(name: str, team: str = TEAM) -> dict[str, Any]:
    """A pod that asks for one card."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": team}, "spec": pod_spec(POOL)}


def deployment(name: str, replicas: int) -> dict[str, Any]:
    """A Deployment whose pods ask for one card each."""
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": TEAM},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec(POOL)},
        },
    }
