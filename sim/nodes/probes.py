"""Kubelet's probes of the module's own pods: which are ready, and how their status says so. Pure.

KWOK starts a pod with label `gpu.deckhouse.io/component` without making it ready, since it knows nothing
of faults; what is written here makes it so. A pod whose image cannot be pulled is Pending, as kubelet has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.bootstrap.preparation.validations import VALIDATORS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.nodes.faults import Faults
    from sim.nodes.pods import Container, Pod

DISCOVER: Final = "discover"
PULL: Final = "ImagePullBackOff"
ROLES: Final = {component: role for role, component in VALIDATORS.items()}
"""The validators' roles by component."""


@dataclass(frozen=True, slots=True)
class State:
    """What kubelet says of a pod."""

    ready: bool
    waiting: str = ""
    """Why its containers do not run; empty where they do."""


def wanted(component: str, faults: Faults, verdicts: Mapping[str, bool]) -> State:
    """What is to be said; `verdicts`: whether a role of the validator passes on the node."""
    if component in faults.not_ready:
        return State(ready=False, waiting=PULL)
    if component == DISCOVER and faults.no_agent:
        return State(ready=False)
    return State(ready=verdicts.get(ROLES.get(component, ""), True))


def present(pod: Pod) -> State:
    """What is said."""
    waits = (status.state.waiting.reason for status in pod.status.container_statuses if status.state.waiting)
    return State(ready=pod.ready, waiting=next(waits, ""))


def status(pod: Pod, state: State, now: str) -> dict[str, Any]:
    """The fields of the status that say it; `now` as the API writes times."""
    names = " ".join(container.name for container in pod.spec.containers)
    why = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
    condition = {"status": str(state.ready), "lastTransitionTime": now} | ({} if state.ready else why)
    started = pod.status.start_time or now
    return {
        "phase": "Pending" if state.waiting else "Running",
        "conditions": [{"type": kind} | condition for kind in ("ContainersReady", "Ready")],
        "containerStatuses": [_container(container, state, started) for container in pod.spec.containers],
    }


def _container(container: Container, state: State, started: str) -> dict[str, Any]:
    message = f'Back-off pulling image "{container.image}"'
    waiting = {"waiting": {"reason": state.waiting, "message": message}}
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": state.ready,
        "started": not state.waiting,
        "restartCount": 0,
        "state": waiting if state.waiting else {"running": {"startedAt": started}},
    }
