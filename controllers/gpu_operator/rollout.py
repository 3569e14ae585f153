"""How a GPUDriver comes onto nodes, from an upgrade policy of GPU Operator's. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from controllers.gpu_operator.remarks import Fields

_NODES: Final = "([1-9][0-9]{0,4}|[1-9][0-9]?%|100%)"


def rollout(fields: Fields, at: str) -> dict[str, Any]:
    """The rollout, which is paused: whoever has read what comes sets `paused` to false."""
    policy = f"{at}upgradePolicy"
    made: dict[str, Any] = {"paused": True}
    if not fields.flag(f"{policy}.autoUpgrade", usual=True):
        reason = "a GPUDriver that is not paused brings its version onto nodes by itself: leave it paused"
        fields.remark("Different", f"{policy}.autoUpgrade", reason, value=False)
    if nodes := _nodes(fields, policy):
        made["maxUnavailable"] = {"nodes": nodes}
    drains = fields.flag(f"{policy}.drain.enable", usual=False)
    if drains:
        made["strategy"] = "Drain"
    elif fields.has(policy):
        reason = (
            "GPU Operator ends pods with cards before it replaces a driver; here a node's turn comes when its cards"
            " are free. spec.rollout.strategy Drain evicts them"
        )
        fields.remark("Different", f"{policy}.podDeletion", reason)
    if drain := _drain(fields, policy, "drain" if drains else "podDeletion"):
        made["drain"] = drain
    return made


def _nodes(fields: Fields, policy: str) -> str:
    """Nodes that may be out at once: the number where one is given, which is how many the operator has at work."""
    parallel = fields.number(f"{policy}.maxParallelUpgrades", usual=int(fields.has(policy)))
    share = fields.text(f"{policy}.maxUnavailable")
    if share and not re.fullmatch(_NODES, share):
        reason = "a number of nodes from 1, or a share from 1% to 100%; it is left out"
        fields.remark("Refused", f"{policy}.maxUnavailable", reason, share)
        share = ""
    if parallel <= 0:
        return share
    if share.isdigit():
        return str(min(parallel, int(share)))
    if share:
        reason = f"nodes out of service are one limit here: {parallel}, as maxParallelUpgrades has it, and no share"
        fields.remark("Different", f"{policy}.maxUnavailable", reason, share)
    return str(parallel)


def _drain(fields: Fields, policy: str, part: str) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for other in ("drain", "podDeletion"):
        timeout = fields.number(f"{policy}.{other}.timeoutSeconds", usual=0)
        data = fields.flag(f"{policy}.{other}.deleteEmptyDir", usual=False)
        force = fields.flag(f"{policy}.{other}.force", usual=False)
        if other == part:
            made |= {"timeout": f"{timeout}s"} if timeout > 0 else {}
            made |= {"localData": "Evict"} if data else {}
            made |= {"bare": "Evict"} if force else {}
    if (wait := fields.number(f"{policy}.waitForCompletion.timeoutSeconds", usual=0)) > 0:
        made["waitFor"] = f"{wait}s"
    return made
