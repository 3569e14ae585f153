"""How a piece of the contract is declared: a frozen pydantic dataclass with slots.

One declaration serves three needs. Pydantic reads it straight from JSON bytes and skips
the fields that are not declared; slots keep a cached card near 1 kB where a dict takes 86;
and the JSON schema of it becomes the CRD. Field docstrings become the CRD's
descriptions (described.py).
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, dataclass_transform

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

T = TypeVar("T")

# Kubernetes writes these words in capitals wherever they do not begin a name.
_CAPITALS = {"id": "ID", "ids": "IDs", "uid": "UID", "mib": "MiB", "ttl": "TTL"}


def json_name(name: str) -> str:
    """`inventory_id` → `inventoryID`: the JSON spelling of an attribute."""
    head, *rest = name.split("_")
    return head + "".join(_CAPITALS.get(word, word.capitalize()) for word in rest)


CONFIG = ConfigDict(
    alias_generator=json_name,
    validate_by_name=True,
    validate_by_alias=True,
    extra="ignore",
)
_record = dataclass(slots=True, frozen=True, kw_only=True, config=CONFIG)


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
def record(cls: type[T]) -> type[T]:
    """Make a class an immutable record of the contract."""
    made: type[T] = _record(cls)  # type: ignore[assignment]
    return made


_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def adapter(cls: type[T]) -> TypeAdapter[T]:
    """The (expensive to build) reader and writer of a record; one for each class."""
    if cls not in _adapters:
        _adapters[cls] = TypeAdapter(cls)
    return _adapters[cls]


def to_json(obj: object) -> Any:
    """A record as JSON values, without what is not set (None)."""
    return adapter(type(obj)).dump_python(obj, mode="json", by_alias=True, exclude_none=True)


def schema_extra(**extra: Any) -> Any:
    """Keys for the CRD's schema: `schema_extra(x_kubernetes_list_type="atomic")`."""
    return Field(json_schema_extra={key.replace("_", "-"): value for key, value in extra.items()})


Atomic = schema_extra(x_kubernetes_list_type="atomic")
"""A list that is written as a whole."""


def map_list(key: str) -> Any:
    """A list whose entries are owned one by one, told apart by a key."""
    return Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]})


def rules(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    """CEL rules of a schema from (rule, message) pairs."""
    return [{"rule": rule, "message": message} for rule, message in pairs]


Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339 in UTC; `controllers.domain.clock` reads and writes it."""

__all__ = [
    "CONFIG",
    "Atomic",
    "Timestamp",
    "adapter",
    "json_name",
    "map_list",
    "record",
    "rules",
    "schema_extra",
    "to_json",
]
