"""A driver pod on a simulated node: its init container prepares the node, its driver's container loads modules. Pure.

Where it stands is told by its own status and by the modules that are loaded, so whoever plays it may be stopped at any
moment. A node that was started anew makes every pod begin again, as kubelet has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.driver_look import Prepared
from nodeagent.driver import decide
from nodeagent.host.openfiles import OpenFile
from sim.nodes.driver import registry
from sim.nodes.driver.scene import line, look
from sim.nodes.driver.statuses import (
    CONFIG,
    CREATING,
    INITIALIZING,
    PULL,
    Said,
    Step,
    again,
    as_before,
    crashed,
    elapsed,
    ended,
    is_news,
    of_pod,
    running,
    stamp_near,
    started,
    waiting,
)
from sim.nodes.driver.takes import takes
from sim.nodes.modules import Loaded

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.nodes.driver.scene import Scene
    from sim.nodes.driver.takes import Takes
    from sim.nodes.pods import Container, ContainerStatus, Pod

DRIVER: Final = "nvidia-driver-ctr"
"""The container with the driver's image that loads the modules."""
FLAVOUR: Final = "KERNEL_MODULE_TYPE"
"""Its variable that says open or proprietary."""
PROBE_SECONDS: Final = 1200 + 60
"""After so long the start-up probe gives up and kubelet ends the container."""
KILLED: Final = 137
"""Exit code of a container that kubelet kills."""
XID_AFTER: Final = 10
"""Seconds, of fault xid-after-10-s."""
HEADERS: Final = "Could not resolve Linux kernel version: no package linux-headers-{kernel} in the repositories"
INSMOD: Final = "modprobe: ERROR: could not insert 'nvidia': Invalid argument. Unknown symbol in module (see dmesg)"


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
class _Act:
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
        return stamp_near(self.now)

    @property
    def known(self) -> dict[str, ContainerStatus]:
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


def step(pod: Pod, scene: Scene, annotations: Mapping[str, str], now: float) -> Played:
    """The next step of a driver pod."""
    image = next((container.image for container in pod.spec.containers if container.name == DRIVER), "")
    kinds = scene.machine.faults.of_driver(registry.version(image))
    act = _Act(pod, scene, kinds, takes(annotations, kinds), now, image)
    known = act.known
    if not known or (pod.ready and not act.fresh):
        _begin(act)
    elif _prepared(act):
        _install(act)
    phase = "Running" if all(act.told[c.name].ready for c in pod.spec.init_containers) else "Pending"
    if any(said.waits and said.state["waiting"]["reason"] in (CREATING, PULL, CONFIG) for said in act.told.values()):
        phase = "Pending"
    status = of_pod(pod, phase, act.told, act.moment) if is_news(known, act.told) or not known else None
    return Played(Step(status, act.after), act.modules, act.unloaded, act.reboots)


def _begin(act: _Act) -> None:
    """Start the first init container; the node was started anew, or the pod is new."""
    inits = act.pod.spec.init_containers
    for number, container in enumerate(inits):
        act.told[container.name] = running(act.moment) if number == 0 else waiting(INITIALIZING)
    for container in act.pod.spec.containers:
        act.told[container.name] = waiting(INITIALIZING if inits else CREATING)
    act.wake(act.times.prepare)


def _prepared(act: _Act) -> bool:
    """Whether every init container has ended well; each gets its turn."""
    known, open_ = act.known, True
    for container in act.pod.spec.init_containers:
        status = known[container.name]
        if open_ and status.state.terminated is None:
            act.told[container.name] = _prepare(act, status)
            open_ = act.told[container.name].ready
        else:
            act.told[container.name] = as_before(status)
    if not open_:
        for container in act.pod.spec.containers:
            act.told[container.name] = as_before(known[container.name])
    return open_


def _prepare(act: _Act, known: ContainerStatus) -> Said:
    """What becomes of `nodeagent driver prepare`."""
    if (end := known.last_state.terminated) is not None and known.state.waiting is not None:
        pause = act.times.back_off - elapsed(end.finished_at, act.now)
        act.wake(max(pause, 0.0) or act.times.prepare)
        return as_before(known) if pause > 0 else again(known, act.moment)
    if known.state.waiting is not None:
        act.wake(act.times.prepare)
        return running(act.moment)
    left = act.times.prepare - elapsed(started(known), act.now)
    if left > 0:
        act.wake(left)
        return as_before(known)
    prepared = _prepared_with(act)
    if code := decide.exit_code(prepared):
        act.wake(act.times.back_off)
        return crashed(known, act.moment, code, line(prepared))
    if prepared.result == "Clean" and act.scene.loaded is not None:
        act.unloaded = True
    return ended(started(known), act.moment, message=line(prepared))


