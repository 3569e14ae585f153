"""What all state machines over the pool controller's cluster have in common, and a controller that dies on the way.

Of writes that go together any may have come through when it dies; and what a pool and its cards say is written by a
loop of its own, from a view that others have gone on from by then.
"""

from __future__ import annotations

import contextlib
from itertools import groupby
from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from controllers.api import names
from controllers.gpupool.pool.card_status import plan_card_status
from controllers.runtime.plan import Action, Apply, EmitEvent, Merge
from tests.kit.cluster import ConflictError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpupool.world import Cluster


class Controlled(RuleBasedStateMachine):
    """A cluster whose plugins follow, and whose controller is killed after any write."""

    cluster: Cluster
    unsaid: tuple[Action, ...] = ()
    """What the cards of a pool were about to say when somebody last looked."""

    @rule()
    def plugins(self) -> None:
        self.cluster.plugin()

    @rule(data=st.data(), stop=st.integers(0, 4))
    def reconcile_and_crash(self, data: st.DataObject, stop: int) -> None:
        key = data.draw(st.sampled_from(self.cluster.all_keys()))
        with contextlib.suppress(ConflictError):
            self.cluster.execute(self.cluster.planned(*key).actions, names.MANAGER_POOL, stop_after=stop)

    @rule(data=st.data())
    def reconcile_and_crash_amid_writes_that_go_together(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.cluster.all_keys()))
        done: list[Action] = []
        for together, group in groupby(self.cluster.planned(*key).actions, _is_together):
            actions = [action for action in group if not isinstance(action, EmitEvent)]
            done += data.draw(st.permutations(actions)) if together else actions
            if together and data.draw(st.booleans()):
                done = done[: len(done) - data.draw(st.integers(0, len(actions)))]
                break
        with contextlib.suppress(ConflictError):
            self.cluster.execute(done, names.MANAGER_POOL)

    @rule(pool=st.sampled_from(["a", "b"]))
    def look_at_what_cards_say(self, pool: str) -> None:
        seen = self.cluster.view().pool(pool)
        self.unsaid = plan_card_status(seen, self.cluster.now).actions if seen is not None else ()

    @rule()
    def say_it_late(self) -> None:
        unsaid, self.unsaid = self.unsaid, ()
        with contextlib.suppress(ConflictError):
            self.cluster.execute(unsaid, names.MANAGER_POOL)

    @rule()
    def restart(self) -> None:
        """A process that starts reads everything anew, and has forgotten what it only remembered."""
        self.cluster.restart()

    @rule()
    def settle(self) -> None:
        self.cluster.settle()


def die_and_go_on(made: Cluster, stop: int, rounds: int, nodes: Callable[[int], None]) -> None:
    """Rounds over all keys with a controller that dies after so many writes in all; `nodes` act after each round."""
    left = stop
    for round_ in range(rounds):
        for key in made.all_keys():
            before = made.writes
            made.execute(made.planned(*key).actions, names.MANAGER_POOL, stop_after=left)
            left -= made.writes - before
            made.check()
        nodes(round_)
    made.settle()


def _is_together(action: Action) -> bool:
    return isinstance(action, (Apply, Merge, EmitEvent)) and action.parallel_safe
