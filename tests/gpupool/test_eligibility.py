"""One chain decides whether a card comes into a pool, and everybody who asks goes by it.

Each case is a card that one check of the chain keeps out. It is held against all who ask: the controller that takes
cards in, what it says of the card, the pool's candidates, the node's pending cards, approval, the webhook, kubectl.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from controllers.api import names
from controllers.api.conditions import CONFIGURED, FAULTED, IGNORED, find
from controllers.api.gpudevice import ForeignAllocation, GPUDevice
from controllers.api.settings import Settings
from controllers.domain import eligibility as chain
from controllers.domain.eligibility import checks
from controllers.explain import choice
from controllers.gpupool.membership import assignment, obstacles
from controllers.gpupool.membership.approval import approve_cards
from controllers.gpupool.membership.candidates import candidates_on
from controllers.gpupool.node.pending import pending_cards
from tests.gpupool.world import AUTOMATIC, Cluster
from tests.kit.manifests import body
from tests.kit.objects import published
from webhook.validating import device as webhook

CARD, OTHER = "n1-0000-00-00-0", "n1-0000-01-00-0"
H100_ONLY = {"deviceSelector": {"include": {"products": ["No such card"]}}}
ONE_CARD = {"allocation": {"mode": "Exclusive", "maxDevicesPerNode": 1}}
DIVIDED = {"allocation": {"mode": "MIG", "migProfile": "1g.10gb"}}


def nothing(_made: Cluster) -> None:
    """The card is as it is."""


def deleted(made: Cluster) -> None:
    with made.edit("GPUPool", "a") as pool:
        pool["metadata"] |= {"finalizers": ["test"], "deletionTimestamp": "2026-01-02T00:00:00Z"}


def faulted(made: Cluster) -> None:
    made.fault(CARD)


def declined(made: Cluster) -> None:
    with made.edit("GPUDevice", CARD) as card:
        card["metadata"].setdefault("labels", {})[names.LABEL_IGNORE] = "true"


def unreported(made: Cluster) -> None:
    with made.edit("GPUDevice", CARD) as card:
        del card["status"]["hardware"]


def unready(made: Cluster) -> None:
    made.unready("n1")


def in_mig_mode(made: Cluster) -> None:
    with made.edit("GPUDevice", CARD) as card:
        card["status"]["hardware"]["mig"] = {"capable": True, "enabled": True}


def untold(made: Cluster) -> None:
    with made.edit("GPUDevice", CARD) as card:
        del card["status"]["hardware"]["mig"]


def full(made: Cluster) -> None:
    made.annotate(OTHER, "a")
    made.settle()


def taken(made: Cluster) -> None:
    given = ForeignAllocation(namespace="team", pod="train-0", container="main", resource="nvidia.com/gpu")
    with made.edit("GPUDevice", CARD) as card:
        card["status"]["foreignAllocations"] = [body(given)]


def still_offered(made: Cluster) -> None:
    with made.edit("GPUDevice", CARD) as card:
        card["status"]["published"] = body(published("b"))


def held(made: Cluster) -> None:
    """The card's object was deleted by hand and has come back empty, while a pod still runs on the card."""
    made.pod("p", "b", "r", node="n1", phase="Running")
    with made.edit("Pod", "default/p") as pod:
        pod["metadata"]["annotations"][names.DEVICES] = device(made).status.inventory_id


@dataclass(frozen=True)
class Case:
    """A card that one check keeps out of pool `a`."""

    check: chain.Check
    reason: str
    arrange: Callable[[Cluster], None] = nothing
    pool: dict[str, Any] | None = None
    named: str = "a"

    def made(self) -> Cluster:
        """The cluster, in which nobody has assigned the card yet."""
        made = Cluster()
        made.node("n1", 2)
        made.pool("a", **(self.pool or {}))
        self.arrange(made)
        return made


