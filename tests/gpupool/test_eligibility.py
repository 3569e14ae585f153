"""One chain decides whether a card comes into a pool, and everybody who asks goes by it.

Each case is a card that one check of the chain keeps out. It is held against all who ask: the controller that takes
cards in, what it says of the card, the pool's candidates, the node's pending cards, approval, the webhook, kubectl.
"""

from __future__ import annotations

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
from controllers.domain.lifecycle import facts_of, is_allowed
from controllers.explain import choice
from controllers.gpupool.membership import assignment, obstacles
from controllers.gpupool.membership.approval import approve_cards
from controllers.gpupool.membership.candidates import candidates_on
from controllers.gpupool.node.pending import pending_cards
from controllers.runtime.plan import Merge
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


def going(made: Cluster, name: str = CARD) -> None:
    with made.edit("GPUDevice", name) as card:
        card["metadata"] |= {"finalizers": ["test"], "deletionTimestamp": "2026-01-02T00:00:00Z"}


def deleted(made: Cluster) -> None:
    with made.edit("GPUPool", "a") as pool:
        pool["metadata"] |= {"finalizers": ["test"], "deletionTimestamp": "2026-01-02T00:00:00Z"}


def faulted(made: Cluster, name: str = CARD) -> None:
    made.fault(name)


def declined(made: Cluster, name: str = CARD) -> None:
    with made.edit("GPUDevice", name) as card:
        card["metadata"].setdefault("labels", {})[names.LABEL_IGNORE] = "true"


def faulted_and_declined(made: Cluster, name: str = CARD) -> None:
    faulted(made, name)
    declined(made, name)


def unreported(made: Cluster, name: str = CARD) -> None:
    with made.edit("GPUDevice", name) as card:
        del card["status"]["hardware"]


def unready(made: Cluster) -> None:
    made.unready("n1")


def in_mig_mode(made: Cluster, name: str = CARD) -> None:
    with made.edit("GPUDevice", name) as card:
        card["status"]["hardware"]["mig"] = {"capable": True, "enabled": True}


def untold(made: Cluster) -> None:
    with made.edit("GPUDevice", CARD) as card:
        del card["status"]["hardware"]["mig"]


def full(made: Cluster) -> None:
    made.annotate(OTHER, "a")
    made.settle()


def taken(made: Cluster, name: str = CARD) -> None:
    given = ForeignAllocation(namespace="team", pod="train-0", container="main", resource="nvidia.com/gpu")
    with made.edit("GPUDevice", name) as card:
        card["status"]["foreignAllocations"] = [body(given)]


def still_offered(made: Cluster, name: str = CARD) -> None:
    with made.edit("GPUDevice", name) as card:
        card["status"]["published"] = body(published("b"))


def held(made: Cluster, name: str = CARD) -> None:
    """The card's object was deleted by hand and has come back empty, while a pod still runs on the card."""
    made.pod("p", "b", "r", node="n1", phase="Running")
    with made.edit("Pod", "default/p") as pod:
        pod["metadata"]["annotations"][names.DEVICES] = device(made, name).status.inventory_id


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
    Case(checks.card_stays, chain.CARD_DELETING, going),
    Case(checks.pool_exists, chain.POOL_UNKNOWN, named="nowhere"),
    Case(checks.pool_stays, chain.POOL_DELETING, deleted),
    Case(checks.mode_is_served, chain.POOL_NOT_SERVED),
    Case(checks.selectors_match, chain.OUT_OF_SELECTOR, pool=H100_ONLY),
    Case(checks.selectors_match, chain.OUT_OF_SELECTOR, pool={"allocation": {"mode": "MIG", "migProfile": "9g.9gb"}}),
    Case(checks.no_condition_blocks, FAULTED, faulted),
    Case(checks.no_condition_blocks, IGNORED, declined),
    Case(checks.no_condition_blocks, IGNORED, faulted_and_declined),
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


def device(made: Cluster, name: str = CARD) -> GPUDevice:
    return next(found for found in made.view().devices if found.name == name)


