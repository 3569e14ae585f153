"""The views of gpu-driver-controller: cut from the caches, one kind for each kind of key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.driver.observe.driver import observe_driver
from controllers.driver.observe.forgetting import Forgetting
from controllers.driver.observe.node import observe_node
from controllers.driver.observe.rollout import observe_rollout
from controllers.driver.observe.sources import Sources
from controllers.driver.observe.variant import observe_variant

if TYPE_CHECKING:
    from controllers.driver.rollout.observed import ObservedRollout
    from controllers.driver.views import ObservedDriver, ObservedNode, ObservedVariant


@dataclass(slots=True)
class World(Sources):
    """The caches, and the views of each key as they are now."""

    def note_changes(self) -> None:
        """From now on, forget what is kept where its sources change: before anybody is woken by the same changes."""
        Forgetting(self)

    def node(self, name: str) -> ObservedNode:
        """Everything about one node."""
        return observe_node(self, name)

    def driver(self, name: str) -> ObservedDriver | None:
        """One GPUDriver with its nodes; None where it is not there."""
        return observe_driver(self, name)

    def rollout(self, name: str) -> ObservedRollout | None:
        """The roll-out of one GPUDriver; None where nothing is to be rolled out."""
        return observe_rollout(self, name)

    def variant(self, value: str) -> ObservedVariant:
        """One variant with its objects."""
        return observe_variant(self, value)
