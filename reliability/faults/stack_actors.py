"""Administrators of the rest of the stack in a workload: container runtimes, and control daemons of MPS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.components import TOOLKIT
from controllers.api.conditions import CONFIGURED, find
from controllers.components.build import object_name
from reliability.faults.environment import SETTINGS
from reliability.faults.takeover_actors import TakeoverActors

if TYPE_CHECKING:
    from controllers.api.gpunodeinventory import ContainerRuntime


class StackActors(TakeoverActors):
    """Acts and expectations about runtimes and daemons, beside all others."""

    # --- container runtimes ---------------------------------------------------------------

    async def toolkit(self, **settings: Any) -> None:
        """Change settings of the container toolkit."""
        bootstrap = SETTINGS["bootstrap"]
        await self.settings(bootstrap=bootstrap | {"toolkit": bootstrap["toolkit"] | settings})

    async def toolkit_runs(self, *words: str) -> None:
        """The pods of the toolkit on all nodes are of a template with these arguments, and ready."""

        def arguments() -> tuple[set[str], bool]:
            found = self._environment.recorder.of("DaemonSet").get(f"{names.NAMESPACE}/{object_name(TOOLKIT)}", {})
            containers = found.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ())
            status = found.get("status", {})
            wanted = status.get("desiredNumberScheduled", -1)
            is_ready = wanted == status.get("updatedNumberScheduled", 0) == status.get("numberReady", 0)
            is_seen = status.get("observedGeneration") == found.get("metadata", {}).get("generation")
            return {one for each in containers for one in each.get("args", ())}, is_ready and is_seen

        await self.until(
            lambda: set(words) <= arguments()[0] and arguments()[1], lambda: (words, arguments(), self._view.unready())
        )

    async def turns(self, *nodes: str) -> None:
        """Exactly these nodes may have their container runtime restarted."""

        def having() -> list[str]:
            return sorted(one.name for one in self._view.inventories if one.status.runtime and _may(one.status.runtime))

        await self.until(lambda: having() == sorted(nodes), lambda: (nodes, having(), self._view.unready()))

    async def runtime(self, node: str, state: str | None) -> None:
        """What is on record of a node's container runtime; None: nothing."""

        def recorded() -> str | None:
            found = self._view.inventories.get(node)
            runtime = found.status.runtime if found is not None else None
            return runtime.state if runtime is not None else None

        await self.until(lambda: recorded() == state, lambda: (node, state, recorded()))

    # --- daemons of MPS ---------------------------------------------------------------------

    async def daemon(self, card: str, phase: str | None) -> None:
        """How far a card's control daemon is; None: it has none."""

        def recorded() -> str | None:
            found = self.card(card)
            daemon = found.status.mps if found is not None else None
            return daemon.phase if daemon is not None else None

        await self.until(lambda: recorded() == phase, lambda: (card, phase, recorded(), self._summary()))

    async def configured(self, card: str, reason: str) -> None:
        """Why a card is offered, or is not."""

        def reported() -> str:
            found = self.card(card)
            condition = find(found.status.conditions, CONFIGURED) if found is not None else None
            return condition.reason if condition is not None else ""

        await self.until(lambda: reported() == reason, lambda: (card, reason, reported(), self._summary()))


def _may(runtime: ContainerRuntime) -> bool:
    return runtime.restart_allowed is True
