"""What Helm's hooks are made to do: the programs that install definitions and clean up, each under its own token."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import yaml

from controllers.api import names, resources
from controllers.install.observed import CONTROLLERS
from sim.module.identities import kubeconfig_for
from sim.module.install import ROOT, install_chart
from tests.kit.pods import queued_body
from tests.kit.waiting import PATIENCE
from tests.rbac import grants
from tests.templates import harness

if TYPE_CHECKING:
    from pathlib import Path

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client
    from sim.controlplane import ControlPlane
    from sim.module.install import Tools

MARKS = {"labels": {names.LABEL_MODULE: names.MODULE, names.LABEL_COMPONENT: "x"}}
POD: dict[str, Any] = {"metadata": {"labels": {"x": "x"}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
APP = {"selector": {"matchLabels": {"x": "x"}}, "template": POD}


async def install(plane: ControlPlane, tools: Tools, folder: Path) -> None:
    """Definitions are made from nothing: ours, and ModuleConfig's, which Deckhouse would have brought."""
    assert "deckhouse" not in await asyncio.to_thread(tools.run, "get", "crds", "--output=name")
    await asyncio.to_thread(_grant, tools)
    await _run(plane, tools, folder, names.MANAGER_CRDS, "crds")


async def clean_up(plane: ControlPlane, tools: Tools, client: Client, folder: Path) -> None:
    """Everything that the clean-up may find is there, and goes."""
    for resource, name, body in _leftovers():
        space = names.NAMESPACE if resource.namespaced else None
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        meta = {"name": name, **body.get("metadata", {})}
        # By its field manager the clean-up knows an agent's report from one made by hand.
        manager = names.MANAGER_DISCOVER if resource is resources.NODEFEATURE else "test"
        await client.apply(resource, name, head | body | {"metadata": meta}, manager=manager, namespace=space)
    ready = {"type": names.NODE_READY, "status": "True", "reason": "Ready", "message": "m"}
    await client.merge(resources.NODE, "x", {"status": {"conditions": [ready]}}, manager="test", subresource="status")
    for space in ("team", "team-2"):
        await _queue(client, space)
    # Only now: the API server asks the webhook, whom nobody plays here, about pools.
    await asyncio.to_thread(install_chart, tools, {})
    await _run(plane, tools, folder, names.MANAGER_CLEANUP, "cleanup")


async def _queue(client: Client, namespace: str) -> None:
    """A pod that waits for cards of the pool."""
    await client.create(resources.NAMESPACE, {"metadata": {"name": namespace}}, manager="test")
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await client.request("POST", path, body={"metadata": {"name": "default"}})
    await client.create(resources.POD, queued_body("waits", "x"), namespace, manager="test")


def _grant(tools: Tools) -> None:
    """The hooks' identities, as Helm makes them before it runs the hooks."""
    files = [f"templates/{name}/rbac-for-us.yaml" for name in (names.MANAGER_CRDS, names.MANAGER_CLEANUP)]
    text = harness.render(tools.helm, release_namespace=names.NAMESPACE)
    made = yaml.safe_dump_all([obj for file, obj in grants.parts(text) if file in files])
    tools.run("apply", "--server-side", "--filename=-", stdin=made)


async def _run(plane: ControlPlane, tools: Tools, folder: Path, account: str, verb: str) -> None:
    config = await asyncio.to_thread(kubeconfig_for, plane, tools, account, folder)
    command = [sys.executable, "-m", "controllers.install", verb, f"--kubeconfig={config}", "--timeout=170"]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr


def _leftovers() -> list[tuple[Resource, str, dict[str, Any]]]:
    """One of each kind that the module's processes make."""
    ready = {"type": names.NODE_READY, "status": "True", "reason": "Ready", "message": "x"}
    node = {"metadata": {"labels": {names.pool_node_label("x"): "true"}}, "status": {"conditions": [ready]}}
    driver = {"metadata": {"finalizers": [names.FINALIZER_DRIVER]}, "spec": {"version": "580.1"}}
    report = {"metadata": {"labels": {names.NFD_NODE_NAME: "x"}}, "spec": {}}
    secret = {"type": "Opaque", "data": {}}
    return [
        *((resources.DEPLOYMENT, name, {"spec": {**APP, "replicas": 0}}) for name in CONTROLLERS),
        *((resources.LEASE, name, {"spec": {}}) for name in CONTROLLERS),
        (resources.SECRET, names.WEBHOOK_SECRET, secret),
        (resources.DAEMONSET, "x", {"metadata": MARKS, "spec": APP}),
        (resources.CONFIGMAP, "x", {"metadata": MARKS}),
        (resources.NODE, "x", node),
        *((resources.RUNTIMECLASS, name, {"metadata": MARKS, "handler": "x"}) for name in names.RUNTIME_CLASSES),
        (resources.NODEFEATURE, names.agent_feature("x"), report),
        (resources.NODEFEATURERULE, names.NODE_FEATURE_RULE, {"spec": {"rules": []}}),
        (resources.GPUPOOL, "x", {"metadata": {"finalizers": [names.FINALIZER_POOL]}, "spec": {}}),
        (resources.GPUDRIVER, "x", driver),
        (resources.GPUDEVICE, "x", {}),
        (resources.GPUNODEINVENTORY, "x", {"spec": {"nodeName": "x"}}),
        (resources.MODULECONFIG, names.MODULE, {"spec": {"enabled": True, "version": 1}}),
    ]
