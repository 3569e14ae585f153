"""The pods' network, as text; no I/O."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sim.realnode.places import Places

FILE: Final = "10-e2e.conflist"
SUBNET: Final = "10.251.77.0/24"
"""Addresses of pods; routed on this machine alone."""


def network(places: Places) -> str:
    """A pair of interfaces for each pod, addresses from one range, no masquerading."""
    addresses = {"type": "host-local", "dataDir": str(places.addresses), "ranges": [[{"subnet": SUBNET}]]}
    plugin = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    return json.dumps({"cniVersion": "0.4.0", "name": "e2e", "plugins": [plugin]}, indent=1) + "\n"
