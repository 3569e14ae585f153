"""The MIG manager's reads and writes of the API server.

Caches say when to look; work begins on reads from the quorum alone. All managers of a node write as one field manager,
each by merge patches on the version and uid of the card that it decided on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import orjson

from controllers.api import names
from controllers.api.components import HOLDING_GPU_OPEN
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import ConfigMap, Node, Pod
from controllers.api.record import adapter
from controllers.api.resources import CONFIGMAP, GPUDEVICE, NODE, POD
from controllers.runtime.errors import NotFound
from controllers.runtime.plan import Merge, ref
from controllers.runtime.reflector import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controllers.api.gpudevice import MigApply
    from controllers.runtime.client import Client
    from controllers.runtime.executor import Executor
    from controllers.runtime.process import Process

_PODS: Final = f"{names.LABEL_COMPONENT} in ({','.join(sorted(HOLDING_GPU_OPEN))})"
"""Selects the pods of components that hold cards open. Bootstrap closes their gates while a card waits."""


class Cluster(Protocol):
    """The node's objects."""

    def layout(self) -> ConfigMap | None:
        """Its layout, as the cache has it."""

    def cards(self) -> Iterable[GPUDevice]:
        """Its cards, as the cache has them."""

    def pods(self) -> frozenset[str]:
        """Pods there that hold cards open, as the cache has them."""

    async def clients(self) -> frozenset[str]:
        """The same by the quorum, and the gates that still let such pods in."""

    async def fresh(self, card: GPUDevice) -> GPUDevice | None:
        """The card by the quorum; None where it is gone, or its name is another's."""

    async def write_status(self, card: GPUDevice, said: MigApply | None) -> GPUDevice | None:
        """Write `migApply` of exactly that version of the card; raises Conflict. Returns the card as it is then."""


class Quorum:
    """What is read from the quorum, and what is written; what caches tell, who inherits knows."""

    def __init__(self, client: Client, executor: Executor, node: str, known: Callable[[str], GPUDevice | None]) -> None:
        """Prepare; `known` is a card as its cache has it, by name."""
        self._client, self._executor, self._node, self._known = client, executor, node, known

    async def clients(self) -> frozenset[str]:
        """See `Cluster`.

        A pod that was just replaced is not there for a moment: only a closed gate says that none comes.
        """
        query = {"labelSelector": _PODS, "fieldSelector": f"spec.nodeName={self._node}"}
        body = orjson.loads(await self._client.request("GET", POD.path(names.NAMESPACE), query=query))
        pods = [adapter(Pod).validate_python(item) for item in body.get("items") or ()]
        node = adapter(Node).validate_json(await self._client.get(NODE, self._node))
        gates = [names.deploy_label(component) for component in sorted(HOLDING_GPU_OPEN)]
        opened = {f"gate {gate}" for gate in gates if node.metadata.labels.get(gate) == "true"}
        return frozenset(opened | {f"pod {pod.name}" for pod in pods if not pod.finished})

    async def fresh(self, card: GPUDevice) -> GPUDevice | None:
        """See `Cluster`."""
        try:
            found = adapter(GPUDevice).validate_json(await self._client.get(GPUDEVICE, card.name))
        except NotFound:
            return None
        return found if found.metadata.uid == card.metadata.uid else None

    async def write_status(self, card: GPUDevice, said: MigApply | None) -> GPUDevice | None:
        """See `Cluster`."""
        body = {"status": {"migApply": _body(said)}}
        meta = card.metadata
        await self._executor.execute((Merge(ref(GPUDEVICE, card), meta.resource_version, body, "status"),))
        return self._known(card.name)


class Objects(Quorum):
    """The real ones."""

    def __init__(self, process: Process, node: str) -> None:
        """Follow them."""
        only = Scope(namespace=names.NAMESPACE, fields=f"metadata.name={names.mig_layout(node)}")
        self._layouts = process.reflect(CONFIGMAP, ConfigMap, scope=only)
        self._cards = process.reflect(GPUDEVICE, GPUDevice, scope=Scope(fields=f"status.nodeName={node}"))
        here = Scope(namespace=names.NAMESPACE, labels=_PODS, fields=f"spec.nodeName={node}")
        self._pods = process.reflect(POD, Pod, scope=here)
        super().__init__(process.client, process.executor, node, self._cards.get)

    def subscribe(self, wake: Callable[[], None]) -> None:
        """Call at every change."""
        self._layouts.subscribe(lambda _old, _new: wake())
        self._cards.subscribe(lambda _old, _new: wake())
        self._pods.subscribe(lambda _old, _new: wake())

    def layout(self) -> ConfigMap | None:
        """See `Cluster`."""
        return self._layouts.get(f"{names.NAMESPACE}/{names.mig_layout(self._node)}")

    def cards(self) -> Iterable[GPUDevice]:
        """See `Cluster`."""
        return tuple(self._cards)

    def pods(self) -> frozenset[str]:
        """See `Cluster`."""
        return frozenset(f"pod {pod.name}" for pod in self._pods if not pod.finished)


def _body(said: MigApply | None) -> dict[str, str | None] | None:
    if said is None:
        return None
    # A merge patch leaves what it does not name, so what was said earlier has to be taken out by name.
    seen = {"bootID": said.boot_id, "driverLoad": said.driver_load}
    return {"version": said.version, "phase": said.phase, "reason": said.reason, **seen}
