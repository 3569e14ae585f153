"""A check pod on a simulated node: whether its image can be pulled, and what `nodeagent driver look` says. Pure.

It has a container with the driver's image, which ends at once, and one of the node agent, which looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.clock import stamp
from sim.nodes.driver import registry
from sim.nodes.driver.scene import line, look
from sim.nodes.driver.statuses import CREATING, PULL, Step, as_before, elapsed, ended, is_news, of_pod, waiting
from sim.nodes.driver.takes import takes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.nodes.driver.scene import Scene
    from sim.nodes.pods import Pod

IMAGE: Final = "image"
"""The container with the driver's image."""


def step(pod: Pod, scene: Scene, annotations: Mapping[str, str], now: float) -> Step:
    """The next step of a check pod."""
    if pod.finished:
        return Step()
    image = next((container.image for container in pod.spec.containers if container.name == IMAGE), "")
    kinds = scene.machine.faults.of_driver(registry.version(image))
    times = takes(annotations, kinds)
    known = {status.name: status for status in pod.status.container_statuses}
    moment = stamp(now)
    if not known:
        told = {container.name: waiting(CREATING) for container in pod.spec.containers}
        return Step(of_pod(pod, "Pending", told, moment), min(times.pull, times.look) or 0.0)
    age = elapsed(pod.status.start_time, now)
    missing = "pull-missing" in kinds or not registry.exists(image)
    due = {c.name: times.pull if c.name == IMAGE else times.look for c in pod.spec.containers}
    told = {}
    for container in pod.spec.containers:
        if age < due[container.name] or known[container.name].state.terminated is not None:
            told[container.name] = as_before(known[container.name])
        elif container.name == IMAGE and missing:
            told[container.name] = waiting(PULL, registry.missing(image))
        else:
            says = "" if container.name == IMAGE else line(look(scene, kinds))
            told[container.name] = ended(pod.status.start_time or moment, moment, message=says)
    over = all("terminated" in said.state for said in told.values())
    left = [seconds - age for seconds in due.values() if seconds > age]
    status = of_pod(pod, "Succeeded" if over else "Pending", told, moment)
    after = min(left) if left else times.back_off if missing else None
    return Step(status if is_news(known, told) else None, after)
