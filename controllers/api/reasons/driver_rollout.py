"""Why a node keeps the driver that it has for now, or got it back: reasons of a GPUDriver's roll-out and its nodes."""

from __future__ import annotations

from typing import Final

from controllers.api.names import MANAGER_DRIVER
from controllers.api.reasons.row import Row

OWNER: Final = MANAGER_DRIVER
_LATER: Final = "it is in service with the driver that it had, and is tried again by itself"
ROWS: Final = (
    Row(
        "Progressing",
        "True",
        "CardsNotWithdrawn",
        f"the node's cards were not withdrawn within 5 minutes: {_LATER}",
        "look at the device plugin's pods of the node: `kubectl -n d8-gpu-operator get pods -o wide "
        "--field-selector spec.nodeName=<node>`",
    ),
    Row(
        "Progressing",
        "True",
        "PodsRemain",
        f"pods went on using the node's cards for longer than `spec.rollout.drain` allows: {_LATER}",
        "wait, or end what `kubectl gpu node <node>` names; strategy `Drain` evicts pods whose owners allow it; "
        "`kubectl gpu driver retry <node>` tries at once",
    ),
    Row(
        "Progressing",
        "True",
        "ClientsRemain",
        f"the module's own pods on the node did not leave the driver within 5 minutes: {_LATER}",
        "`kubectl -n d8-gpu-operator get pods -o wide --field-selector spec.nodeName=<node>`: one that hangs in "
        "Terminating keeps the driver",
    ),
    Row(
        "Failed",
        "True",
        "RollbackFailed",
        "the node got its former driver back after another one failed there, and that failed, too: it is out of "
        "service",
        "`kubectl gpu driver <driver>` says what was found; reboot the node, or mend that and "
        "`kubectl gpu driver retry <node>`",
    ),
)
