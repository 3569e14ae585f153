"""Gangs: pods that are of use only together, and the labels and annotations by which they say so.

Kueue's are of its plain pod groups (pkg/controller/jobs/pod/constants), LeaderWorkerSet's of its groups
(api/leaderworkerset/v1). JobSet, PyTorchJob and others do not put the number of pods on a pod: there the annotations of
our own go into the pod template.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controllers.api.names import PREFIX

GANG: Final = PREFIX + "gang"
GANG_SIZE: Final = PREFIX + "gang-size"
SIZE_MAX: Final = 1024
NAME_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class GangKeys:
    """How one kind of workload marks pods that belong together; each key is a label or an annotation of the pod."""

    owner: str
    name: tuple[str, ...]
    """Keys whose values together name the gang within its namespace."""
    size: str
    """The key with the number of its pods."""


OURS: Final = GangKeys("gpu-control-plane", (GANG,), GANG_SIZE)
KNOWN: Final = (
    OURS,
    GangKeys("Kueue", ("kueue.x-k8s.io/pod-group-name",), "kueue.x-k8s.io/pod-group-total-count"),
    GangKeys(
        "LeaderWorkerSet",
        ("leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"),
        "leaderworkerset.sigs.k8s.io/size",
    ),
)
"""The first whose keys a pod has counts: ours come before those of others, so that they can be overruled."""
KEYS: Final = frozenset(key for one in KNOWN for key in (*one.name, one.size))
