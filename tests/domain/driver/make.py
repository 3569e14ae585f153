"""Nodes and drivers for the tests of choices."""

from __future__ import annotations

from typing import Any

from controllers.api.gpudriver import GPUDriver, GPUDriverSpec
from controllers.api.record import adapter
from controllers.api.system_facts import SystemFacts
from controllers.domain.driver.node import Card, DriverNode

KERNEL = "6.8.0-71-generic"
H100 = Card("2330", (9, 0), frozenset({"nvidia h100 80gb hbm3"}))
GH200 = Card("2342", (9, 0))
B200 = Card("2901", (10, 0))
V100 = Card("1db4", (7, 0), frozenset({"tesla v100-pcie-16gb"}))
STRANGE = Card("ffff")
REVISION = "0123456789"


def spec(version: str = "580.178.04", **fields: Any) -> GPUDriverSpec:
    """A spec as people write it."""
    return adapter(GPUDriverSpec).validate_python({"version": version} | fields)


def driver(name: str, *, created: str = "2026-01-01T00:00:00Z", deleted: bool = False, **fields: Any) -> GPUDriver:
    """A GPUDriver."""
    meta = {"name": name, "creationTimestamp": created}
    meta |= {"deletionTimestamp": "2026-02-01T00:00:00Z"} if deleted else {}
    return adapter(GPUDriver).validate_python({"metadata": meta, "spec": {"version": "580.178.04"} | fields})


def node(
    *cards: Card, kernel: str = KERNEL, labels: dict[str, str] | None = None, elsewhere: str = "", **facts: Any
) -> DriverNode:
    """A node that has told everything; without cards it has one H100."""
    told = SystemFacts(**({"system": "ubuntu24.04", "kernel": kernel} | facts))
    return DriverNode(kernel, told, cards or (H100,), labels or {}, elsewhere)
