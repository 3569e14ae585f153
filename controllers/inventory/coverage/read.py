"""Reads the cluster: whole lists in pages, each object cut down to the fields used while it is decoded.

A NodeFeature is 15 to 100 kB and a page of them a few MB; of a thousand nodes some MB stay.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic refuses typing's before Python 3.12

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.kube import Node
from controllers.api.meta import KubeObject
from controllers.api.record import adapter
from controllers.inventory.coverage.comparison.records import ClusterState, Report
from controllers.inventory.rule.node_feature_rule import NodeFeatureRule
from controllers.runtime.errors import Gone, NotFound, Unreachable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from controllers.api.resources import Resource
    from controllers.runtime.client import Client

T = TypeVar("T", bound=KubeObject)
PAGE, PAGE_OF_REPORTS = 500, 50
REQUEST_SECONDS = 60.0
LISTS = 3
"""So often a list is begun anew when the server forgets its version between two pages."""
QUIET_SECONDS = 2.0
CLEAR = "\r\x1b[K"


class Progress:
    """A line that says how far the reading is; only for people, and only when it takes a while."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """Nothing is shown where the stream (default: stderr) is no terminal."""
        self._stream = stream or sys.stderr
        self._since, self._shown = time.monotonic(), False

    def tell(self, text: str) -> None:
        """Replace the line."""
        if self._stream.isatty() and time.monotonic() - self._since > QUIET_SECONDS:
            self._stream.write(f"{CLEAR}{text} …")
            self._stream.flush()
            self._shown = True

    def done(self) -> None:
        """Remove the line."""
        if self._shown:
            self._stream.write(CLEAR)
            self._stream.flush()
            self._shown = False


class Reader:
    """One reading of the cluster."""

    def __init__(self, client: Client, progress: Progress) -> None:
        """Nothing is read before `read`."""
        self._client, self._progress = client, progress
        self._unreadable: list[tuple[str, str]] = []

    async def read(self, only: Collection[str] = ()) -> ClusterState:
        """All nodes, or only those and what speaks of them; raises RuntimeFault."""
        # A longer name cannot be a label's value; `compare` leaves out what was not asked for in any case.
        selects = bool(only) and max(map(len, only)) <= names.LABEL_VALUE_MAX
        of_nodes = {"labelSelector": f"{names.NFD_NODE_NAME} in ({','.join(sorted(only))})"} if selects else {}
        nodes = await self._named(resources.NODE, Node, only)
        reports, nfd = await self._optional(resources.NODEFEATURE, Report, of_nodes)
        rule, rules = await self._rule()
        return ClusterState(
            nodes=tuple(nodes),
            reports=tuple(reports),
            devices=tuple(await self._list(resources.GPUDEVICE, GPUDevice)),
            inventories=tuple(await self._named(resources.GPUNODEINVENTORY, GPUNodeInventory, only)),
            rule=rule,
            nfd=nfd,
            rules=rules,
            unreadable=tuple(self._unreadable),
            only=frozenset(only),
        )

    async def _rule(self) -> tuple[NodeFeatureRule | None, bool]:
        """Our rule, and whether its kind is served."""
        try:
            body = await self._client.get(resources.NODEFEATURERULE, names.NODE_FEATURE_RULE)
        except NotFound as error:
            return None, bool(error.about)
        try:
            return adapter(NodeFeatureRule).validate_json(body), True
        except ValidationError as error:
            self._skip(resources.NODEFEATURERULE, {"metadata": {"name": names.NODE_FEATURE_RULE}}, error)
            return None, True

    async def _optional(self, resource: Resource, record: type[T], query: Mapping[str, str]) -> tuple[list[T], bool]:
        """A list, and whether its kind is served."""
        try:
            return await self._list(resource, record, query), True
        except NotFound:
            return [], False

    async def _named(self, resource: Resource, record: type[T], only: Collection[str]) -> list[T]:
        """The objects of these names that are there; all without names."""
        if not only:
            return await self._list(resource, record)
        found: list[T] = []
        for name in sorted(only):
            query = {"fieldSelector": f"metadata.name={name}"}
            found += await self._list(resource, record, query)
        return found

    async def _list(self, resource: Resource, record: type[T], query: Mapping[str, str] | None = None) -> list[T]:
        for attempt in range(LISTS):
            skipped = len(self._unreadable)
            try:
                return await self._pages(resource, record, query or {})
            except Gone:
                del self._unreadable[skipped:]
                if attempt == LISTS - 1:
                    raise
        raise AssertionError  # the last attempt has raised

    async def _pages(self, resource: Resource, record: type[T], query: Mapping[str, str]) -> list[T]:
        """One list, page after page."""
        page: Any = TypedDict("page", {"metadata": dict[str, Any], "items": list[record]})  # type: ignore[valid-type]
        whole: TypeAdapter[Any] = TypeAdapter(page)
        limit = PAGE_OF_REPORTS if resource is resources.NODEFEATURE else PAGE
        parameters = {"limit": str(limit), **query}
        found: list[T] = []
        while True:
            body = await self._client.request("GET", resource.path(), query=parameters, timeout=REQUEST_SECONDS)
            try:
                try:
                    answer = whole.validate_json(body)
                except ValidationError:
                    answer = self._one_by_one(resource, record, orjson.loads(body))
                meta, items = answer["metadata"], answer["items"]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise Unreachable(f"list {resource.path()}: an answer that is no list: {body[:100]!r}") from error
            found += items
            left = meta.get("remainingItemCount")
            of = f" of {len(found) + left}" if isinstance(left, int) else ""
            self._progress.tell(f"reading: {len(found)}{of} {resource.plural}")
            if not (token := meta.get("continue")):
                return found
            parameters["continue"] = token

    def _one_by_one(self, resource: Resource, record: type[T], answer: dict[str, Any]) -> dict[str, Any]:
        """A page of which an object cannot be read: the others count."""
        items = []
        for entry in answer.get("items") or ():
            try:
                items.append(adapter(record).validate_python(entry))
            except ValidationError as error:
                self._skip(resource, entry, error)
        return {"metadata": answer["metadata"], "items": items}

    def _skip(self, resource: Resource, entry: dict[str, Any], error: ValidationError) -> None:
        meta = entry["metadata"]
        name = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
        first = error.errors()[0]
        why = f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}"
        self._unreadable.append((f"{resource.kind} {name}", why))
