"""The states that a look at a node's container runtime comes to, and the file that tells others of the last one.

The node agent's discovery reads the file on the host and puts it into the node's report. It lies below `/run`, so that
a boot empties it. It says nothing of what stands in a configuration.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.runtime_state import AWAITING_NODE, AWAITING_RESTART, AWAITING_TURN, SETTLED
from nodeagent.host.toolkit import RUNTIME_STATE
from nodeagent.toolkit import disk

if TYPE_CHECKING:
    from nodeagent.toolkit.host import Host

WAITING: Final = (AWAITING_NODE, AWAITING_TURN, AWAITING_RESTART)
"""In which a changed configuration is not in force yet, and the process runs as it did before."""
STATE_FILE: Final = f"/{RUNTIME_STATE}"
"""On the host."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a node's container runtime, as a look found or left it."""

    phase: str
    reason: str = ""
    kind: str = ""
    """The runtime's kind, as people call it; empty where that is not known."""
    serves: bool = False
    """Whether the process runs with a handler of ours meanwhile, though not with all that it is to have."""

    @property
    def is_ready(self) -> bool:
        """Whether the pod is ready: nothing is to be done, or what is to be done waits and pods get cards meanwhile."""
        return self.phase in SETTLED or (self.phase in WAITING and self.serves)


def tell(host: Host, state: State | None) -> None:
    """Write the file, where it says something else; None takes it away. Raises OSError."""
    path = host.at(STATE_FILE)
    if state is None:
        disk.remove(path)
        return
    content = json.dumps({"state": state.phase, "kind": state.kind, "reason": state.reason}).encode()
    if not path.exists() or path.read_bytes() != content:
        disk.write(path, content)
