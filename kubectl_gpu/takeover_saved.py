"""The file of `kubectl gpu takeover`: what `begin` saves of GPU Operator, and `back` restores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from controllers.api import foreign, names, resources
from controllers.explain import manifests
from controllers.explain import takeover as maps
from controllers.explain.faults import UsageError
from controllers.runtime.errors import AlreadyExists
from kubectl_gpu.files import text_of
from kubectl_gpu.terminal import warn

if TYPE_CHECKING:
    from kubectl_gpu.cluster import Cluster

POLICIES: Final = {each.kind: each for each in (foreign.CLUSTERPOLICY, foreign.NVIDIADRIVER)}
"""The operator's own kinds of which objects are saved, beside its Deployments."""


def save(there: maps.OperatorState, filename: str | None) -> None:
    """Write what the way back needs; a file that has it already, of a step that was cut off, stays as it is."""
    if not there.policies and not any(one["spec"].get("replicas") for one in there.deployments):
        return  # it was saved when it was stopped
    if not filename:
        raise UsageError("Give --filename FILE: the way back needs what is deleted, and it is saved there.")
    try:
        with Path(filename).open("x", encoding="utf-8") as file:
            yaml.safe_dump(maps.saved(there), file, sort_keys=False)
    except FileExistsError:
        if not maps.has_all(read(filename), there):
            raise UsageError(
                f"{filename} is there already, and does not have the operator as it is: name another."
            ) from None
    except OSError as error:
        raise UsageError(f"{filename} cannot be written: {error}") from error


def read(filename: str) -> list[dict[str, Any]]:
    """What `begin` saved; raises UsageError."""
    items = manifests.documents(text_of(filename), filename)
    try:
        if items and all(map(_is_saved, items)):
            return items
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{filename} is not what `begin` saved: {error}") from error
    raise UsageError(f"{filename} is not what `begin` saved: it does not say how everything was.")


def _is_saved(item: dict[str, Any]) -> bool:
    """Whether it is an object as `begin` saves it; raises KeyError, TypeError or ValueError."""
    name, kind = item["metadata"]["name"], item["kind"]
    if kind == "Deployment":
        return bool(name and item["metadata"]["namespace"]) and int(item["spec"]["replicas"]) >= 0
    if kind not in POLICIES:
        raise ValueError(f"it holds a {kind}")
    return bool(name)


async def restore(cluster: Cluster, item: dict[str, Any]) -> None:
    """Give one object of the file back: a Deployment its replicas, a policy itself where there is none of its name."""
    meta = item["metadata"]
    if item["kind"] == "Deployment":
        noted = {"annotations": {names.TAKEOVER_REPLICAS: None}}
        body = {"metadata": noted, "spec": {"replicas": item["spec"]["replicas"]}}
        await cluster.merge(resources.DEPLOYMENT, item, body)
        return
    item = {**item, "metadata": {key: value for key, value in meta.items() if key != "uid"}}
    try:
        await cluster.create(POLICIES[item["kind"]], item)
    except AlreadyExists:
        warn(f"{item['kind']} {meta['name']} is there, and stays as it is.")
