"""Keeps the components' DaemonSets, ConfigMaps and RuntimeClasses as they are built. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.components import EXPORTER
from controllers.api.resources import RUNTIMECLASS
from controllers.components import build, images
from controllers.components.pods.dcgm_exporter import named
from controllers.components.reconcile import deletions, reconcile_configmap, reconcile_daemonset
from controllers.install.observed import is_ours
from controllers.runtime.plan import Apply, Delete, Plan, PlanBuilder, Ref, ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.settings import BootstrapSettings
    from controllers.bootstrap.views import ObservedOperands
    from controllers.components.podspec import Json
    from controllers.domain.agents import Variables


def plan(
    seen: ObservedOperands,
    settings: BootstrapSettings,
    agent_image: str = images.AGENT_IMAGE,
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
        _configmaps(draft, seen, {})
        _runtime_classes_go(draft, seen)
        return draft.build()
    for name, body in build.runtime_classes().items():
        # One that is there may be the administrator's, and its handler cannot be changed.
        if name not in seen.runtime_classes:
            draft.add(Apply(Ref(RUNTIMECLASS, name), body))
    # A pod waits for the file that it mounts.
    _configmaps(draft, seen, build.configmaps(settings))
    wanted = build.daemonsets(settings, agent_image, agent_env, _resources(seen), driver_root)
    _daemonsets(draft, seen, wanted, now)
    return draft.build()


def _resources(seen: ObservedOperands) -> list[str]:
    """The resources whose pods the exporter is to name: those that it names, until one of a pool with cards is missing.

    What changes them restarts every node's exporter. A name too many names nobody's pod.
    """
    wanted = sorted(map(names.resource_name, seen.pools))
    found = seen.daemonsets.get(build.object_name(EXPORTER))
    kept = named(found.spec) if found is not None else []
    return kept if set(wanted) <= set(kept) else wanted


def _configmaps(draft: PlanBuilder, seen: ObservedOperands, wanted: Mapping[str, Json]) -> None:
    for name, body in wanted.items():
        reconcile_configmap(draft, name, seen.configmaps.get(name), body)
    unwanted = [seen.configmaps[name] for name in build.NAMES if name in seen.configmaps and name not in wanted]
    draft.add(*deletions(unwanted, ()))


def _daemonsets(draft: PlanBuilder, seen: ObservedOperands, wanted: Mapping[str, Json], now: float) -> None:
    for name, body in wanted.items():
        reconcile_daemonset(draft, name, seen.daemonsets.get(name), body, deleted_at=seen.deleted_at, now=now)
    unwanted = [seen.daemonsets[name] for name in build.NAMES if name in seen.daemonsets and name not in wanted]
    draft.add(*deletions((), unwanted))


def _runtime_classes_go(draft: PlanBuilder, seen: ObservedOperands) -> None:
    """Delete our RuntimeClasses, last: the programs and the pools', which withdraw their cards first, run under them.

    One that ends on the way could not begin again. One without our label is the administrator's.
    """
    for name in build.runtime_classes():
        found = seen.runtime_classes.get(name)
        if found is not None and is_ours(found) and name not in seen.running:
            draft.add(Delete(ref(RUNTIMECLASS, found), found.metadata.resource_version))
