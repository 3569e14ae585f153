"""Every condition of the module: who sets it, with which status and reason, what that means, what to do.

The one list of them. A module here has rows of one owner, so the owner of a condition follows from its rows.
`python -m tools.docs` makes docs/conditions.md of them, the owners' table of the policies, and `typed`, by which the
type checker knows a reason: one that has no row here cannot be spelled. kubectl's cures are read from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from controllers.api.conditions import READY_FOR_POOLING
from controllers.api.reasons import (
    components,
    configured,
    container_checks,
    device,
    driver,
    driver_blocked,
    driver_checks,
    driver_failed,
    driver_rollout,
    driver_waiting,
    faulted,
    host,
    inventory,
    kube_node,
    near,
    node_driver,
    node_pools,
    pool,
    queued,
    readiness,
    runtime,
    watching,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from controllers.api.reasons.row import Row
    from controllers.api.reasons.typed import CheckWord, Reason


def by_condition(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The rows of each condition together, the conditions in the order in which they first come."""
    order = list(dict.fromkeys(row.kinds.split()[0] for row in rows))
    return tuple(sorted(rows, key=lambda row: order.index(row.kinds.split()[0])))


SECTIONS: Final = {
    "node-inventory": inventory.ROWS,
    "node-bootstrap": by_condition(
        readiness.ROWS + host.ROWS + runtime.ROWS + node_driver.ROWS + watching.ROWS + components.ROWS
    ),
    "node-pools": node_pools.ROWS,
    "validators": driver_checks.ROWS + container_checks.ROWS,
    "device": device.ROWS + faulted.ROWS + configured.ROWS,
    "pool": pool.ROWS,
    "pod": queued.ROWS + near.ROWS,
    "kube-node": kube_node.ROWS,
    "driver": driver.ROWS,
    "driver-nodes": by_condition(driver_blocked.ROWS + driver_failed.ROWS + driver_rollout.ROWS + driver_waiting.ROWS),
}
"""The rows by the table of docs/conditions.md in which they stand."""
NODE: Final = SECTIONS["node-inventory"] + SECTIONS["node-bootstrap"] + SECTIONS["node-pools"] + SECTIONS["validators"]
DEVICE: Final = SECTIONS["device"]
POOL: Final = SECTIONS["pool"]
POD: Final = SECTIONS["pod"]
KUBE_NODE: Final = SECTIONS["kube-node"]
DRIVER: Final = SECTIONS["driver"] + SECTIONS["driver-nodes"]


def _owners(*modules: ModuleType) -> Mapping[str, str]:
    """The field manager of each type of condition, by the rows of modules that have an OWNER."""
    return {kind: module.OWNER for module in modules for row in module.ROWS for kind in row.kinds.split()}


NODE_OWNERS: Final = _owners(inventory, readiness, host, runtime, node_driver, watching, components, node_pools)
"""The field manager of each condition of a GPUNodeInventory."""
DEVICE_OWNERS: Final = _owners(device, faulted, configured)
"""Of a GPUDevice."""
POOL_OWNERS: Final = _owners(pool)
"""Of a GPUPool."""
DRIVER_OWNERS: Final = _owners(driver, driver_blocked, driver_failed, driver_rollout, driver_waiting)
"""Of a GPUDriver."""
_BY_CELL: Final = {
    scope: {cell: row for row in reversed(rows) for cell in row.cells()}
    for scope, rows in (
        ("node", NODE),
        ("card", DEVICE),
        ("pool", POOL),
        ("pod", POD),
        ("kube-node", KUBE_NODE),
        ("driver", DRIVER),
    )
}


def words(*sections: str) -> list[str]:
    """The reasons of these sections, or of all, sorted."""
    rows = (row for name in sections or SECTIONS for row in SECTIONS[name])
    return sorted({reason for row in rows for reason in row.reasons.split()})


CHECK_WORDS: Final = frozenset(words("validators"))
"""What the node agent's validators may say."""
CHECK_FAILED: Final = "CheckFailed"
"""The reason of a failed check whose own word is none."""


def check_word(said: str) -> Reason:
    """A word that a validator said, as a reason: agents of other versions may say what no row is about."""
    return cast("CheckWord", said) if said in CHECK_WORDS else CHECK_FAILED


def find(scope: str, kind: str, status: str, reason: str) -> Row | None:
    """The row of a condition of a `node` (GPUNodeInventory), `card`, `pool`, `pod`, `driver`; None where no row is."""
    row = _BY_CELL[scope].get((kind, status, reason))
    if row is None and (scope, kind, status) == ("node", READY_FOR_POOLING, "False"):
        # It says why in the words of the condition that found it.
        return next(
            (one for one in SECTIONS["node-bootstrap"] + SECTIONS["validators"] if _blocks_pooling(one, reason)), None
        )
    return row


def of_driver_work(reason: str) -> Row | None:
    """The row of a reason of a node's `driverWork`, which stands among those of its GPUDriver's conditions."""
    return next((row for row in DRIVER if reason in row.reasons.split()), None)


def _blocks_pooling(row: Row, reason: str) -> bool:
    return reason in row.reasons.split() and row.statuses != "False"
