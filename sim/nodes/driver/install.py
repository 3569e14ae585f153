"""A driver pod on a simulated node: its init container prepares the node, its driver's container loads modules. Pure.

Where it stands is told by its own status and by the modules that are loaded, so whoever plays it may be stopped at any
moment. A node that was started anew makes every pod begin again, as kubelet has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.driver.pods.container_names import DRIVER
from sim.nodes.driver import registry
from sim.nodes.driver.act import Act, Played
from sim.nodes.driver.loading import load
from sim.nodes.driver.preparing import is_prepared
from sim.nodes.driver.statuses import (
    CONFIG,
    CREATING,
    INITIALIZING,
    PULL,
    Step,
    is_news,
    of_pod,
    running,
    started,
    waiting,
)
from sim.nodes.driver.takes import takes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.nodes.driver.scene import Scene
    from sim.nodes.pods import Pod


def step(pod: Pod, scene: Scene, annotations: Mapping[str, str], now: float) -> Played:
    """The next step of a driver pod."""
    image = next((container.image for container in pod.spec.containers if container.name == DRIVER), "")
    kinds = scene.machine.faults.of_driver(registry.version(image))
    act = Act(pod, scene, kinds, takes(annotations, kinds), now, image)
    known = act.known
    if not known or (pod.ready and not act.fresh):
        _begin(act)
    elif is_prepared(act):
        _install(act)
    if act.reboots:
        _begin(act)  # kubelet starts everything anew
    phase = "Running" if all(act.told[c.name].ready for c in pod.spec.init_containers) else "Pending"
    if any(said.waits and said.state["waiting"]["reason"] in (CREATING, PULL, CONFIG) for said in act.told.values()):
        phase = "Pending"
    status = of_pod(pod, phase, act.told, act.moment) if is_news(known, act.told) or not known else None
    return Played(Step(status, act.after), act.modules, act.unloaded, act.reboots)


def _begin(act: Act) -> None:
    """Start the first init container; the node was started anew, or the pod is new."""
    inits = act.pod.spec.init_containers
    for number, container in enumerate(inits):
        act.told[container.name] = running(act.moment) if number == 0 else waiting(INITIALIZING)
    for container in act.pod.spec.containers:
        act.told[container.name] = waiting(INITIALIZING if inits else CREATING)
    act.wake(act.times.prepare)


def _install(act: Act) -> None:
    """The driver's container, and those beside it."""
    known = act.known
    act.told[DRIVER] = said = load(act, known[DRIVER])
    for container in act.pod.spec.containers:
        if container.name != DRIVER:
            since = started(known[container.name])
            beside = running(since or act.moment, ready=said.ready) if not said.waits else waiting(CREATING)
            act.told[container.name] = beside
