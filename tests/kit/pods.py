"""Pods that ask for cards, as records or as JSON for what the records do not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controllers.api import names
from controllers.api.record import adapter
from controllers.api.tenant import TenantPod


def asking(*pools: str, units: int | str = 1, **more: Any) -> dict[str, Any]:
    """A container that asks for so many cards of each of these pools."""
    limits = {names.resource_name(pool): str(units) for pool in pools}
    return {"name": "main", "resources": {"limits": limits}, **more}


def pod_body(
    name: str = "p",
    units: int | str = 1,
    *,
    pool: str = "a",
    request: str | None = None,
    devices: str = "",
    label: str | None = None,
    meta: Mapping[str, Any] | None = None,
    phase: str = "Pending",
    **spec: Any,
) -> dict[str, Any]:
    """A pod as JSON that asks for cards of a pool, which admitted it under that request.

    `devices` are the cards that the webhook chose; `label` names the pool that admitted it, where that is another.
    """
    marks = {names.REQUEST_ID: f"r-{name}" if request is None else request, names.DEVICES: devices}
    known = {"name": name, "namespace": "team", "uid": f"pod-{name}", "labels": {names.LABEL_POOL: label or pool}}
    made = {"containers": [asking(pool, units=units)], **spec}
    metadata = {**known, "annotations": marks, **(meta or {})}
    return {"metadata": metadata, "spec": made, "status": {"phase": phase}}


def queued_body(name: str, pool: str, *others: str, request: str | None = None, **spec: Any) -> dict[str, Any]:
    """A pod as JSON that waits in a pool's queue, as the webhook leaves it; `others` are scheduling gates beside ours.

    `spec` is all else of it, with containers that ask for the pool's cards.
    """
    gates = [{"name": gate} for gate in (names.CARDS_GATE, *others)]
    marks = {names.REQUEST_ID: f"r-{name}" if request is None else request}
    meta = {"name": name, "labels": {names.LABEL_POOL: pool}, "annotations": marks}
    made = {"schedulingGates": gates, "containers": [asking(pool, image="none")], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made}


def pod(name: str = "p", units: int | str = 1, **more: Any) -> TenantPod:
    """The same, read; `more` is what `pod_body` takes."""
    return adapter(TenantPod).validate_python(pod_body(name, units, **more))
