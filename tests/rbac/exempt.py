"""What stays although the audit log does not show its use, or shows a narrower one: each with its reason."""

from __future__ import annotations

from typing import Final

from controllers.api import names
from tests.rbac.judge import Exempt

ITS_NODE: Final = "it watches the one object named after its own node, and RBAC cannot say which node a token is of"
BESIDE: Final = (
    "an object that cannot be read is told of beside it, in its own namespace (the reflector's Unreadable);"
    " the API server's schemas leave no such object to play"
)
OWNER: Final = (
    "a right that admission asks for and nobody exercises: a pool owns its operands with blockOwnerDeletion;"
    " shown by test_a_pools_operands_need_the_right_to_its_finalizers"
)
OTHERS: Final = (names.INVENTORY, names.BOOTSTRAP, names.DRIVER_CONTROLLER, names.WEBHOOK)

EXEMPT: Final = (
    Exempt("unused", names.POOL_CONTROLLER, "gpupools/finalizers.gpu.deckhouse.io", ("update",), OWNER),
    Exempt("nameless", names.MANAGER_DISCOVER, "nodefeatures.nfd.k8s-sigs.io", ("list", "watch"), ITS_NODE),
    Exempt("nameless", names.MANAGER_VALIDATE, "nodefeatures.nfd.k8s-sigs.io", ("list", "watch"), ITS_NODE),
    Exempt("nameless", names.MANAGER_MIG, "configmaps", ("list", "watch"), ITS_NODE),
    *(Exempt("everywhere", who, "events.events.k8s.io", ("create", "get", "patch"), BESIDE) for who in OTHERS),
    # It tells pods of every namespace that they wait, each once.
    Exempt("everywhere", names.POOL_CONTROLLER, "events.events.k8s.io", ("get", "patch"), BESIDE),
)
