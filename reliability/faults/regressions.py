"""Plans that found a bug, each with what it found; the smoke runs those of its workloads, a campaign all."""

from __future__ import annotations

from typing import Final

from reliability.faults.plans import Plan

FOUND: Final[dict[str, str]] = {
    "handover/apiserver-killed/@6": "each try of a write queued its event again: a hundred in ten seconds",
    "disable/clock-forth/bootstrap@3": "a DaemonSet's name rested until the clock's wrong time had come",
    "expiry/clock-back/gpupool@3": "a reservation was looked at again when the clock's wrong time had come",
    "dangling/clock-forth/gpupool@4": "an annotation that names no pool stayed longer by as much as the clock was off",
    "disable/unseen-one/bootstrap:daemonsets:DELETED:d8-gpu-operator:gpu-dcgm#1": (
        "a deletion was sent again with each look until the watch told of it"
    ),
    "gang/unseen-one/bootstrap:daemonsets:MODIFIED:d8-gpu-operator:gpu-dcgm-exporter#1": (
        "a DaemonSet was written again with each change of another one's status until the watch told of it"
    ),
    "pool/unseen-one/bootstrap:daemonsets:MODIFIED:d8-gpu-operator:gpu-dcgm-exporter#1": (
        "the cache went back to before a write whose event the watch lost, and each look wrote it again"
    ),
}
"""What each found, by the plan's name."""
REGRESSIONS: Final = tuple(map(Plan.parse, FOUND))
