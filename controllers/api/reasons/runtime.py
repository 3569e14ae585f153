"""Reasons of ToolkitMissing that speak of a node's container runtime and NVIDIA's handlers in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.names import MANAGER_BOOTSTRAP
from controllers.api.reasons.row import Row
from controllers.api.runtime_state import (
    AWAITING_NODE,
    AWAITING_RESTART,
    AWAITING_TURN,
    NOT_CONFIGURED,
    READ_ONLY,
    REFUSED,
    REVERTED,
    SILENT,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.reasons.typed import Reason

OWNER: Final = MANAGER_BOOTSTRAP
RUNTIME_REASONS: Final[Mapping[str, Reason]] = {
    AWAITING_NODE: "AwaitingNodeConfiguration",
    AWAITING_TURN: "AwaitingTurn",
    AWAITING_RESTART: "AwaitingRuntimeRestart",
    NOT_CONFIGURED: "RuntimeNotConfigured",
    READ_ONLY: "RuntimeReadOnly",
    REFUSED: "RuntimeRefused",
    REVERTED: "RuntimeReverted",
    SILENT: "RuntimeSilent",
}
"""The reason for each state of a runtime that keeps the toolkit from being ready."""
_LOG: Final = "`kubectl -n d8-gpu-operator logs -l gpu.deckhouse.io/component=toolkit -c runtime --prefix`"
ROWS: Final = tuple(
    Row("ToolkitMissing", "True Unknown", reason, meaning, cure)
    for reason, meaning, cure in (
        (
            "AwaitingNodeConfiguration",
            "the drop-in is written, and Deckhouse's bashible has not merged it yet",
            "wait for bashible's next run; `journalctl -u bashible` on the node says why it does not",
        ),
        (
            "AwaitingTurn",
            "the container runtime has to be restarted, and other nodes have their turn first",
            "wait; `bootstrap.toolkit.runtimeRestarts` says how many at once; who had its turn counts until it is well",
        ),
        (
            "AwaitingRuntimeRestart",
            "the runtime takes the handlers up at its next start, which is a person's to choose",
            "restart the service that the message names, after a drain where it says so",
        ),
        (
            "RuntimeNotConfigured",
            "the runtime runs without NVIDIA's handlers, and `bootstrap.toolkit.runtimeConfig` is `Never`",
            "add handler `nvidia` to the runtime's configuration, or set `Auto`",
        ),
        (
            "RuntimeReadOnly",
            "the host's files cannot be written",
            "use the vendor's way: system extensions of Talos and Flatcar, the `-nvidia` variants of Bottlerocket; "
            "with the toolkit in the image set `bootstrap.toolkit.enabled: false`",
        ),
        (
            "RuntimeRefused",
            "the runtime's files are in a form that is not edited, or a change would do more than the module's",
            f"do as the message says; {_LOG}",
        ),
        (
            "RuntimeReverted",
            "the runtime did not come back with the handlers; its former files are in force",
            f"{_LOG}; once the cause is mended, delete `/var/lib/gpu-control-plane/toolkit/refused.json` on the node",
        ),
        (
            "RuntimeSilent",
            "the runtime does not answer",
            "look at its service on the node",
        ),
    )
)
