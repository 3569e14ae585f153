"""A node with free cards, and a person at kubectl who does things to objects other than pods."""

from __future__ import annotations

import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from controllers.api import names
from controllers.api.resources import GPUDEVICE, GPUNODEINVENTORY, GPUPOOL, NODE
from controllers.domain.clock import stamp
from tests.kit.manifests import body, manifest, status
from tests.kit.objects import allocation, card, pool_ref
from tests.kit.waiting import PATIENCE, until
from tests.webhook.plane import Api, Plane, pod

A100 = {
    "product": "NVIDIA A100-SXM4-40GB",
    "memory_mib": 40960,
    "pci": {"device": "20b0"},
    "compute_capability": {"major": 8, "minor": 0},
    "mig": {"capable": True, "profiles_supported": ["1g.5gb", "3g.20gb"]},
}


@dataclass
class Fleet:
    """A node with three free cards of one kind, and what a person at kubectl sees."""

    plane: Plane
    api: Api
    node: str
    cards: list[str]

    def kubectl(
        self, *args: str, stdin: str | None = None, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        control = self.plane.control
        who = ["--as", user, "--as-group", "system:masters"] if user else []
        command = [str(control.kubectl), "--kubeconfig", str(control.kubeconfig), *who, *args]
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def assign(
        self, card: str, pool: str | None, *args: str, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        mark = f"{names.ASSIGNMENT}={pool}" if pool else f"{names.ASSIGNMENT}-"
        return self.kubectl("annotate", "gpudevice", card, mark, "--overwrite", *args, user=user)

    def refused(self, card: str, pool: str, word: str) -> str:
        done = self.assign(card, pool)
        assert done.returncode == 1, done
        assert f'webhook "gpudevices.gpu.deckhouse.io" denied the request: {word}: ' in done.stderr
        return done.stderr

    async def status(self, card: str, **status: Any) -> None:
        await self.api.status(GPUDEVICE, card, status)

    async def pool(self, name: str, **spec: Any) -> str:
        name = self.plane.unique(name)
        return await self.api.pool(name, **spec)

    def apply(self, body: dict[str, Any], *args: str) -> subprocess.CompletedProcess[str]:
        return self.kubectl("apply", "-f", "-", *args, stdin=yaml.safe_dump(body))


async def ready(api: Api, node: str, status: str) -> None:
    condition = {
        "type": "ReadyForPooling", "status": status, "reason": "Test", "message": "",
        "lastTransitionTime": stamp(time.time()),
    }  # fmt: skip
    await api.status(GPUNODEINVENTORY, node, {"conditions": [condition]})


async def known(fleet: Fleet) -> None:
    """Both replicas know the node's labels and its cards: many dry runs in a row find card 2 at its place."""
    pool = await fleet.pool(
        "probe", nodeSelector={"matchLabels": {"zone": "a"}}, deviceSelector={"include": {"indexes": ["2"]}}
    )

    async def found() -> bool:
        return all(fleet.assign(fleet.cards[2], pool, "--dry-run=server").returncode == 0 for _ in range(4))

    await until(found, "the webhook to know the cards")
    await fleet.api.client.request("DELETE", GPUPOOL.path(name=pool))


async def free_card(api: Api, node: str, number: int) -> str:
    meta = {"labels": {names.LABEL_VENDOR: "nvidia"}}
    found = card(node, number + 16, managed=True, hardware=A100, meta=meta)
    await api.create(GPUDEVICE.path(), manifest(found))
    await api.status(GPUDEVICE, found.name, status(found))
    return found.name


def in_pool(pool: str, **more: Any) -> dict[str, Any]:
    return {"poolRef": body(pool_ref(pool)), "state": "Assigned", **more}


def serving(name: str) -> dict[str, Any]:
    return body(allocation(name, f"uid-{name}"))


@asynccontextmanager
async def node_of_cards(plane: Plane, api: Api) -> AsyncIterator[Fleet]:
    """Three free cards that the webhook knows."""
    node = plane.unique("node")
    labels = {names.LABEL_HOSTNAME: node, "zone": "a"}
    await api.create(NODE.path(), {"metadata": {"name": node, "labels": labels}})
    kind = {"apiVersion": GPUNODEINVENTORY.api_version, "kind": GPUNODEINVENTORY.kind}
    await api.create(GPUNODEINVENTORY.path(), {**kind, "metadata": {"name": node}, "spec": {"nodeName": node}})
    await ready(api, node, "True")
    cards = [await free_card(api, node, number) for number in range(3)]
    made = Fleet(plane, api, node, cards)
    try:
        await known(made)
        yield made
    finally:  # the other tests of this cluster count its cards
        for name in cards:
            await api.client.request("DELETE", GPUDEVICE.path(name=name))
        await api.client.request("DELETE", f"/api/v1/nodes/{node}")


def module_config(*, enabled: bool | None = True, name: str = names.MODULE, **settings: Any) -> dict[str, Any]:
    spec = {"enabled": enabled, "version": 1, "settings": settings}
    return {"apiVersion": "deckhouse.io/v1alpha1", "kind": "ModuleConfig", "metadata": {"name": name}, "spec": spec}


def workload(kind: str, pool: str | None, namespace: str) -> dict[str, Any]:
    asking = {names.resource_name(pool): "1"} if pool else {"cpu": "1"}
    template = {"metadata": {"labels": {"app": "w"}}, "spec": pod("w", asking)["spec"]}
    spec: dict[str, Any] = {"template": template}
    if kind in {"Job", "CronJob"}:
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec["selector"] = {"matchLabels": {"app": "w"}}
    if kind == "StatefulSet":
        spec["serviceName"] = "w"
    if kind == "CronJob":
        spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": spec}}
    group = "batch/v1" if kind in {"Job", "CronJob"} else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "w", "namespace": namespace}, "spec": spec}
