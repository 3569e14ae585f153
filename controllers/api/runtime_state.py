"""States of a node's container runtime, as role `toolkit` of the node agent tells them in the node's report. Pure."""

from __future__ import annotations

from typing import Final, Literal, get_args

RuntimeState = Literal[
    "Ready",
    "AwaitingToolkit",
    "AwaitingNodeConfiguration",
    "AwaitingTurn",
    "AwaitingRuntimeRestart",
    "ByHand",
    "NotConfigured",
    "RuntimeReadOnly",
    "Refused",
    "Reverted",
    "Silent",
]
READY: Final = "Ready"
AWAITING_TOOLKIT: Final = "AwaitingToolkit"
AWAITING_NODE: Final = "AwaitingNodeConfiguration"
AWAITING_TURN: Final = "AwaitingTurn"
AWAITING_RESTART: Final = "AwaitingRuntimeRestart"
BY_HAND: Final = "ByHand"
NOT_CONFIGURED: Final = "NotConfigured"
READ_ONLY: Final = "RuntimeReadOnly"
REFUSED: Final = "Refused"
REVERTED: Final = "Reverted"
SILENT: Final = "Silent"
STATES: Final[tuple[RuntimeState, ...]] = get_args(RuntimeState)
SETTLED: Final = (READY, BY_HAND)
"""In which nothing is left to do to the runtime, and a node needs no turn; what containers get the validator says."""
KIND_MAX: Final = 64
MESSAGE_MAX: Final = 512
"""Characters at most of the kind and of the message that a node tells with its state."""
