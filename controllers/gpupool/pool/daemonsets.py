"""DaemonSets of a GPUPool: its device plugin and its MIG manager. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.gpupool import GPUPool
from controllers.api.meta import ObjectMeta
from controllers.api.resources import DAEMONSET
from controllers.gpupool import migmanager, operands
from controllers.install import dismantle
from controllers.runtime.drift import is_as_built
from controllers.runtime.plan import Action, Apply, Ref
from controllers.runtime.resting import rests

if TYPE_CHECKING:
    from controllers.api.kube import DaemonSet
    from controllers.api.meta import KubeObject
    from controllers.api.settings import DeviceStrategy
    from controllers.domain.agents import Variables
    from controllers.gpupool.pool.state import PoolState
    from controllers.gpupool.views import ObservedPool
    from controllers.runtime.plan import Draft


def plan_device_plugin(view: ObservedPool, state: PoolState, now: float, draft: Draft) -> list[Action]:
    """The device plugin's DaemonSet, where it differs from what it should be."""
    if not is_plugin_managed(view, state):
        return []
    partitioned = "MIG" in (state.applied.mode, state.desired.mode)
    strategy = view.settings.device_strategy
    desired = _device_plugin(
        view.pool.name, view.pool.metadata.uid, view.agent_image, strategy, partitioned=partitioned, env=view.agent_env
    )
    name = names.plugin_object(view.pool.name)
    return _reconcile_daemonset(view, name, view.daemonset, desired, now=now, draft=draft)


def plan_mig_manager(view: ObservedPool, state: PoolState, now: float, draft: Draft) -> list[Action]:
    """The MIG manager's DaemonSet, while there is something for it to do."""
    current = view.mig_manager
    if not migmanager.is_needed(view):
        return dismantle.operands((), (current,)) if current is not None else []
    if current is None and state.phase == "NotServed":
        return []
    desired = migmanager.daemonset(view.pool, view.agent_image, env=view.agent_env)
    name = names.mig_manager(view.pool.name)
    return _reconcile_daemonset(view, name, current, desired, now=now, draft=draft)


def is_plugin_managed(view: ObservedPool, state: PoolState) -> bool:
    """Whether the plugin's objects are written now."""
    if not state.has_applied_layout and view.daemonset is None and not view.configs:
        return False  # its mode is not served, or is written down as applied in a moment
    return state.phase != "Applying"  # lists are written anew once it is


def is_owned_by(operand: KubeObject, pool: GPUPool) -> bool:
    """Whether this pool owns it: one of a deleted pool of the same name is about to be collected."""
    return [owner.uid for owner in operand.metadata.owner_references] == [pool.metadata.uid]


@lru_cache(maxsize=1024)
def _device_plugin(
    pool: str, uid: str, image: str, strategy: DeviceStrategy, *, partitioned: bool, env: Variables
) -> dict[str, Any]:
    """The plugin's DaemonSet, built and hashed once: each plan compares it."""
    owner = GPUPool(metadata=ObjectMeta(name=pool, uid=uid))
    return operands.daemonset(owner, image, strategy, divided=partitioned, env=env)


def _reconcile_daemonset(
    view: ObservedPool, name: str, current: DaemonSet | None, desired: dict[str, Any], *, now: float, draft: Draft
) -> list[Action]:
    """The write of a DaemonSet; one that somebody deleted comes back after its name has been free for a while."""
    if current is not None and (dismantle.is_leaving(current) or _is_up_to_date(current, desired, view.pool)):
        return []
    if current is None and (left := rests(view.deleted_at, name, now)) > 0:
        draft.look_again(left)
        return []
    return [Apply(Ref(DAEMONSET, name, names.NAMESPACE), desired)]


def _is_up_to_date(current: DaemonSet, desired: dict[str, Any], pool: GPUPool) -> bool:
    return is_as_built(current.metadata, current.spec, desired) and is_owned_by(current, pool)
