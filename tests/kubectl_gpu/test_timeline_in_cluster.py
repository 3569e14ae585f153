"""The time line of a real card: the pod that had it is deleted, and the card still knows it."""

from __future__ import annotations

import pytest

from controllers.api import resources
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
    (serving,) = (entry for entry in kubectl.json("timeline", "card", card)["timeline"] if entry["kind"] == "Tenancy")
    assert (serving["what"], serving["pods"], serving["until"]) == ("Serving", [f"{TEAM}/first"], None)

    await people.remove(resources.POD, "first", TEAM)
    await people.view.until(lambda: people.cards(POOL)[0].status.history, PATIENCE, lambda: "no history")
    assert people.cards(POOL)[0].status.allocations == ()
    line = kubectl.gpu("timeline", "card", card, "--no-headers").splitlines()[-1].split()
    assert line[2:] == ["Deleted", f"{TEAM}/first", POOL]
    (had,) = (entry for entry in kubectl.json("timeline", "card", card)["timeline"] if entry["kind"] == "Tenancy")
    assert had["since"] <= had["until"]
    assert "no-such" in kubectl.fails("timeline", "card", "no-such")
    await people.retire(POOL)
