"""What an API server stores and is sent: JSON made of records, so that their keys are spelled in one place."""

from __future__ import annotations

from typing import Any

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Namespace, Node, Pod
from controllers.api.meta import KubeObject
from controllers.api.record import adapter
from controllers.api.resources import Resource

KINDS: dict[type[Any], Resource] = {
    GPUDevice: resources.GPUDEVICE,
    GPUNodeInventory: resources.GPUNODEINVENTORY,
    GPUPool: resources.GPUPOOL,
    GPUDriver: resources.GPUDRIVER,
    Namespace: resources.NAMESPACE,
    Node: resources.NODE,
    Pod: resources.POD,
}


def resource(obj: KubeObject) -> Resource:
    """The kind of an object."""
    return next(kind for record, kind in KINDS.items() if isinstance(obj, record))


def body(record: object) -> dict[str, Any]:
    """An object, or a part of one, as JSON: without what would be read the same if it were not there."""
    reader = adapter(type(record))
    made: dict[str, Any] = reader.dump_python(
        record, mode="json", by_alias=True, exclude_none=True, exclude_defaults=True
    )
    if hasattr(record, "spec"):
        made.setdefault("spec", {})  # there, however little it says
    return made


def manifest(obj: KubeObject | dict[str, Any], kind: Resource | None = None) -> dict[str, Any]:
    """An object as somebody sends it to an API server, with its kind; `kind` where the object is JSON already."""
    if kind is None:
        assert isinstance(obj, KubeObject), "of which kind is it?"
        kind = resource(obj)
    found = body(obj) if isinstance(obj, KubeObject) else obj
    return {"apiVersion": kind.api_version, "kind": kind.kind, **found}


def status(record: KubeObject) -> dict[str, Any]:
    """The status of an object as JSON, which an API server takes by another door than the rest."""
    found: dict[str, Any] = body(record).get("status", {})
    return found
