"""Reading a cluster for the programs of this package: pages of lists, single objects, and who leads."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names
from controllers.api.record import adapter
from controllers.api.resources import CRD, LEASE
from controllers.install.observed import CONTROLLERS, KINDS, UNBOUND, Definition, Observed
from controllers.runtime.errors import NotFound

if TYPE_CHECKING:
    from controllers.install.observed import Kind
    from controllers.runtime.client import Client

PAGE = "500"


@dataclass(slots=True)
class Cluster:
    """The cluster through one client; remembers since when each lease has stood still."""

    client: Client
    _leases: dict[str, tuple[Any, float]] = field(default_factory=dict)

    async def observe(self) -> Observed:
        """Everything that the clean-up looks at."""
        objects = {kind.resource.kind: await self._read(kind) for kind in KINDS}
        leading = frozenset([name for name in CONTROLLERS if await self._is_held(name)])
        return Observed(objects, leading, await self._read(UNBOUND))

    async def definition(self, name: str) -> Definition | None:
        """One custom resource's definition."""
        try:
            return adapter(Definition).validate_json(await self.client.get(CRD, name))
        except NotFound:
            return None

    async def _read(self, kind: Kind) -> tuple[Any, ...]:
        namespace = names.NAMESPACE if kind.resource.namespaced and kind.selectors is None else None
        if not kind.named:
            return tuple(await self._list(kind, namespace))
        found = []
        for name in kind.named:
            try:
                found.append(adapter(kind.record).validate_json(await self.client.get(kind.resource, name, namespace)))
            except NotFound:  # or its kind is not served
                continue
        return tuple(found)

    async def _list(self, kind: Kind, namespace: str | None) -> list[Any]:
        asked = {"limit": PAGE, **(kind.selectors or {})}
        read, query, made = adapter(kind.record), asked, []
        while True:
            try:
                answer = orjson.loads(await self.client.request("GET", kind.resource.path(namespace), query=query))
            except NotFound:
                return []  # the kind is not served, as with no NFD
            made += [read.validate_python(item) for item in answer.get("items") or ()]
            following = answer["metadata"].get("continue")
            if not following:
                return made
            query = asked | {"continue": following}

    async def _is_held(self, name: str) -> bool:
        """Whether somebody renews a lease: its record changes within its own duration, by this machine's clock."""
        try:
            spec = orjson.loads(await self.client.get(LEASE, name, names.NAMESPACE)).get("spec") or {}
        except NotFound:
            return False
        if not spec.get("holderIdentity"):
            return False
        now, (known, since) = time.monotonic(), self._leases.get(name, (None, 0.0))
        if spec != known:
            self._leases[name] = (spec, now)
            return True
        return now - since <= float(spec.get("leaseDurationSeconds") or 0)
