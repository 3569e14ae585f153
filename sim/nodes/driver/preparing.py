"""`nodeagent driver prepare` in a driver pod on a simulated node. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.driver_look import Prepared
from nodeagent.driver import decide
from nodeagent.host.openfiles import OpenFile
from sim.nodes.driver.scene import line
from sim.nodes.driver.statuses import again, as_before, crashed, elapsed, ended, running, started

if TYPE_CHECKING:
    from sim.nodes.driver.act import Act
    from sim.nodes.driver.statuses import Said
    from sim.nodes.pods import ContainerStatus


def is_prepared(act: Act) -> bool:
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


def _prepare(act: Act, known: ContainerStatus) -> Said:
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


def _prepared_with(act: Act) -> Prepared:
    """What `nodeagent driver prepare` says; what it refuses it says in its own words."""
    scene = act.scene
    if "wedged-going" in act.kinds:
        return decide.refused(
            "RebootRequired", "module nvidia is being unloaded, and that does not end: reboot the node"
        )
    loaded = scene.loaded
    if loaded is None or loaded.revision == act.pod.metadata.labels.get(names.LABEL_REVISION):
        return Prepared(result="Clean" if loaded is None else "FastPath")
    if holders := scene.holding(act.kinds):
        open_ = [OpenFile(one.pid, one.command, one.pod_uid or "") for one in holders]
        return decide.held(open_)
    return Prepared(result="Clean")
