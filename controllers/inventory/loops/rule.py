"""The controller of our one NodeFeatureRule, which has NFD label nodes that have cards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.inventory.rule.node_feature_rule import ObservedRule, plan
from controllers.runtime.controller import Controller
from controllers.runtime.errors import Forbidden, Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.inventory.rule.node_feature_rule import NodeFeatureRule
    from controllers.inventory.world import World
    from controllers.runtime.process import Process
    from controllers.runtime.store import Store


class RuleController:
    """Reconciles the rule, and has the nodes say when the API server refuses it."""

    def __init__(
        self, process: Process, world: World, rules: Store[NodeFeatureRule], refused: Callable[[], None]
    ) -> None:
        """Make the loop; `rules` holds this one object, and `watch` connects them.

        `refused` is called when the API server begins to refuse the rule, and when it ends to.
        """
        self._execute, self._world, self._rules, self._refused = process.executor.execute, world, rules, refused
        self.controller = Controller("rule", self._reconcile, workers=1)

    async def _reconcile(self, name: str) -> float | None:
        made = plan(ObservedRule(self._rules.get(name), served=self._rules.served))
        said = ""
        try:
            await self._execute(made.actions)
        except (Invalid, Forbidden) as error:
            said = error.message
            raise
        finally:
            if said != self._world.rule_error:
                self._world.rule_error = said
                self._refused()
        return made.requeue_after

    def watch(self) -> None:
        """Enqueue the rule by changes, and once."""
        self._rules.subscribe(lambda _old, _new: self.controller.add(names.NODE_FEATURE_RULE))
        self.controller.add(names.NODE_FEATURE_RULE)
