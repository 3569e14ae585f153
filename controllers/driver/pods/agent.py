"""The containers of the node agent's role `driver`: what it looks at, and how its word comes back. Pure.

They talk to nobody: they have no token, and their word is a line of JSON in the termination message
(`controllers.api.driver_look`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.components.podspec import env, mount, resources
from controllers.driver.pods import host
from controllers.driver.pods.container_names import LOOK, PREPARE

if TYPE_CHECKING:
    from controllers.components.podspec import Json
    from controllers.driver.pods.inputs import Inputs

_ENVIRONMENT = {
    # The pod shares the host's processes, so that /proc is the host's.
    "HOST_ROOT": host.HOST,
    names.VISIBLE_DEVICES: names.NO_DEVICES,
}
SENTINEL = "/host-run"


def look(image: str) -> Json:
    """The container that looks at the node and changes nothing. `image`: the agent's."""
    mounts = [one | {"readOnly": True} for one in host.AGENT if one["name"] != "run-nvidia"]
    return _container(image, LOOK, [], mounts)


def prepare(given: Inputs) -> Json:
    """The container that clears the way for the driver's, or says what is in it."""
    spec, choice = given.driver.spec, given.choice
    flags = [f"--digest={choice.variant.value}", f"--mode={choice.mode}", f"--version={choice.version}"]
    mounts = [*host.AGENT]
    if spec.rdma.enabled:
        flags.append("--mofed=host" if spec.rdma.host_mofed else "--mofed=container")
    if given.reboot_sentinel:
        flags.append(f"--reboot-sentinel={SENTINEL}/reboot-required")
        mounts.append(mount("run", SENTINEL))
    return _container(given.agent_image, PREPARE, flags, mounts)


def volumes(given: Inputs) -> tuple[str, ...]:
    """The host's folders that `prepare` mounts and the driver's container does not."""
    return ("host", "sys", *(("run",) if given.reboot_sentinel else ()))


def _container(image: str, verb: str, flags: list[str], mounts: list[Json]) -> Json:
    return {
        "name": verb,
        "image": image,
        "command": ["python3", "-m", "nodeagent.driver", verb],
        "args": flags,
        "env": env(_ENVIRONMENT),
        # It sees which processes of the host have cards open, which a profile of AppArmor forbids others, and `prepare`
        # takes modules out of the kernel.
        "securityContext": {"privileged": True, "runAsUser": 0, "runAsGroup": 0, "readOnlyRootFilesystem": True},
        "resources": resources("10m", "64Mi", "256Mi"),
        # Only where it ends before it could say anything.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
