"""What the pods of a driver find on a simulated node, and what `nodeagent driver` says of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import orjson

from controllers.api import names
from controllers.api.driver_look import Holder, Look, Module
from controllers.api.record import to_json
from sim.nodes.bus import NVIDIA

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.nodes.machine import Machine
    from sim.nodes.modules import Loaded
    from sim.nodes.pods import Container

MODULES: Final = ("nvidia", "nvidia_modeset", "nvidia_uvm")
GOING: Final = "going"
ROOM_MIB: Final = 200_000
NO_ROOM_MIB: Final = 200
STRANGER: Final = Holder(pid=4242, command="python3")
"""The process of fault holder-process."""
DAEMON: Final = "nvidia-persistenced"
"""Of the pod that brought the driver: it holds the driver's devices open as long as the pod runs."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A node, as far as drivers go."""

    machine: Machine
    boot: str
    """Its start."""
    noted: Loaded | None
    """Modules that a container loaded, whichever boot that was in."""
    holders: frozenset[str] = frozenset()
    """Pods that hold the driver's devices open, by uid."""
    secrets: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Keys of the Secrets that pods name, as far as there are such Secrets."""

    def refuses(self, container: Container) -> str:
        """Why kubelet cannot make a container's environment; empty where it can."""
        for asked in container.secrets:
            keys = self.secrets.get(asked.name)
            if keys is None:
                return f'secret "{asked.name}" not found'
            if asked.key and asked.key not in keys:
                return f"couldn't find key {asked.key} in Secret {names.NAMESPACE}/{asked.name}"
        return ""

    @property
    def loaded(self) -> Loaded | None:
        """Modules that a container loaded in this boot."""
        return self.noted if self.noted is not None and self.noted.version and self.noted.boot == self.boot else None

    @property
    def host_driver(self) -> str:
        """The version of the host's own driver; empty without one."""
        software = self.machine.software
        return software.driver if software is not None and not self.machine.host.bare else ""

    def holding(self, kinds: frozenset[str]) -> tuple[Holder, ...]:
        """Who holds the devices open."""
        pods = tuple(Holder(pid=1000 + n, command="cuda", pod_uid=uid) for n, uid in enumerate(sorted(self.holders)))
        return ((STRANGER,) if "holder-process" in kinds else ()) + pods

    @property
    def daemons(self) -> tuple[Holder, ...]:
        """Who holds them open for the driver itself."""
        return (Holder(pid=900, command=DAEMON, pod_uid=self.loaded.pod),) if self.loaded and self.loaded.pod else ()


def look(scene: Scene, kinds: frozenset[str]) -> Look:
    """What is on the node; `kinds`: what befalls the driver that is wanted."""
    machine, host = scene.machine, scene.machine.host
    return Look(
        system=host.system,
        kernel=host.kernel,
        next_kernel=host.next_kernel,
        boot_id=scene.boot,
        secure_boot=host.secure_boot,
        lockdown=host.lockdown,
        modules=_modules(scene, kinds),
        holders=(*scene.daemons, *scene.holding(kinds))[:16],
        host_driver=scene.host_driver,
        free_mib=NO_ROOM_MIB if "disk-full" in kinds else ROOM_MIB,
        mofed="Host" if host.mofed == "Host" else "Container" if host.mofed == "Container" else "",
        gpus=sum(card.vendor == NVIDIA for card in machine.cards),
    )


def line(said: object) -> str:
    """As `nodeagent driver` writes it into its termination message."""
    return orjson.dumps(to_json(said)).decode()


def _modules(scene: Scene, kinds: frozenset[str]) -> tuple[Module, ...]:
    version = scene.host_driver or (scene.loaded.version if scene.loaded is not None else "")
    if "wedged-going" in kinds:
        return (Module(name=MODULES[0], version=version, state=GOING),)
    return tuple(Module(name=name, version=version, state="live") for name in MODULES) if version else ()
