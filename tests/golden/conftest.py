"""The inventory's own control plane, for the dumps too."""

from __future__ import annotations

from tests.inventory.conftest import inventory_plane, plane

__all__ = ["inventory_plane", "plane"]
