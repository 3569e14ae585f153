"""The check of a node's driver, by the module's own node agent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api.components import DRIVER_VALIDATOR
from controllers.components import podspec
from controllers.components.builder import Builder
from controllers.components.node_check import HOST, check_pod
from controllers.domain.driver import files

if TYPE_CHECKING:
    from controllers.components.builder import Inputs
    from controllers.components.podspec import Json


def pod(given: Inputs) -> Json:
    """Looks at what the driver tells in /proc and /sys, and for its libraries; before any toolkit is there.

    The root of a driver's container is mounted below the host's by itself: beside it, in /run/nvidia, lie pipes and
    sockets, which a read-only mount does not close.

    Of what lies there it sees what the module's own containers note of a driver, and nothing else.

    The host's /dev is not mounted: nobody could open a card's node there without privileges, and below it lies
    /dev/shm, which everybody may write to and which a read-only mount of /dev leaves writable.
    """
    root = given.agent.driver_root
    env = podspec.env({"HOST_DRIVER_ROOT": root})
    made = check_pod(DRIVER_VALIDATOR, "driver", given.image, HOST, env, limit="256Mi")
    if root == "/":
        return made
    (one,) = made["containers"]
    mount = podspec.later(podspec.mount("driver", f"/host/root{root}", read_only=True))
    notes = podspec.mount("driver-notes", f"/host/root{files.OURS}", read_only=True)
    mounting = one | {"volumeMounts": [*one["volumeMounts"], mount, notes]}
    volumes = (("driver", root), ("driver-notes", files.OURS))
    more = [podspec.host_volume(name, path, "DirectoryOrCreate") for name, path in volumes]
    return made | {"containers": [mounting], "volumes": [*made["volumes"], *more]}


BUILDER: Final = Builder(pod)
