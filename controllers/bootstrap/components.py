"""Keeps the components' DaemonSets, ConfigMaps and RuntimeClasses as they are built. Pure.

What is wanted is compared with what is there, field by field (`controllers.runtime.drift`), so
that an edit by hand is found whenever it was made. A field that somebody added beside ours stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import CONFIGMAP, DAEMONSET, RUNTIMECLASS
from controllers.bootstrap import operands
from controllers.bootstrap.phases import EXPORTER, PHASES
from controllers.install.observed import is_ours
from controllers.runtime.drift import is_as_built, is_as_written
from controllers.runtime.plan import Apply, Delete, Plan, PlanBuilder, Ref, ref
from controllers.runtime.resting import rests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.kube import ConfigMap
    from controllers.api.settings import BootstrapSettings
    from controllers.bootstrap.observe import ObservedOperands
    from controllers.bootstrap.parts import Json
    from controllers.domain.agents import Variables


def plan(
    seen: ObservedOperands,
    settings: BootstrapSettings,
    agent_image: str = operands.AGENT_IMAGE,
    agent_env: Variables = (),
    driver_root: str = "",
    *,
    now: float = 0.0,
    enabled: bool = True,
) -> Plan:
    """What to write so that every component runs as it is built, and no other; none where the module is disabled."""
    draft = PlanBuilder()
    if not enabled:
        _daemonsets(draft, seen, {}, now)
        _configmaps(draft, seen.configmaps, {})
        for name in operands.runtime_classes():
            found = seen.runtime_classes.get(name)
            # Last: the programs above and the pools', which withdraw their cards first, run under them, and one that
            # ends on the way could not begin again. One without our label is the administrator's.
            if found is not None and is_ours(found) and name not in seen.running:
                draft.add(Delete(ref(RUNTIMECLASS, found), found.metadata.resource_version))
        return draft.build()
    for name, body in operands.runtime_classes().items():
        # One that is there may be the administrator's, and its handler cannot be changed.
        if name not in seen.runtime_classes:
            draft.add(Apply(Ref(RUNTIMECLASS, name), body))
    # A pod waits for the file that it mounts.
    _configmaps(draft, seen.configmaps, operands.configmaps(settings))
    wanted = operands.daemonsets(settings, agent_image, agent_env, _resources(seen), driver_root)
    _daemonsets(draft, seen, wanted, now)
    return draft.build()


def _resources(seen: ObservedOperands) -> list[str]:
    """The resources whose pods the exporter is to name: those that it names, until one of a pool with cards is missing.

    What changes them restarts every node's exporter. A name too many names nobody's pod.
    """
    wanted = sorted(map(names.resource_name, seen.pools))
    found = seen.daemonsets.get(operands.object_name(EXPORTER))
    kept = operands.named(found.spec) if found is not None else []
    return kept if set(wanted) <= set(kept) else wanted


def _configmaps(draft: PlanBuilder, seen: Mapping[str, ConfigMap], wanted: Mapping[str, Json]) -> None:
    for name, body in wanted.items():
        found = seen.get(name)
        if found is None or not is_as_written(found, body):
            draft.add(Apply(Ref(CONFIGMAP, name, names.NAMESPACE), body))
    for name in operands.CONFIGMAPS:
        if name not in wanted and (found := seen.get(name)) is not None:
            draft.add(Delete(ref(CONFIGMAP, found), found.metadata.resource_version))


def _daemonsets(draft: PlanBuilder, seen: ObservedOperands, wanted: Mapping[str, Json], now: float) -> None:
    for name, body in wanted.items():
        found = seen.daemonsets.get(name)
        if found is None and (left := rests(seen.freed, name, now)) > 0:
            draft.requeue_within(left)
            continue
        leaving = found is not None and found.metadata.deletion_timestamp is not None
        if found is None or not (leaving or is_as_built(found.metadata, found.spec, body)):
            draft.add(Apply(Ref(DAEMONSET, name, names.NAMESPACE), body))
    for phase in PHASES:
        name = operands.object_name(phase.component)
        found = seen.daemonsets.get(name)
        if name not in wanted and found is not None and found.metadata.deletion_timestamp is None:
            draft.add(Delete(ref(DAEMONSET, found), found.metadata.resource_version))
