"""The check of a container with cards, by the module's own node agent. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.components import VALIDATOR
from controllers.components import podspec
from controllers.components.builder import Builder
from controllers.components.node_check import HOST, check_pod

if TYPE_CHECKING:
    from controllers.components.builder import Inputs
    from controllers.components.podspec import Json

CDI: Final = {"cdi": "/host/root/var/run/cdi"}


def pod(given: Inputs) -> Json:
    """A container like a workload's: under the runtime class, all cards asked for, nothing mounted by hand.

    The host's folders beside that are for the checks of the runtime's configuration and of the CDI specifications.
    The limit leaves room for one context of CUDA, whose library keeps some hundred MiB on the host, once in a boot.
    """
    cards = podspec.env({names.VISIBLE_DEVICES: "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"})
    made = check_pod(VALIDATOR, "container", given.image, HOST | CDI, cards, limit="1Gi")
    return {"runtimeClassName": names.RUNTIME_CLASS} | made


BUILDER: Final = Builder(pod)
