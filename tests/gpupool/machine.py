"""What all state machines over the pool controller's cluster have in common, and a controller that dies on the way."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from controllers.api import names
from tests.tools.model import ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpupool.world import Cluster


class Controlled(RuleBasedStateMachine):
    """A cluster whose plugins follow, and whose controller is killed after any write."""

    cluster: Cluster

    @rule()
    def plugins(self) -> None:
        self.cluster.plugin()

    @rule(data=st.data(), stop=st.integers(0, 4))
    def reconcile_and_crash(self, data: st.DataObject, stop: int) -> None:
        key = data.draw(st.sampled_from(self.cluster._keys()))
        with contextlib.suppress(ConflictError):
            self.cluster.execute(self.cluster._plan(*key).actions, names.MANAGER_POOL, stop_after=stop)

    @rule()
    def settle(self) -> None:
        self.cluster.settle()


def die_and_go_on(made: Cluster, stop: int, rounds: int, nodes: Callable[[int], None]) -> None:
    """Rounds over all keys with a controller that dies after so many writes in all; `nodes` act after each round."""
    left = stop
    for round_ in range(rounds):
        for key in made._keys():
            before = made.writes
            made.execute(made._plan(*key).actions, names.MANAGER_POOL, stop_after=left)
            left -= made.writes - before
            made.check()
        nodes(round_)
    made.settle()