CASES = [
    Case(checks.pool_exists, chain.POOL_UNKNOWN, named="nowhere"),
    Case(checks.pool_stays, chain.POOL_DELETING, deleted),
    Case(checks.mode_is_served, chain.POOL_NOT_SERVED),
    Case(checks.selectors_match, chain.OUT_OF_SELECTOR, pool=H100_ONLY),
    Case(checks.selectors_match, chain.OUT_OF_SELECTOR, pool={"allocation": {"mode": "MIG", "migProfile": "9g.9gb"}}),
    Case(checks.no_condition_blocks, FAULTED, faulted),
    Case(checks.no_condition_blocks, IGNORED, declined),
    Case(checks.hardware_is_known, chain.HARDWARE_UNKNOWN, unreported),
    Case(checks.node_is_ready, chain.NODE_NOT_READY, unready),
    Case(checks.mode_fits, chain.MIG_ENABLED, in_mig_mode),
    Case(checks.mode_fits, chain.MIG_STATE_UNKNOWN, untold, DIVIDED),
    Case(checks.node_has_room, chain.NODE_FULL, full, ONE_CARD),
    Case(checks.nobody_else_has_it, chain.HELD_ELSEWHERE, taken),
    Case(checks.nobody_uses_it, chain.STILL_IN_USE, still_offered),
    Case(checks.nobody_uses_it, chain.STILL_IN_USE, held),
]
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.check.__name__}-{case.reason}")


@pytest.fixture(autouse=True)
def _modes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    case = request.node.callspec.params.get("case") if hasattr(request.node, "callspec") else None
    if case is not None and case.reason == chain.POOL_NOT_SERVED:  # the CRD knows no such mode today
        monkeypatch.setattr(checks, "SERVED_MODES", ("TimeSlice", "MIG"))


def device(made: Cluster) -> GPUDevice:
    return next(found for found in made.view().devices if found.name == CARD)


def judged(made: Cluster, named: str) -> webhook.ReviewResult:
    """What the webhook says to a person who assigns the card."""
    old, node = device(made), made.view().node("n1")
    assigned = {**old.metadata.annotations, names.ASSIGNMENT: named}
    view = webhook.CardView(
        pools={pool.name: pool for pool in made.view().pools},
        labels=node.facts.node.metadata.labels if node.facts.node else {},
        position=0,
        ready=node.facts.ready,
        holders=(),
        maybe_in_use=old.status.inventory_id in node.maybe_in_use,
        layout=node.facts.layout,
        knows_layout=True,
        neighbours=Counter(found.home for found in node.devices if found.home is not None),
        settings=Settings(),
    )
    return webhook.validate(old, replace(old, metadata=replace(old.metadata, annotations=assigned)), view)


def test_no_check_is_left_out() -> None:
    assert {case.check for case in CASES} == set(chain.CHECKS)


@every_case
def test_the_controller_does_not_take_it_in_and_says_why(case: Case) -> None:
    made = case.made()
    made.annotate(CARD, case.named)
    found = obstacles.check_annotation(made.view().node("n1"), device(made))
    assert found is not None
    assert found.kind == case.reason
    if (pool := made.view().pool(case.named)) is not None:
        assert not assignment.assign_cards(pool, made.now)

    made.execute(made.planned("GPUNodeInventory", "n1").actions, names.MANAGER_POOL)
    told = find(device(made).status.conditions, CONFIGURED)
    assert told is not None
    assert (told.reason, found.message in told.message) == (case.reason, True)


def test_a_card_that_others_have_says_so_once_and_nothing_else() -> None:
    """It was told a second time, as a card that serves a pod of ours or is still offered."""
    made = Case(checks.nobody_else_has_it, chain.HELD_ELSEWHERE, taken).made()
    said = judged(made, "a")
    assert said.denied is None
    assert len(said.warnings) == 1
    assert "nvidia.com/gpu" in said.warnings[0]


@every_case
def test_its_pools_and_nodes_lists_agree(case: Case) -> None:
    made = case.made()
    made.annotate(CARD, case.named)
    node = made.view().node("n1")
    found = obstacles.check_annotation(node, device(made))
    assert found is not None
    listed = {entry.card: entry.reason for entry in candidates_on(node).get(case.named, ())}
    assert listed.get(CARD) == (None if case.reason == chain.POOL_UNKNOWN else case.reason)
    waits = [entry for entry in pending_cards(node) if entry.inventory_id == device(made).status.inventory_id]
    assert bool(waits) == (found.lasting or case.reason == IGNORED)


