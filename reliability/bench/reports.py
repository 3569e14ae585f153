"""Reports that change: NodeFeatures of recorded nodes, in what the inventory reads and in what it does not."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.resources import NODEFEATURE
from controllers.inventory.identity import device_name
from reliability.bench.environment import MANAGER
from reliability.bench.fleet import CARDS
from sim.nodes.names import NFD_NAMESPACE

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from reliability.bench.fleet import Member

UNREAD = ("a CPU flag in NFD's report", "an annotation of the agent's", "the validator's results in the agent's")
"""What `touch` changes, in turn."""
MEMORY = "memory_mib"


class Reports:
    """The agents' reports of all members, as they are now."""

    def __init__(self, client: Client, members: list[Member]) -> None:
        """Begin with what was published when the members joined."""
        self._client = client
        self.nodes = [member.name for member in members]
        features = [member.report["spec"]["features"] for member in members]
        # The agent's own part: what `fleet` adds to make the object as large as real ones is not the agent's.
        self._features = [copy.deepcopy({form: of[form] for form in ("attributes", "instances")}) for of in features]

    def card(self, number: int, card: int) -> str:
        """The name of a node's card."""
        return device_name(self.nodes[number], self._card(number, card)["address"])

    def memory(self, number: int, card: int) -> int:
        """What a node's card has by its report; MiB."""
        return int(self._card(number, card)[MEMORY])

    def _card(self, number: int, card: int) -> dict[str, str]:
        elements = self._features[number]["instances"][names.FEATURE_DEVICE]["elements"]
        attributes: dict[str, str] = elements[card % CARDS]["attributes"]
        return attributes

    async def change(self, number: int, card: int) -> None:
        """Take one MiB from a card: the agent applies its whole report."""
        self._card(number, card)[MEMORY] = str(self.memory(number, card) - 1)
        body = self._body(number, {"features": self._features[number]})
        name = body["metadata"]["name"]
        await self._client.apply(NODEFEATURE, name, body, manager=MANAGER, namespace=names.NAMESPACE)

    def _body(self, number: int, spec: dict[str, Any]) -> dict[str, Any]:
        node = self.nodes[number]
        meta = {"name": names.agent_feature(node), "labels": {names.NFD_NODE_NAME: node}}
        return {"apiVersion": NODEFEATURE.api_version, "kind": NODEFEATURE.kind, "metadata": meta, "spec": spec}

    async def touch(self, number: int, which: int) -> None:
        """Change in a node's reports something that the inventory does not read."""
        node, mark = self.nodes[number], f"bench-{number}-{which}"
        name, namespace = names.agent_feature(node), names.NAMESPACE
        patch: dict[str, Any]
        match which % len(UNREAD):
            case 0:
                flag: dict[str, Any] = {"cpu.cpuid": {"elements": {mark: {}}}}
                name, namespace, patch = node, NFD_NAMESPACE, {"spec": {"features": {"flags": flag}}}
            case 1:
                patch = {"metadata": {"annotations": {MANAGER: mark}}}
            case _:
                results = {names.FEATURE_VALIDATION: {"elements": {MANAGER: mark}}}
                patch = {"spec": {"features": {"attributes": results}}}
        await self._client.merge(NODEFEATURE, name, patch, manager=MANAGER, namespace=namespace)
