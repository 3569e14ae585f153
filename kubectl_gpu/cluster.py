"""The cluster as this person may see it: what is read and written under their rights."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import orjson
from pydantic import ValidationError

from controllers.api.record import adapter
from controllers.explain.faults import UsageError, describe_fault
from controllers.explain.records import Unreadable
from controllers.runtime.client import JSON_PATCH, MERGE
from controllers.runtime.errors import NotFound, RuntimeFault
from controllers.runtime.readers import REVIEW

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping, Sequence

    from controllers.api.meta import KubeObject
    from controllers.api.resources import Resource
    from controllers.runtime.client import Client

PAGE = 500
MANAGER = "kubectl-gpu"

T = TypeVar("T", bound="KubeObject")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """An object as it was sent, and as far as it is read."""

    raw: dict[str, Any]
    obj: T


class Cluster:
    """Reads and writes under one identity; raises RuntimeFault as the client does."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace
        """The namespace that is meant where none is given."""

    @property
    def client(self) -> Client:
        """What it asks."""
        return self._client

    async def get(self, resource: Resource, cls: type[T], name: str, namespace: str | None = None) -> Found[T]:
        """One object."""
        raw = self._parsed(await self._client.get(resource, name, namespace))
        return Found(raw, _read(cls, raw))

    async def list(
        self,
        resource: Resource,
        cls: type[T],
        *,
        namespace: str | None = None,
        labels: str | None = None,
        fields: Mapping[str, str] | None = None,
    ) -> list[Found[T]]:
        """All objects that match, by pages. `fields`: field selectors with their values."""
        query = {"limit": str(PAGE)}
        if labels:
            query["labelSelector"] = labels
        if fields:
            query["fieldSelector"] = ",".join(f"{key}={value}" for key, value in fields.items())
        found: list[Found[T]] = []
        while True:
            page = self._parsed(await self._client.request("GET", resource.path(namespace), query=query), "items")
            # An item of a list leaves out what the list says for all.
            about = {"apiVersion": resource.api_version, "kind": resource.kind}
            found += [Found({**about, **raw}, _read(cls, raw)) for raw in page["items"] or ()]
            more = page["metadata"].get("continue")
            if not more:
                return found
            query["continue"] = more

    def _parsed(self, body: bytes, *parts: str) -> dict[str, Any]:
        """An answer that has metadata, and these parts; who is no API server may well answer 200 to everything."""
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if isinstance(answer, dict) and isinstance(answer.get("metadata"), dict) and answer.keys() >= {*parts}:
            return answer
        raise UsageError(
            f"{self._client.server} answered, and not as an API server: check the cluster's address in the kubeconfig."
        )

    async def annotate(
        self, resource: Resource, obj: KubeObject, key: str, value: str | None, *, dry_run: bool
    ) -> None:
        """Set or remove one annotation of exactly this object; a server's dry run asks everybody and writes nothing."""
        await self.mark(resource, obj, {"annotations": {key: value}}, dry_run=dry_run)

    async def mark(
        self,
        resource: Resource,
        obj: KubeObject,
        marks: Mapping[str, Mapping[str, str | None]],
        *,
        dry_run: bool,
    ) -> None:
        """The same for any annotations and labels: `marks` is a part of the object's metadata."""
        query = {"fieldManager": MANAGER} | ({"dryRun": "All"} if dry_run else {})
        body = {"metadata": {"uid": obj.metadata.uid, **marks}}
        path = resource.path(name=obj.name)
        await self._client.request("PATCH", path, query=query, body=body, content_type=MERGE)

    async def write(
        self, resource: Resource, body: Mapping[str, Any], *, is_new: bool, dry_run: bool
    ) -> dict[str, Any]:
        """Create the object, or replace the one of its resourceVersion; returns it as it is, or would be, stored.

        A field that the API server does not know is an error.
        """
        query = {"fieldManager": MANAGER, "fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        meta = body["metadata"]
        verb, path = ("POST", resource.path()) if is_new else ("PUT", resource.path(name=meta["name"]))
        return self._parsed(await self._client.request(verb, path, query=query, body=body))

    async def create(self, resource: Resource, body: Mapping[str, Any]) -> None:
        """Create the object, whatever fields of it the API server knows; raises AlreadyExists."""
        meta = body["metadata"]
        await self._client.create(resource, body, meta.get("namespace"), manager=MANAGER)

    async def merge(self, resource: Resource, raw: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        """Carry out a merge patch on an object that was read; conditional on what its metadata names."""
        meta = raw["metadata"]
        await self._client.merge(resource, meta["name"], body, manager=MANAGER, namespace=meta.get("namespace"))

    async def delete(self, resource: Resource, raw: Mapping[str, Any], *, orphan: bool = False) -> None:
        """Delete exactly the object that was read, where it is still there; with `orphan` not what it owns."""
        meta = raw["metadata"]
        with suppress(NotFound):
            await self._client.delete(
                resource, meta["name"], meta.get("namespace"), uid=meta["uid"], resource_version=None, orphan=orphan
            )

    async def json_patch(
        self, resource: Resource, obj: KubeObject, operations: Sequence[Mapping[str, Any]], *, dry_run: bool
    ) -> None:
        """Carry out a JSON patch on the object."""
        query = {"fieldManager": MANAGER} | ({"dryRun": "All"} if dry_run else {})
        path = resource.path(obj.metadata.namespace, obj.name)
        await self._client.request("PATCH", path, query=query, body=list(operations), content_type=JSON_PATCH)

    async def may(self, verb: str, resource: Resource, name: str) -> bool:
        """Whether this person has a right on one object that is in no namespace, as the API server answers it."""
        wanted = {"verb": verb, "group": resource.group, "resource": resource.plural, "name": name}
        body = {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "spec": {"resourceAttributes": wanted}}
        answer = self._parsed(await self._client.request("POST", REVIEW.path(), body=body), "status")
        return bool(answer["status"].get("allowed"))


def _read(cls: type[T], raw: dict[str, Any]) -> T:
    try:
        return adapter(cls).validate_python(raw)
    except ValidationError as error:
        first = error.errors()[0]
        name, where = raw.get("metadata", {}).get("name"), ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"{cls.__name__} {name} is not as this program knows it ({where}: {first['msg']}):"
            " use the kubectl-gpu of the module's version."
        ) from error


async def attempt(reading: Awaitable[R]) -> R | Unreadable:
    """What can be read, or the sentence that says why not."""
    try:
        return await reading
    except RuntimeFault as error:
        return Unreadable(describe_fault(error))
