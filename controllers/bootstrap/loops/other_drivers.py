"""Which nodes are looked at when programs that do what the module does come, go or change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from controllers.api.foreign import ForeignDaemonSet, ForeignPod
    from controllers.bootstrap.world import World


class OtherDrivers:
    """Follows pods of other programs and DaemonSets of other drivers, and enqueues the nodes that they concern.

    A DaemonSet counts only in a namespace that lets such pods have their privileges (`World.let_in`), so that no tenant
    has all nodes looked at by an edit.
    """

    def __init__(self, world: World, enqueue_nodes: Callable[[Iterable[str]], None]) -> None:
        """`enqueue_nodes` has nodes looked at, by their names."""
        self._world, self._enqueue_nodes = world, enqueue_nodes

    def watch(self) -> None:
        """Enqueue nodes by changes."""
        self._world.foreign.subscribe(self.pod_changed)
        self._world.foreign_drivers.subscribe(self.pod_changed)
        self._world.driver_daemonsets.subscribe(self.daemonset_changed)

    def pod_changed(self, old: ForeignPod | None, new: ForeignPod | None) -> None:
        """Look at the nodes of the pod, and at those of DaemonSets that begin to count by it, or end."""
        self._enqueue_nodes({pod.spec.node_name for pod in (old, new) if pod is not None and pod.spec.node_name})
        # The first that is let into its namespace, or the last one: then DaemonSets there begin to count, or end.
        if (old.part if old else None) != (new.part if new else None) and (one := new or old):
            namespace = one.metadata.namespace or ""
            if self._world.let_in(namespace) <= 1:
                for made in self._world.driver_daemonsets:
                    if made.metadata.namespace == namespace:
                        self._enqueue_driven(made)

    def daemonset_changed(self, old: ForeignDaemonSet | None, new: ForeignDaemonSet | None) -> None:
        """Look at the nodes that the DaemonSet could drive, or could before."""
        both = [one for one in (old, new) if one is not None]
        changed = old is None or new is None or old.spec != new.spec
        if changed and self._world.let_in(both[0].metadata.namespace or ""):
            self._enqueue_driven(*both)

    def _enqueue_driven(self, *daemonsets: ForeignDaemonSet) -> None:
        nodes = (node for node in self._world.nodes if any(one.is_for(node.metadata.labels) for one in daemonsets))
        self._enqueue_nodes({node.name for node in nodes})
