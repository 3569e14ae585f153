"""A check pod on a simulated node: whether its image can be pulled, and what `nodeagent driver look` says. Pure.

It has a container with the driver's image, which asks for the kernel's headers where it would compile, and one of the
node agent, which looks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import driver_look
from controllers.api.driver_look import Prepared
from controllers.driver.pods.container_names import IMAGE, LOOK
from sim.nodes.driver import registry
from sim.nodes.driver.scene import line, look
from sim.nodes.driver.statuses import (
    CONFIG,
    CREATING,
    PULL,
    Said,
    Step,
    as_before,
    elapsed,
    ended,
    is_news,
    of_pod,
    stamp_near,
    waiting,
)
from sim.nodes.driver.takes import takes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.nodes.driver.scene import Scene
    from sim.nodes.pods import Container, Pod

PENDING: Final = "Pending"


def step(pod: Pod, scene: Scene, annotations: Mapping[str, str], now: float) -> Step:
    """The next step of a check pod."""
    if pod.finished:
        return Step()
    image = next((container.image for container in pod.spec.containers if container.name == IMAGE), "")
    kinds = scene.machine.faults.of_driver(registry.version(image))
    times = takes(annotations, kinds)
    known = {status.name: status for status in pod.status.container_statuses}
    moment = stamp_near(now)
    if not known:
        told = {container.name: waiting(CREATING) for container in pod.spec.containers}
        return Step(of_pod(pod, PENDING, told, moment), min(times.pull, times.look) or 0.0)
    age = elapsed(pod.status.start_time, now)
    missing = "pull-missing" in kinds or not registry.exists(image)
    due = {c.name: times.look if c.name == LOOK else times.pull for c in pod.spec.containers}
    told = {}
    for container in pod.spec.containers:
        if age < due[container.name] or known[container.name].state.terminated is not None:
            told[container.name] = as_before(known[container.name])
        elif container.name == IMAGE and missing:
            told[container.name] = waiting(PULL, registry.missing(image))
        elif why := scene.refuses(container):
            told[container.name] = waiting(CONFIG, why)
        else:
            code, says = _end(container, scene, kinds)
            told[container.name] = ended(pod.status.start_time or moment, moment, code, says)
    left = [seconds - age for seconds in due.values() if seconds > age]
    status = of_pod(pod, _phase(told), told, moment)
    after = min(left) if left else times.back_off if _phase(told) == PENDING else None
    return Step(status if is_news(known, told) else None, after)


def _end(container: Container, scene: Scene, kinds: frozenset[str]) -> tuple[int, str]:
    """Exit code and termination message of a container that runs."""
    if container.name == LOOK:
        return driver_look.DONE, line(look(scene, kinds))
    if container.name == IMAGE and registry.compiles(container.image) and "header-missing" in kinds:
        said = f"no package repository has linux-headers-{scene.machine.host.kernel}"
        return driver_look.NODE, line(Prepared(result="Refused", reason="HeadersMissing", message=said))
    return driver_look.DONE, ""


def _phase(told: Mapping[str, Said]) -> str:
    """The phase of a pod whose containers are not started again."""
    if not all("terminated" in said.state for said in told.values()):
        return PENDING
    return "Succeeded" if all(said.ready for said in told.values()) else "Failed"
