"""DaemonSets of a GPUPool: its device plugin, its MIG manager and its MPS daemons. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.gpupool import GPUPool
from controllers.api.meta import ObjectMeta
from controllers.components.reconcile import deletions, reconcile_daemonset
from controllers.gpupool.operands import device_plugin, mig_manager, mps

if TYPE_CHECKING:
    from controllers.api.settings import DeviceStrategy
    from controllers.domain.agents import Variables
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool
    from controllers.runtime.plan import PlanBuilder


def plan_device_plugin(view: ObservedPool, state: PoolState, now: float, draft: PlanBuilder) -> None:
    """The device plugin's DaemonSet, where it differs from what it should be."""
    if not is_plugin_managed(view, state):
        return
    partitioned = "MIG" in (state.applied.mode, state.desired.mode)
    strategy = view.settings.device_strategy
    desired = _device_plugin(
        view.pool.name,
        view.pool.metadata.uid,
        view.agent_image,
        strategy,
        partitioned=partitioned,
        shared=mps.is_needed(view),
        env=view.agent_env,
    )
    name = names.plugin_object(view.pool.name)
    reconcile_daemonset(draft, name, view.daemonset, desired, deleted_at=view.deleted_at, now=now)


def plan_mig_manager(view: ObservedPool, state: PoolState, now: float, draft: PlanBuilder) -> None:
    """The MIG manager's DaemonSet, while there is something for it to do."""
    current = view.mig_manager
    if not mig_manager.is_needed(view):
        draft.add(*deletions((), (current,) if current is not None else ()))
        return
    if current is None and state.phase == "NotServed":
        return
    desired = mig_manager.daemonset(view.pool, view.agent_image, env=view.agent_env)
    name = names.mig_manager(view.pool.name)
    reconcile_daemonset(draft, name, current, desired, deleted_at=view.deleted_at, now=now)


def plan_mps(view: ObservedPool, state: PoolState, now: float, draft: PlanBuilder) -> None:
    """The DaemonSet of MPS control daemons, while cards are shared by them or have yet to be rid of them."""
    current = view.mps
    if not mps.is_needed(view):
        draft.add(*deletions((), (current,) if current is not None else ()))
        return
    if current is None and state.phase == "NotServed":
        return
    desired = mps.daemonset(view.pool, view.agent_image)
    reconcile_daemonset(draft, names.mps(view.pool.name), current, desired, deleted_at=view.deleted_at, now=now)


def is_plugin_managed(view: ObservedPool, state: PoolState) -> bool:
    """Whether the plugin's objects are written now."""
    if not state.has_applied_layout and view.daemonset is None and not view.configs:
        return False  # its mode is not served, or is written down as applied in a moment
    return state.phase != "Applying"  # lists are written anew once it is


@lru_cache(maxsize=1024)
def _device_plugin(
    pool: str, uid: str, image: str, strategy: DeviceStrategy, *, partitioned: bool, shared: bool, env: Variables
) -> dict[str, Any]:
    """The plugin's DaemonSet, built and hashed once: each plan compares it."""
    owner = GPUPool(metadata=ObjectMeta(name=pool, uid=uid))
    return device_plugin.daemonset(owner, image, strategy, divided=partitioned, shared=shared, env=env)
