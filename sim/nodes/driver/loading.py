"""The driver's container in a driver pod on a simulated node: it installs, loads modules, or fails. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from sim.nodes.driver import registry
from sim.nodes.driver.statuses import CONFIG, PULL, again, as_before, crashed, elapsed, running, started, waiting
from sim.nodes.modules import Loaded

if TYPE_CHECKING:
    from sim.nodes.driver.act import Act
    from sim.nodes.driver.statuses import Said
    from sim.nodes.pods import ContainerStatus

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


def load(act: Act, known: ContainerStatus) -> Said:
    """What is to be said of the container; modules that are news are noted in `act`."""
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


def _is_interrupted(act: Act, known: ContainerStatus) -> bool:
    """Whether fault reboot-in-Installing lies ahead of it."""
    if "reboot-in-Installing" not in act.kinds or act.scene.noted is not None:
        return False
    left = act.times.install / 2 - elapsed(started(known), act.now)
    act.reboots = left <= 0
    act.wake(max(left, 0.0))
    return True


def _seconds_left(act: Act, known: ContainerStatus) -> float:
    """How long it takes yet; then it has come to its end, good or bad."""
    due = PROBE_SECONDS if "hang" in act.kinds else act.times.install
    left = due - elapsed(started(known), act.now)
    if left > 0:
        act.wake(left)
    return left


def _over(act: Act, known: ContainerStatus) -> Said:
    """The end of an installation."""
    if "hang" in act.kinds:
        act.wake(act.times.back_off)
        return crashed(known, act.moment, KILLED, "")
    if said := _refusal(act):
        act.wake(act.times.back_off)
        return crashed(known, act.moment, 1, said)
    act.modules = _mine(act, act.moment)
    return running(started(known), ready=True)


def _start(act: Act, known: ContainerStatus) -> Said:
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


def _refusal(act: Act) -> str:
    """Why the driver's container fails; empty where it does not."""
    if "header-missing" in act.kinds:
        return HEADERS.format(kernel=act.scene.machine.host.kernel)
    return INSMOD if "insmod-fails" in act.kinds else ""


def _mine(act: Act, at: str) -> Loaded:
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


def _befall(act: Act) -> None:
    """Fault xid-after-10-s has its time."""
    loaded = act.scene.loaded
    if loaded is not None and "xid-after-10-s" in act.kinds and not loaded.xid:
        left = XID_AFTER - elapsed(loaded.at, act.now)
        if left > 0:
            act.wake(left)
        else:
            act.modules = replace(loaded, xid=True)