@every_case
def test_its_pools_and_nodes_lists_ask_nobody_to_assign_it(case: Case) -> None:
    """Of a card that nobody has assigned the lists say that it waits for a person only where a person could help."""
    made = case.made()
    if case.reason == chain.POOL_UNKNOWN:
        return  # no such pool is among those that match it
    node = made.view().node("n1")
    assert CARD not in {entry.card for entry in candidates_on(node).get("a", ())}
    waits = [entry for entry in pending_cards(node) if entry.inventory_id == device(made).status.inventory_id]
    assert all(entry.annotation_hint is None and entry.reason != "AwaitingApproval" for entry in waits)


@every_case
def test_no_pool_takes_it_by_itself(case: Case) -> None:
    made = case.made()
    with made.edit("GPUPool", "a") as pool:
        pool["spec"] |= AUTOMATIC
    if case.reason != chain.POOL_UNKNOWN:
        assert all(write.ref.name != CARD for write in approve_cards(made.view().node("n1")))


@every_case
def test_the_webhook_refuses_it_or_says_that_it_waits(case: Case) -> None:
    made = case.made()
    said = judged(made, case.named)
    made.annotate(CARD, case.named)
    found = obstacles.check_annotation(made.view().node("n1"), device(made))
    assert found is not None
    if case.reason in webhook.REFUSED:
        assert said.denied is not None
        assert (said.denied.error_code, found.message in said.denied.message) == (webhook.REFUSED[case.reason], True)
    else:
        assert said.denied is None
        assert any(found.message in warning for warning in said.warnings)


@every_case
def test_kubectl_leaves_alone_what_the_card_itself_forbids(case: Case) -> None:
    made = case.made()
    changes, notes = choice.changes([], [device(made)], case.named)
    kept_out = case.check is checks.no_condition_blocks
    assert (not changes, bool(notes)) == (kept_out, kept_out)


@pytest.mark.parametrize(
    ("marks", "commands"),
    [
        ({"labels": "true"}, ["label"]),
        ({"annotations": "true"}, ["annotate"]),
        ({"labels": "true", "annotations": "true"}, ["label", "annotate"]),
        ({"labels": "no", "annotations": "true"}, ["annotate"]),
    ],
)
def test_a_declined_card_says_how_the_mark_is_removed_from_where_it_stands(
    marks: dict[str, str], commands: list[str]
) -> None:
    made = Case(checks.pool_exists, "").made()
    with made.edit("GPUDevice", CARD) as card:
        for place, value in marks.items():
            card["metadata"].setdefault(place, {})[names.LABEL_IGNORE] = value
    found = chain.blocked(device(made))
    assert found is not None
    told = [f"kubectl {verb} gpudevice {CARD} {names.LABEL_IGNORE}-" for verb in commands]
    assert found.action == f"Remove {names.LABEL_IGNORE} ({'; '.join(told)})"


def test_a_card_that_passes_is_taken_by_everybody() -> None:
    made = Case(checks.pool_exists, "").made()
    assert judged(made, "a") == webhook.ReviewResult()
    assert [change.after for change in choice.changes([], [device(made)], "a")[0]] == ["a"]
    made.annotate(CARD, "a")
    assert obstacles.check_annotation(made.view().node("n1"), device(made)) is None
    made.settle()
    assert device(made).home == "a"


def test_mig_mode_that_the_module_turned_on_keeps_no_card_out() -> None:
    """A card that leaves a pool of mode MIG is turned back by its node, and goes on."""
    made = Case(checks.pool_exists, "", pool=DIVIDED).made()
    made.annotate(CARD, "a")
    made.settle()
    made.pool("b")
    card = device(made)
    assert card.status.hardware is not None
    assert card.status.hardware.mig is not None
    assert card.status.hardware.mig.enabled
    assert judged(made, "b").denied is None