def judged(made: Cluster, named: str) -> webhook.ReviewResult:
    """What the webhook says to a person who assigns the card."""
    old, node = device(made), made.view().node("n1")
    assigned = {**old.metadata.annotations, names.ASSIGNMENT: named}
    view = webhook.CardView(
        pools={pool.name: pool for pool in made.view().pools},
        labels=node.facts.node.metadata.labels if node.facts.node else {},
        cards=node.devices,
        ready=node.facts.ready,
        holders=(),
        maybe_in_use=node.maybe_in_use,
        layout=node.facts.layout,
        knows_layout=True,
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


def remembered(made: Cluster, name: str) -> None:
    """The card was in the pool, and its Node is back in its name before the card is known there."""
    made.settle()
    with made.edit("GPUDevice", name) as card:
        card["status"]["nodeGoneSince"] = "2026-01-02T00:00:00Z"


WAITING = (going, faulted, declined, unreported, in_mig_mode, taken, still_offered, held, remembered)
"""What keeps a card that is annotated out of its pool, for a while or until somebody does something."""


@pytest.mark.parametrize(
    ("before", "is_in"),
    [(nothing, True), (nothing, False), *((waits, False) for waits in WAITING)],
    ids=["in the pool", "comes now", *(waits.__name__ for waits in WAITING)],
)
def test_who_takes_a_place_on_a_node_is_the_same_for_everybody(before: Callable[..., None], is_in: bool) -> None:
    """A pool may have one card of the node; another one names it, and is in it, comes now or waits."""
    made, takes_it = Case(checks.node_has_room, "", pool=ONE_CARD).made(), before is nothing
    made.annotate(OTHER, "a")
    if is_in:
        made.settle()
    elif not takes_it:
        before(made, OTHER)

    node = made.view().node("n1")
    listed = {entry.card for entry in candidates_on(node).get("a", ()) if entry.assignable}
    waits = {entry.reason for entry in pending_cards(node) if entry.inventory_id == device(made).status.inventory_id}
    assert (CARD not in listed, waits) == (takes_it, {"OutOfSelector" if takes_it else "AwaitingApproval"})
    told = judged(made, "a")
    assert told.denied is None
    assert any("maxDevicesPerNode" in warning for warning in told.warnings) == takes_it
    with made.edit("GPUPool", "a") as pool:
        pool["spec"] |= AUTOMATIC
    assert (CARD not in {write.ref.name for write in approve_cards(made.view().node("n1"))}) == takes_it

    with made.edit("GPUPool", "a") as pool:
        del pool["spec"]["deviceAssignment"]
    if takes_it:
        made.settle()
    made.annotate(CARD, "a")
    assert (obstacles.check_annotation(made.view().node("n1"), device(made)) is not None) == takes_it
    seen = made.view().pool("a")
    assert seen is not None
    comes = {action.ref.name for action in assignment.assign_cards(seen, made.now) if isinstance(action, Merge)}
    assert comes == (set() if takes_it else {CARD})


def test_of_two_cards_that_are_annotated_at_once_one_comes_and_the_other_says_why_not() -> None:
    made = Case(checks.node_has_room, "", pool=ONE_CARD).made()
    for name in (CARD, OTHER):
        made.annotate(name, "a")
        assert obstacles.check_annotation(made.view().node("n1"), device(made, name)) is None
    made.settle()
    homes = {name: device(made, name).home for name in (CARD, OTHER)}
    assert sorted(homes.values(), key=str) == [None, "a"]
    (left,) = (name for name, home in homes.items() if home is None)
    told = find(device(made, left).status.conditions, CONFIGURED)
    assert told is not None
    assert told.reason == chain.NODE_FULL


def test_an_automatic_pool_takes_as_many_cards_at_once_as_it_has_room_for() -> None:
    made = Cluster()
    made.node("n1", 3)
    made.pool("a", **ONE_CARD, **AUTOMATIC)
    assert len(approve_cards(made.view().node("n1"))) == 1


def test_whatever_passes_the_chain_may_be_assigned_by_the_table_of_a_cards_states() -> None:
    for case in CASES:
        made = case.made()
        made.annotate(CARD, case.named)
        if obstacles.check_annotation(made.view().node("n1"), device(made)) is None:
            assert is_allowed(facts_of(device(made), made.now), "assign"), case
    for faulty in (False, True):
        made = Case(checks.pool_exists, "").made()
        made.fault(CARD, faulted=faulty)
        made.annotate(CARD, "a")
        passes = obstacles.check_annotation(made.view().node("n1"), device(made)) is None
        assert passes == is_allowed(facts_of(device(made), made.now), "assign") == (not faulty)


def test_a_card_that_is_being_deleted_waits_for_no_decision_whatever_pools_there_are() -> None:
    made = Case(checks.card_stays, "", going, pool=H100_ONLY).made()
    for declines in (False, True):
        if declines:
            declined(made)
        cards = {entry.inventory_id for entry in pending_cards(made.view().node("n1"))}
        assert cards == {device(made, OTHER).status.inventory_id}


def test_a_refusal_names_pools_that_serve_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Case(checks.selectors_match, "", pool=H100_ONLY).made()
    made.pool("b", allocation={"mode": "MPS"})
    made.pool("c")
    monkeypatch.setattr(checks, "SERVED_MODES", ("Exclusive",))
    for named in ("a", "nowhere"):
        denied = judged(made, named).denied
        assert denied is not None
        assert "c." in denied.message
        assert "b, c" not in denied.message


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
