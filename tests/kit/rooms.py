"""Tests that share a control plane stand together; who needs one is marked as such, whatever its file says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit import usual

if TYPE_CHECKING:
    from collections.abc import Sequence


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark who asks for the worker's plane, and sort: the same for every worker."""
    for item in items:
        if "worker_plane" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)
    first = places([path_of(item.nodeid) for item in items])
    items.sort(key=lambda item: first[path_of(item.nodeid)])


def places(paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Where each file stands: behind the first that asks for its plane, otherwise as it was."""
    planes: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for number, path in enumerate(dict.fromkeys(paths)):
        plane = usual.of(path).plane
        found[path] = planes.setdefault(plane, number) if plane else number, number
    return found


def path_of(nodeid: str) -> str:
    """The file of a test."""
    return nodeid.partition("::")[0]
