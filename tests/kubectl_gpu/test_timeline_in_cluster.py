"""The time line of a real card: the pod that had it is deleted, and the card still knows it."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import resources
from controllers.api.gpudevice import Tenancy
from tests.kit.waiting import PATIENCE
from tests.kubectl_gpu.conftest import Kubectl
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM, POOL = "timeline", "timeline"


async def test_a_card_knows_who_had_it(people: People, kubectl: Kubectl) -> None:
    await people.namespace(TEAM)
    card = min(device.name for device in people.view.devices if device.status.node_name == "gpu-2")
    await people.pool(POOL, access={"namespaces": [TEAM]})
    await people.annotate(card, POOL)
    await people.offered(POOL, 1)
    await people.pod("first", TEAM, POOL)
    await people.view.until(lambda: people.cards(POOL)[0].status.allocations, PATIENCE, lambda: "no allocation")

    def tenancies() -> list[dict[str, Any]]:
        """Those of this test: others have had the card before."""
        told = kubectl.json("timeline", "card", card)["timeline"]
        return [entry for entry in told if entry["kind"] == "Tenancy" and f"{TEAM}/first" in entry["pods"]]

    def history() -> list[Tenancy]:
        return [each for each in people.cards(POOL)[0].status.history if (each.namespace, each.pod) == (TEAM, "first")]

    (serving,) = tenancies()
    assert (serving["what"], serving["pods"], serving["until"]) == ("Serving", [f"{TEAM}/first"], None)

    await people.remove(resources.POD, "first", TEAM)
    await people.view.until(history, PATIENCE, lambda: "no history")
    assert people.cards(POOL)[0].status.allocations == ()
    line = kubectl.gpu("timeline", "card", card, "--no-headers").splitlines()[-1].split()
    assert line[2:] == ["Deleted", f"{TEAM}/first", POOL]
    (had,) = tenancies()
    assert had["since"] <= had["until"]
    assert "no-such" in kubectl.fails("timeline", "card", "no-such")
    await people.retire(POOL)