def _prepared_with(act: _Act) -> Prepared:
    """What `nodeagent driver prepare` says; what it refuses it says in its own words."""
    scene, seen = act.scene, look(act.scene, act.kinds)
    if "wedged-going" in act.kinds:
        said = decide.refused(
            "RebootRequired", "module nvidia is being unloaded, and that does not end: reboot the node"
        )
        return replace(said, look=seen)
    loaded = scene.loaded
    if loaded is None or loaded.revision == act.pod.metadata.labels.get(names.LABEL_REVISION):
        return Prepared(result="Clean" if loaded is None else "FastPath", look=seen)
    if holders := scene.holding(act.kinds):
        open_ = [OpenFile(one.pid, one.command, one.pod_uid or "") for one in holders]
        return replace(decide.held(open_), look=seen)
    return Prepared(result="Clean", look=seen)


def _install(act: _Act) -> None:
    """The driver's container, and those beside it."""
    known = act.known
    act.told[DRIVER] = said = _load(act, known[DRIVER])
    for container in act.pod.spec.containers:
        if container.name != DRIVER:
            since = started(known[container.name])
            beside = running(since or act.moment, ready=said.ready) if not said.waits else waiting(CREATING)
            act.told[container.name] = beside


def _load(act: _Act, known: ContainerStatus) -> Said:
    if known.state.waiting is not None:
        return _start(act, known)
    if known.ready and act.fresh:
        _befall(act)
        return as_before(known)
    loaded = act.scene.loaded
    if loaded is not None and loaded.revision == act.pod.metadata.labels.get(names.LABEL_REVISION):
        act.modules = _mine(act, loaded.at)
        return running(started(known), ready=True)
    if _is_interrupted(act, known) or _seconds_left(act, known) > 0:
        return as_before(known)
    return _over(act, known)


def _is_interrupted(act: _Act, known: ContainerStatus) -> bool:
    """Whether fault reboot-in-Installing lies ahead of it."""
    if "reboot-in-Installing" not in act.kinds or act.scene.noted is not None:
        return False
    left = act.times.install / 2 - elapsed(started(known), act.now)
    act.reboots = left <= 0
    act.wake(max(left, 0.0))
    return True


def _seconds_left(act: _Act, known: ContainerStatus) -> float:
    """How long it takes yet; then it has come to its end, good or bad."""
    due = PROBE_SECONDS if "hang" in act.kinds else act.times.install
    left = due - elapsed(started(known), act.now)
    if left > 0:
        act.wake(left)
    return left


def _over(act: _Act, known: ContainerStatus) -> Said:
    """The end of an installation."""
    if "hang" in act.kinds:
        act.wake(act.times.back_off)
        return crashed(known, act.moment, KILLED, "")
    if said := _refusal(act):
        act.wake(act.times.back_off)
        return crashed(known, act.moment, 1, said)
    act.modules = _mine(act, act.moment)
    return running(started(known), ready=True)


def _start(act: _Act, known: ContainerStatus) -> Said:
    """A container that waits: for its image, or for another try."""
    if "pull-missing" in act.kinds or not registry.exists(act.image):
        act.wake(act.times.back_off)
        return waiting(PULL, registry.missing(act.image))
    if why := act.scene.refuses(act.driver):
        act.wake(act.times.back_off)
        return waiting(CONFIG, why)
    if (end := known.last_state.terminated) is not None:
        pause = act.times.back_off - elapsed(end.finished_at, act.now)
        act.wake(max(pause, 0.0) or act.times.install)
        return as_before(known) if pause > 0 else again(known, act.moment)
    half = "reboot-in-Installing" in act.kinds
    act.wake(act.times.install / 2 if half else act.times.install)
    return running(act.moment)


def _refusal(act: _Act) -> str:
    """Why the driver's container fails; empty where it does not."""
    if "header-missing" in act.kinds:
        return HEADERS.format(kernel=act.scene.machine.host.kernel)
    return INSMOD if "insmod-fails" in act.kinds else ""


def _mine(act: _Act, at: str) -> Loaded:
    """The modules, once this pod has them."""
    told = {variable.name: variable.value for variable in act.driver.env}
    return Loaded(
        version=registry.version(act.image),
        boot=act.scene.boot,
        flavour=told.get(FLAVOUR) or "open",
        pod=act.pod.metadata.uid,
        revision=act.pod.metadata.labels.get(names.LABEL_REVISION, ""),
        at=at,
        rebooted=act.scene.noted.rebooted if act.scene.noted is not None else False,
    )


def _befall(act: _Act) -> None:
    """Fault xid-after-10-s has its time."""
    loaded = act.scene.loaded
    if loaded is not None and "xid-after-10-s" in act.kinds and not loaded.xid:
        left = XID_AFTER - elapsed(loaded.at, act.now)
        if left > 0:
            act.wake(left)
        else:
            act.modules = replace(loaded, xid=True)
