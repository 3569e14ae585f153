"""A driver pod at one moment, and what comes of a look at it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from controllers.driver.pods.container_names import DRIVER
from sim.nodes.driver.statuses import stamp_near

if TYPE_CHECKING:
    from sim.nodes.driver.scene import Scene
    from sim.nodes.driver.statuses import Said, Step
    from sim.nodes.driver.takes import Takes
    from sim.nodes.modules import Loaded
    from sim.nodes.pods import Container, ContainerStatus, Pod

"""The container with the driver's image that loads the modules."""


@dataclass(frozen=True, slots=True)
class Played:
    """What comes of one look at a driver pod."""

    step: Step
    modules: Loaded | None = None
    """Modules as they are now, where that is news."""
    unloaded: bool = False
    """Whether they are no more, which is news."""
    reboots: bool = False
    """Whether the node is rebooted now."""


@dataclass(slots=True)
class Act:
    """A driver pod at one moment."""

    pod: Pod
    scene: Scene
    kinds: frozenset[str]
    times: Takes
    now: float
    image: str
    told: dict[str, Said] = field(default_factory=dict)
    after: float | None = None
    modules: Loaded | None = None
    unloaded: bool = False
    reboots: bool = False

    @property
    def moment(self) -> str:
        """The time, as the API writes it."""
        return stamp_near(self.now)

    @property
    def known(self) -> dict[str, ContainerStatus]:
        """What is said of its containers, by name."""
        status = self.pod.status
        return {one.name: one for one in (*status.init_container_statuses, *status.container_statuses)}

    @property
    def driver(self) -> Container:
        """The container that loads the modules."""
        return next(container for container in self.pod.spec.containers if container.name == DRIVER)

    @property
    def fresh(self) -> bool:
        """Whether the modules are this pod's, of this boot."""
        loaded = self.scene.loaded
        return loaded is not None and loaded.pod == self.pod.metadata.uid

    def wake(self, seconds: float) -> None:
        """Look again after a while."""
        self.after = seconds if self.after is None else min(self.after, seconds)
