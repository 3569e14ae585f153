"""What kubelet says of containers and pods, as fields of a pod's status. Pure. Times are as the API writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.domain.clock import begun, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sim.nodes.pods import Container, ContainerStatus, Pod

CREATING: Final = "ContainerCreating"
INITIALIZING: Final = "PodInitializing"
PULL: Final = "ImagePullBackOff"
CONFIG: Final = "CreateContainerConfigError"
CRASH: Final = "CrashLoopBackOff"


@dataclass(frozen=True, slots=True)
class Said:
    """What is to be said of one container."""

    state: Mapping[str, Any]
    ready: bool = False
    restarts: int = 0
    last: Mapping[str, Any] | None = None
    """Its end before this state."""

    @property
    def runs(self) -> bool:
        """Whether it runs."""
        return "running" in self.state

    @property
    def waits(self) -> bool:
        """Whether it waits."""
        return "waiting" in self.state


@dataclass(frozen=True, slots=True)
class Step:
    """What is to be said of a pod now, and when to look again."""

    status: dict[str, Any] | None = None
    """None where nothing new is to be said."""
    after: float | None = None
    """Seconds; None where nothing changes by itself."""


def waiting(reason: str, message: str = "") -> Said:
    """A container that waits."""
    return Said({"waiting": {"reason": reason} | ({"message": message} if message else {})})


def running(since: str, *, ready: bool = False) -> Said:
    """A container that runs."""
    return Said({"running": {"startedAt": since}}, ready=ready)


def ended(since: str, at: str, code: int = 0, message: str = "") -> Said:
    """A container that has ended."""
    end = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": since, "finishedAt": at}
    return Said({"terminated": end | ({"message": message} if message else {})}, ready=code == 0)


def crashed(known: ContainerStatus, at: str, code: int, message: str) -> Said:
    """A container that failed and is to be started again."""
    since = started(known) or at
    told = f"back-off 10s restarting failed container={known.name}"
    state = {"waiting": {"reason": CRASH, "message": told}}
    return Said(state, restarts=known.restart_count + 1, last=ended(since, at, code, message).state)


def again(known: ContainerStatus, now: str) -> Said:
    """A container that is started again; how it ended the last time stays known."""
    end = known.last_state.terminated or known.state.terminated
    last = (
        ended(end.started_at or now, end.finished_at or now, end.exit_code, end.message).state
        if end is not None
        else None
    )
    return Said({"running": {"startedAt": now}}, restarts=known.restart_count, last=last)


def as_before(known: ContainerStatus) -> Said:
    """A container of which nothing new is to be said."""
    state: dict[str, Any] = {}
    if (run := known.state.running) is not None:
        state = {"running": {"startedAt": run.started_at}}
    elif (end := known.state.terminated) is not None:
        state = dict(ended(end.started_at or "", end.finished_at or "", end.exit_code, end.message).state)
    elif known.state.waiting is not None:
        state = dict(waiting(known.state.waiting.reason).state)
    said = again(known, "")
    return Said(state, known.ready, known.restart_count, said.last)


def started(known: ContainerStatus) -> str:
    """Since when a container runs; empty where it does not."""
    return (known.state.running.started_at or "") if known.state.running is not None else ""


def stamp_near(now: float) -> str:
    """The nearest whole second, since kubelet's times have no parts of one."""
    return stamp(now + 0.5)


def elapsed(since: str | None, now: float) -> float:
    """Seconds since a time; of one that is not there, none."""
    return now - begun(since, now) if since else 0.0


def is_news(known: Mapping[str, ContainerStatus], told: Mapping[str, Said]) -> bool:
    """Whether what is to be said of a container is another kind of state than was said, or it waits otherwise."""
    for name, said in told.items():
        if name not in known:
            return True
        was, reason = known[name].state, said.state.get("waiting", {}).get("reason")
        before = "waiting" if was.waiting else "running" if was.running else "terminated" if was.terminated else ""
        if before not in said.state or (was.waiting is not None and reason != was.waiting.reason):
            return True
        if said.ready is not known[name].ready or said.restarts != known[name].restart_count:
            return True
    return False


def of_pod(pod: Pod, phase: str, told: Mapping[str, Said], now: str) -> dict[str, Any]:
    """The status of a pod; `told`: what is said of its containers, by name."""
    inits = [_entry(container, told[container.name]) for container in pod.spec.init_containers]
    mains = [_entry(container, told[container.name]) for container in pod.spec.containers]
    initialized = all(told[container.name].ready for container in pod.spec.init_containers)
    ready = bool(mains) and all(entry["ready"] and "running" in entry["state"] for entry in mains)
    status: dict[str, Any] = {
        "phase": phase,
        "startTime": pod.status.start_time or now,
        "conditions": _conditions(pod, {"Initialized": initialized, "ContainersReady": ready, "Ready": ready}, now),
        "containerStatuses": mains,
    }
    return status | ({"initContainerStatuses": inits} if inits else {})


def _entry(container: Container, said: Said) -> dict[str, Any]:
    made = {
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "ready": said.ready,
        "started": said.runs and said.ready,
        "restartCount": said.restarts,
        "state": dict(said.state),
    }
    return made | ({"lastState": dict(said.last)} if said.last is not None else {})


def _conditions(pod: Pod, wanted: Mapping[str, bool], now: str) -> Sequence[dict[str, str]]:
    known = {condition.type: condition for condition in pod.status.conditions}
    return [
        {
            "type": kind,
            "status": str(value),
            "lastTransitionTime": known[kind].last_transition_time or now
            if kind in known and known[kind].status == str(value)
            else now,
        }
        for kind, value in wanted.items()
    ]
