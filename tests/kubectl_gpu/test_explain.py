"""Why a pod waits and where its cards are: each case made in a real cluster, and asked through the real kubectl."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.conditions import MAINTENANCE, is_true
from sim.workload import gpu_pod
from tests.kit.waiting import PATIENCE
from tests.kubectl_gpu.conftest import Kubectl
from tests.slice.people import People

pytestmark = pytest.mark.cluster
TEAM, POOL = "explained", "explained"
FRIEND = {"labelSelector": {"matchLabels": {"app": "friend"}}, "topologyKey": names.LABEL_HOSTNAME}
BESIDE_NOBODY: dict[str, Any] = {
    "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [FRIEND]}}
}
"""The webhook does not judge it, and the scheduler finds no node for it."""


@pytest.fixture
async def one_card(people: People, request: pytest.FixtureRequest) -> AsyncIterator[People]:
    """A pool of one card for one namespace; a parameter is more of its spec."""
    await people.namespace(TEAM)
    card = min(device.name for device in people.view.devices if device.status.node_name == "gpu-2")
    await people.pool(POOL, access={"namespaces": [TEAM]}, **{"queue": {}} | getattr(request, "param", {}))
    await people.annotate(card, POOL)
    await people.offered(POOL, 1)
    yield people
    for pod in people.pods(TEAM):
        await people.remove(resources.POD, pod.name, TEAM)
    await people.retire(POOL)


def card_of(people: People) -> str:
    (card,) = people.cards(POOL)
    return card.status.inventory_id or ""


async def deployment(people: People, name: str, namespace: str) -> None:
    template = {"metadata": {"labels": {"app": name}}, "spec": gpu_pod("x", POOL)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    await people.client.request("POST", path, body={"metadata": {"name": name}, "spec": spec})


async def developer(people: People) -> str:
    """Lets user dev read the namespace as Kubernetes' own role view does; returns the path of the binding."""
    binding = {
        "metadata": {"name": "dev"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dev"}],
    }
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{TEAM}/rolebindings"
    await people.client.request("POST", path, body=binding)
    return f"{path}/dev"


def until_it_says(kubectl: Kubectl, words: str, *args: str) -> str:
    """Ask again until the answer has these words."""
    deadline = time.monotonic() + PATIENCE
    while True:
        done = kubectl.run("gpu", "explain", *args)
        if words in done.stdout:
            return done.stdout
        assert time.monotonic() < deadline, done.stdout + done.stderr


async def test_a_pod_that_runs_and_what_it_runs_on(one_card: People, kubectl: Kubectl) -> None:
    people, card = one_card, card_of(one_card)
    await people.pod("runs", TEAM, POOL)
    await people.running(TEAM, 1)
    await people.settled(POOL, (1, 1, 0, 0))

    said = kubectl.gpu("explain", "pod", "runs", "-n", TEAM)
    assert said.startswith(f"Pod {TEAM}/runs runs on gpu-2 with 1 card of GPUPool {POOL}.\n")
    assert f"✓ Its cards, as kubelet reports: {card} (NVIDIA A100-SXM4-40GB)." in said
    answer = kubectl.json("explain", "pod", "runs", "-n", TEAM)
    assert (answer["kind"], answer["name"], answer["unread"]) == ("Pod", f"{TEAM}/runs", [])
    assert {finding["level"] for finding in answer["findings"]} == {"good"}

    assert f"is in GPUPool {POOL} and serves pods" in kubectl.gpu("explain", "card", card)
    assert f"GPUPool {POOL} has nothing free" in kubectl.gpu("explain", "pool", POOL)
    node = kubectl.gpu("explain", "node", "gpu-2")
    assert "Node gpu-2 is ready: its cards may be in pools." in node
    assert f"GPUPool {POOL} has 1 slot here" in node
    row = kubectl.gpu("cards", "--pool", POOL, "--no-headers")
    assert f"{TEAM}/runs" in row

    await people.pod("behind", TEAM, POOL)
    said = until_it_says(kubectl, "InUse", "pod", "behind", "-n", TEAM, "--cards")
    assert f"InUse {TEAM}/runs" in said


async def test_a_pod_that_has_its_card_reserved_and_waits_for_something_else(
    one_card: People, kubectl: Kubectl
) -> None:
    await one_card.pod("waits", TEAM, POOL, **BESIDE_NOBODY)

    said = until_it_says(kubectl, "The scheduler says", "pod", "waits", "-n", TEAM)
    assert said.startswith(f"Pod {TEAM}/waits has 1 card of GPUPool {POOL} reserved on gpu-2 and waits")
    assert f"✓ Card {card_of(one_card)} on node gpu-2 is reserved for it, for " in said
    assert "→ Cards are not what is lacking" in said
    assert f"kubectl gpu explain pod waits -n {TEAM}" in kubectl.gpu("explain", "card", card_of(one_card))

    heading, row = kubectl.gpu("explain", "pod", "waits", "-n", TEAM, "--cards").splitlines()[1:]
    assert heading.split() == ["NODE", "VERDICT", "CARDS"]
    assert row.startswith("gpu-2   promised to the pod; ? inter-pod affinity ")
    assert f"Promised {TEAM}/waits for " in row
    made = kubectl.json("explain", "pod", "waits", "-n", TEAM, "--cards")
    assert made["nodes"] == [{"node": "gpu-2", "reason": "Unknown", "notLookedAt": ["inter-pod affinity"]}]
    (card,) = made["cards"]
    assert (card["reason"], card["slots"], card["pod"]) == ("Promised", 1, "waits")


async def test_a_pod_that_waits_since_its_pool_has_no_card_for_it(one_card: People, kubectl: Kubectl) -> None:
    """While it waited its reservation ended, and the administrator took the card away."""
    people = one_card
    await people.settings(admission={"unseenTTL": "1s", "reservationTTL": "3s"})
    await people.pod("waits", TEAM, POOL, **BESIDE_NOBODY)
    (card,) = people.cards(POOL)
    await people.annotate(card.name, None)
    await people.settled(POOL, (0, 0, 0, 0))

    said = until_it_says(kubectl, f"No card has been assigned to GPUPool {POOL} yet", "pod", "waits", "-n", TEAM)
    assert said.startswith(f"Pod {TEAM}/waits waits for 1 card of GPUPool {POOL}: nothing is reserved for it now.\n")
    assert "has ended, since it was not bound in time" in said
    assert "it keeps its place before newcomers" in said
    assert f"kubectl gpu assign <card> {POOL}" in said
    await people.no_settings()


@pytest.mark.parametrize("one_card", [{"queue": {"onShortage": "Refuse"}}], indirect=True, ids=["refuse"])
async def test_pods_that_the_webhook_refuses_are_told_of_by_what_would_make_them(
    one_card: People, kubectl: Kubectl
) -> None:
    people = one_card
    await people.namespace("strangers")
    await deployment(people, "stranger", "strangers")
    said = until_it_says(kubectl, names.ACCESS_DENIED, "deployment", "stranger", "-n", "strangers")
    assert said.startswith(f"The webhook refuses the pods of strangers/stranger: {names.ACCESS_DENIED}.")
    assert f"kubectl edit gpupool {POOL}" in said
    assert names.ACCESS_DENIED in kubectl.gpu("explain", "pod", "stranger", "-n", "strangers")

    await people.pod("first", TEAM, POOL)
    await deployment(people, "late", TEAM)
    said = until_it_says(kubectl, names.INSUFFICIENT_CAPACITY, "deployment", "late", "-n", TEAM)
    assert f"kubectl gpu cards --pool {POOL}" in said

    for name, namespace in (("stranger", "strangers"), ("late", TEAM)):
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
        await people.client.request("DELETE", path, body={"propagationPolicy": "Foreground"})


async def test_a_pool_in_maintenance_is_why(one_card: People, kubectl: Kubectl) -> None:
    people = one_card
    await people.pod("holds", TEAM, POOL)
    await people.running(TEAM, 1)
    await people.client.merge(resources.GPUPOOL, POOL, {"spec": {"allocation": {"mode": "TimeSlice"}}}, manager="test")

    def shut() -> bool:
        pool = people.view.pools.get(POOL)
        return pool is not None and is_true(pool.status.conditions, MAINTENANCE)

    await people.view.until(shut, PATIENCE, lambda: "no Maintenance")
    said = kubectl.gpu("explain", "pool", POOL)
    assert said.startswith(f"GPUPool {POOL} gives no cards now.\n")
    assert f"✗ Condition {MAINTENANCE} of GPUPool {POOL} is True" in said
    assert "hold cards or are promised some (1). To find them: kubectl get pods -A" in said
    assert f"{TEAM}/holds" not in said, "tenants read pools"
    await deployment(people, "later", TEAM)
    told = until_it_says(kubectl, names.POOL_IN_MAINTENANCE, "deployment", "later", "-n", TEAM)
    assert f"kubectl gpu explain pool {POOL}" in told

    path = f"/apis/apps/v1/namespaces/{TEAM}/deployments/later"
    await people.client.request("DELETE", path, body={"propagationPolicy": "Foreground"})


async def test_a_pod_that_asks_for_no_card(one_card: People, kubectl: Kubectl) -> None:
    await one_card.pod("plain", TEAM, None)
    said = kubectl.gpu("explain", "pod", "plain", "-n", TEAM)
    assert said.startswith(f"Pod {TEAM}/plain asks for no card.\n")
    assert f"{names.PREFIX}<pool>: 1" in said


async def test_a_developer_hears_what_may_not_be_read(one_card: People, kubectl: Kubectl) -> None:
    people = one_card
    await people.pod("mine", TEAM, POOL)
    await people.running(TEAM, 1)
    path = await developer(people)

    said = kubectl.gpu("explain", "pod", "mine", "-n", TEAM, "--as", "dev")
    assert f"Pod {TEAM}/mine " in said
    assert f"? dev may not list gpudevices.{names.GROUP} in the whole cluster. Ask an administrator" in said
    assert f"--verb=list --resource=gpudevices.{names.GROUP}" in said
    refused = kubectl.fails("cards", "--as", "dev")
    assert refused.startswith(f"error: dev may not list gpudevices.{names.GROUP} in the whole cluster.")
    await people.client.request("DELETE", path, body={})


async def test_a_pod_that_waits_in_the_queue(one_card: People, kubectl: Kubectl) -> None:
    people = one_card
    await people.pod("first", TEAM, POOL)
    await people.running(TEAM, 1)
    await people.settled(POOL, (1, 1, 0, 0))
    await people.pod("second", TEAM, POOL)

    said = until_it_says(kubectl, "it is 1st of 1, and no card is ahead of it", "pod", "second", "-n", TEAM)
    assert said.startswith(f"Pod {TEAM}/second waits for 1 card of GPUPool {POOL}: ")
    assert f"kubectl gpu queue {POOL}" in said
    row = kubectl.gpu("queue", POOL, "--no-headers").split()
    assert (row[:4], row[6]) == (["1", TEAM, "second", "1"], "Waiting")
    assert [(each["pool"], each["waiting"]) for each in kubectl.json("queue", "-n", TEAM)["queues"]] == [(POOL, 1)]
    assert [each["pod"] for each in kubectl.json("queue", POOL)["pods"]] == ["second"]

    path = await developer(people)
    refused = kubectl.fails("release", "second", "-n", TEAM, "--as", "dev")
    assert f"You may not let pods past the queue of GPUPool {POOL}: that takes the verb release on gpupools" in refused
    assert "it is on node gpu-2" in kubectl.fails("release", "first", "-n", TEAM)
    assert f"{POOL}   1 " in kubectl.gpu("queue", "-n", TEAM, "--as", "dev")
    assert "dev may not get gpupools" in kubectl.fails("queue", POOL, "--as", "dev")
    told = kubectl.gpu("explain", "pod", "second", "-n", TEAM, "--as", "dev")
    assert told.startswith(f"Pod {TEAM}/second waits for 1 card of GPUPool {POOL}.\n")
    assert f"? dev may not get gpupools.{names.GROUP} in the whole cluster." in told
    await people.client.request("DELETE", path, body={})
