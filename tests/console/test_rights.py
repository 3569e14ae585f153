"""What may not be read is counted and not shown: asserted on the bytes that a viewer gets."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from console.redactions import Redactions
from console.rights import ANOTHER, HIDDEN, Rights, guarded, redacted
from console.sight import Sight
from controllers.api.gpudevice import ForeignAllocation, GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.record import adapter
from controllers.api.resources import GPUDEVICE, GPUNODEINVENTORY, GPUPOOL, NODE, POD
from reliability.kit.apiserver import Server
from tests.console.clusters import ASSIGNS, NODES, OURS, PODS, Admin, Console, console, shown
from tests.console.page.serving import EVERYTHING, Fed
from tests.console.views.world import seen_pod
from tests.kit.objects import allocation, card, condition, inventory, node, pool, reservation
from tests.kit.waiting import until

TEAMS = ("team-a", "team-b")
SECRET = "covert"
"""Part of each name of a pod of team-b."""


def hidden_card(at: int = 0x17) -> GPUDevice:
    foreign = ForeignAllocation(namespace="team-b", pod=f"{SECRET}-f", container=f"{SECRET}-c", resource="x.io/gpu")
    return card(
        "n1",
        at,
        pool="train",
        slots=4,
        allocations=(allocation(f"{SECRET}-1", "u1", namespace="team-b"), allocation("mine", "u2", namespace="team-a")),
        reservations=(reservation("r1", pod=f"{SECRET}-*", namespace="team-b"),),
        foreign_allocations=(foreign,),
        conditions=(condition("Configured", False, "InUse", f"2 pods (team-b/{SECRET}-1, team-a/mine) have it."),),
    )


@dataclass
class Two:
    """A console in the cluster, and two teams."""

    console: Console
    admin: Admin
    tokens: dict[str, str]
    granted: dict[str, str]


@pytest.fixture
async def two(server: Server, admin: Admin, tmp_path: Path) -> AsyncIterator[Two]:
    await admin.put(pool("train"))
    await admin.put(node("n1"))
    await admin.put(inventory("n1", [hidden_card()]))
    await admin.put(hidden_card())
    await admin.pod("team-a", "mine", "train")
    await admin.pod("team-b", f"{SECRET}-1", "train")
    names = {team: f"{team}-{uuid.uuid4().hex[:6]}" for team in ("team-a", "team-b", "boss")}
    tokens = {team: await admin.somebody(name) for team, name in names.items()}
    granted = {}
    for team, name in names.items():
        rules = [OURS, NODES] + ([PODS] if team == "boss" else [])
        granted[f"{team}/all"] = await admin.grant(name, *rules)
        if team != "boss":
            granted[f"{team}/pods"] = await admin.grant(name, PODS, namespace=team)
    async with console(server.kubeconfig(tmp_path / "console.kubeconfig"), own=False) as made:
        await until(lambda: len(made.feed.pods) == 2 and len(made.feed.stores["GPUDevice"]) == 1, "the feed")
        yield Two(made, admin, tokens, granted)
    for kind, name, namespace in (
        (GPUDEVICE, hidden_card().name, None),
        (GPUNODEINVENTORY, "n1", None),
        (GPUPOOL, "train", None),
        (NODE, "n1", None),
        (POD, "mine", "team-a"),
        (POD, f"{SECRET}-1", "team-b"),
    ):
        await admin.remove(kind, name, namespace)


PAGES = [
    "fleet",
    "pool?pool=train",
    "pool",
    "pod?namespace=team-b&pod=x",
    "pod?namespace=team-a&pod=mine",
    "card?card=n1-0000-17-00-0",
    "confirm",
    "broken",
]


@pytest.mark.parametrize("page", PAGES)
async def test_a_team_never_gets_a_byte_of_anothers_pods(two: Two, page: str) -> None:
    team, boss = two.console.browser(two.tokens["team-a"]), two.console.browser(two.tokens["boss"])
    async with team.page(page) as theirs, boss.page(page) as all_of_it:
        await shown(theirs, lambda p: p.events, "a snapshot")
        await shown(all_of_it, lambda p: p.events, "a snapshot")
        changed = card("n1", pool="train", slots=4, allocations=(allocation(f"{SECRET}-2", "u3", namespace="team-b"),))
        await two.admin.put(changed)
        cards = two.console.feed.stores["GPUDevice"]
        await until(lambda: len(cards.get(changed.name).status.allocations) == 1, "the change")
        await two.admin.put(hidden_card())
        await two.admin.pod("team-b", f"{SECRET}-3", "train")
        await until(lambda: two.console.feed.pods.get(f"team-b/{SECRET}-3"), "the pod")
        turns = two.console.hub.turns
        await two.admin.put(pool("other"))
        await until(lambda: two.console.hub.turns > turns, "a turn of the hub")
        _, once = await team.get(f"/api/rows/{page}")
        await two.admin.remove(POD, f"{SECRET}-3", "team-b")
        await two.admin.remove(GPUPOOL, "other")
        assert SECRET.encode() not in bytes(theirs.raw)
        assert SECRET not in str(once)
        if page.startswith("card"):
            assert SECRET.encode() in bytes(all_of_it.raw), "or the test shows nothing"


async def test_a_team_gets_the_verdicts_of_nodes_for_its_own_pods_alone(two: Two) -> None:
    team, boss = two.console.browser(two.tokens["team-a"]), two.console.browser(two.tokens["boss"])
    _, ours = await team.get("/api/rows/pod?namespace=team-a&pod=mine")
    assert ours["rows"]["verdict/n1"]["kind"] == "nodeVerdict"
    assert SECRET not in str(ours)
    theirs = f"/api/rows/pod?namespace=team-b&pod={SECRET}-1"
    assert "verdict/n1" in (await boss.get(theirs))[1]["rows"]
    assert "verdict/n1" not in (await team.get(theirs))[1]["rows"]


async def test_who_may_not_list_nodes_gets_no_verdict_and_is_told_so(two: Two) -> None:
    name = f"nodeless-{uuid.uuid4().hex[:6]}"
    token = await two.admin.somebody(name)
    await two.admin.grant(name, OURS, PODS)
    status, once = await two.console.browser(token).get("/api/rows/pod?namespace=team-a&pod=mine")
    assert status == 200
    assert "pod" in once["rows"]
    assert "verdict/n1" not in once["rows"]
    assert once["rows"]["?/Node"] == {"kind": "refused", "of": "Node", "text": "You may not list nodes."}


async def test_what_may_not_be_read_is_counted(two: Two) -> None:
    status, once = await two.console.browser(two.tokens["team-a"]).get("/api/rows/card?card=n1-0000-17-00-0")
    assert status == 200
    assert "team-a" in str(once), "their own pod is shown"
    # One has it, one is promised it, and one has it by another resource.
    assert once["rows"]["holder/?"] == {"kind": "hidden", "of": "Pod", "count": 3}
    status, once = await two.console.browser(two.tokens["boss"]).get("/api/rows/card?card=n1-0000-17-00-0")
    assert SECRET in str(once)


async def test_viewers_of_equal_rights_share_what_is_computed(two: Two) -> None:
    boss, team = two.console.browser(two.tokens["boss"]), two.console.browser(two.tokens["team-a"])
    async with boss.page("pool") as one, boss.page("pool") as other, team.page("pool") as theirs:
        for page in (one, other, theirs):
            await shown(page, lambda p: p.events, "a snapshot")
        assert len({key[0] for key in two.console.hub._channels}) == 2
        assert one.ident == other.ident != theirs.ident


async def test_rights_that_are_withdrawn_take_their_rows_away_and_come_back(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.stream.AGAIN", 0.2)
    monkeypatch.setattr("console.reviews.ALLOWED", 0.2)
    monkeypatch.setattr("console.reviews.REFUSED", 0.2)
    team = two.console.browser(two.tokens["team-a"])
    name = two.granted["team-a/all"].rsplit("/", 1)[-1].removesuffix("-all")
    async with team.page("fleet") as page:
        await shown(page, lambda p: "n1" in str(p.rows.get("node/n1")), "the node")
        await two.admin.withdraw(two.granted["team-a/all"])
        await shown(page, lambda p: p.rows.get("?/GPUDevice", {}).get("kind") == "refused", "the refusal")
        assert "17-00-0" not in str(page.rows)
        again = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{name}-all"}
        who = {"kind": "ServiceAccount", "name": name, "namespace": "people"}
        body = {"metadata": {"name": f"{name}-all"}, "roleRef": again, "subjects": [who]}
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        await two.admin.client.request("POST", path, body=body)
        await shown(page, lambda p: "17-00-0" in str(p.rows.get("node/n1")), "the card again")


async def test_a_token_that_ends_ends_the_page(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.stream.AGAIN", 0.2)
    monkeypatch.setattr("console.viewers.KNOWN", 0.2)
    name = f"passing-{uuid.uuid4().hex[:6]}"
    token = await two.admin.somebody(name)
    await two.admin.grant(name, OURS, NODES)
    passing = two.console.browser(token)
    async with passing.page("fleet") as page:
        await shown(page, lambda p: p.events, "a snapshot")
        await two.admin.client.request("DELETE", f"/api/v1/namespaces/people/serviceaccounts/{name}")
        await shown(page, lambda p: p.end, "the end")
        assert page.end is not None
        assert page.end["status"] == 401
        assert "Log in again" in page.end["reason"]
    assert (await passing.get("/api/me"))[0] == 401
    assert (await passing.get("/api/events/fleet"))[0] == 401


async def test_who_is_nobody_gets_a_sentence(two: Two) -> None:
    for token in (None, "no token", "a.b.c"):
        status, said = await two.console.browser(token).get("/api/rows/fleet")
        assert status == 401
        assert said["error"]


async def test_cards_are_assigned_with_the_viewers_own_rights(two: Two) -> None:
    name = f"assigns-{uuid.uuid4().hex[:6]}"
    token = await two.admin.somebody(name)
    await two.admin.grant(name, OURS, NODES, ASSIGNS)
    may, may_not = two.console.browser(token), two.console.browser(two.tokens["team-a"])
    assert (await may.get("/api/me"))[1]["mayConfirm"] is True
    assert (await may_not.get("/api/me"))[1]["mayConfirm"] is False
    body = {"cards": ["n1-0000-17-00-0", "n9"], "pool": "train"}
    status, refused = await may_not.post("/api/confirm", body, Origin=two.console.url)
    assert status == 200
    assert refused["results"][0]["status"] == 403
    assert "may not patch gpudevices" in refused["results"][0]["message"]
    status, done = await may.post("/api/confirm", body, Origin=two.console.url)
    assert done["results"][0] == {"card": "n1-0000-17-00-0", "ok": True}
    assert done["results"][1]["status"] == 404
    another = {"cards": [{"name": "n1-0000-17-00-0", "uid": "of-the-one-before"}], "pool": "train"}
    (said,) = (await may.post("/api/confirm", another, Origin=two.console.url))[1]["results"]
    assert said["status"] == 409, "the page showed another card of that name"
    assert "another one by now" in said["message"]
    for wrong in (
        {},
        [],
        {"cards": [], "pool": "a"},
        {"cards": ["a"]},
        {"cards": ["../a"], "pool": "x"},
        {"cards": ["a"] * 999, "pool": "x"},
    ):
        assert (await may.post("/api/confirm", wrong, Origin=two.console.url))[0] == 400


def test_nothing_is_taken_out_of_what_may_be_read_nor_copied() -> None:
    whole = hidden_card()
    assert redacted(whole, Rights(frozenset(), None).may_read, b"salt", TEAMS) is whole
    less = redacted(whole, Rights(frozenset(), frozenset({"team-a"})).may_read, b"salt", TEAMS)
    assert SECRET not in str(less)
    assert [each.namespace for each in less.status.allocations] == [HIDDEN, "team-a"]
    held, promised = less.status.allocations[0], less.status.reservations[0]
    assert held.pod != promised.pod, "two pods are two"
    assert redacted(whole, Rights(frozenset(), frozenset()).may_read, b"salt", TEAMS).status.allocations[0] == held
    assert less.status.conditions[0].message == "2 pods (a pod of another namespace, team-a/mine) have it."


def test_a_name_that_lies_deep_in_a_status_is_taken_out_too() -> None:
    work = {
        "driver": "d",
        "nodeUID": "u",
        "phase": "Draining",
        "since": "2026-01-01T00:00:00Z",
        "message": f"pods use 1 of 4 cards: team-b/{SECRET}-1, team-a/mine",
    }
    whole = adapter(GPUNodeInventory).validate_python({"metadata": {"name": "n1"}, "status": {"driverWork": work}})
    less = redacted(whole, Rights(frozenset(), frozenset({"team-a"})).may_read, b"salt", TEAMS).status.driver_work
    assert less is not None
    assert less.phase == "Draining"
    assert less.message == "pods use 1 of 4 cards: a pod of another namespace, team-a/mine"


ORDINARY = [
    "0/60 nodes are available: 12 Insufficient gpu.deckhouse.io/training, 48 node(s) had untolerated taint(s).",
    "1/2 of and/or on amd64/arm64",
    "gpudevice/n1 is as docs/pools.md says",
    "pod team-a/mine reads /var/lib/kubelet/pods",
]
NAMING = [
    (f"pods use it: team-b/{SECRET}.", f"pods use it: {ANOTHER}."),
    (f"team-b/{SECRET}.md", ANOTHER),
    (f"Pod/team-b/{SECRET} waits", f"{ANOTHER} waits"),
    (f"pod/team-b/{SECRET} waits", f"{ANOTHER} waits"),
    (f"is ready.team-b/{SECRET} waits", f"is {ANOTHER} waits"),
    (f"- at n1:team-b/{SECRET}-*, team-a/mine", f"- at n1:{ANOTHER}, team-a/mine"),
    (f"-team-b/{SECRET}", ANOTHER),
    (f"(/run/team-b/{SECRET}.sock)", f"({ANOTHER})"),
    (f"XID 79 while pod long-gone/{SECRET} had it", f"XID 79 while pod {ANOTHER} had it"),
]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_like_a_pod_is_left_alone(text: str) -> None:
    assert guarded(text, Rights(frozenset(), frozenset({"team-a"})).may_read, TEAMS) == text


@pytest.mark.parametrize(("text", "less"), NAMING)
def test_a_pod_is_taken_out_of_a_text_however_it_stands_there(text: str, less: str) -> None:
    assert guarded(text, Rights(frozenset(), frozenset({"team-a"})).may_read, TEAMS) == less
    assert guarded(text, Rights(frozenset(), None).may_read, TEAMS) == text


def test_a_text_is_looked_through_again_where_a_namespace_comes_later() -> None:
    feed = Fed()
    feed.fill(cards=[card("n1", conditions=(condition("Faulted", message=f"0/60 of team-c/{SECRET}"),))])
    sight = Sight(feed, Rights(EVERYTHING, frozenset({"team-a"})), Redactions(feed))
    message = "0/60 of team-c/covert"

    def shown() -> str:
        (found,) = sight.seen().cards.values()
        return found.status.conditions[0].message

    assert shown() == message, "nobody knows it for a namespace"
    feed.fill(pods=[seen_pod(SECRET, "team-c")])
    assert shown() == f"0/60 of {ANOTHER}"
    feed.fill(pods=[])
    assert shown() == f"0/60 of {ANOTHER}", "the pod is gone, and the text still names it"
