"""The patch, as a real API server applies it, and what that server itself refuses."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.resources import GPUPOOL, NODE, POD
from controllers.runtime.errors import ApiError
from tests.kit.versions import HAS_POD_RESOURCES
from tests.kit.waiting import until
from tests.webhook.plane import Api, Plane, Replica, pod, refusal
from webhook.decision.affinity import PREFERRED, REQUIRED
from webhook.decision.pod_patch import NO_SPREAD

pytestmark = pytest.mark.cluster
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
TOLERATION = {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
DRY = {"dryRun": "All"}
ANYWHERE: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]}


def exists(key: str) -> dict[str, Any]:
    return {"key": key, "operator": "Exists"}


def near(key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "x"}}}


SCHEDULING = {
    "strategy": "Spread",
    "topologyKey": "rack",
    "taints": [TAINT],
    "affinity": {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [exists("disk")]}]},
            PREFERRED: [{"weight": 7, "preference": {"matchExpressions": [exists("fast")]}}],
        },
        "podAntiAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": near("rack")}]},
    },
}


@pytest.fixture(scope="module")
def pool(plane: Plane, pair: list[Replica]) -> str:
    return plane.unique("pool")


@pytest.fixture
async def team(plane: Plane, api: Api, pool: str) -> tuple[str, str]:
    """A namespace, and a pool with its own taint, topology and affinity; two of its three nodes have the disk."""
    namespace = await api.namespace(plane.unique("team"))
    if not await api.exists(GPUPOOL.path(name=pool)):
        await api.pool(pool, scheduling=SCHEDULING)
        for number, labels in enumerate(({"disk": "a"}, {"disk": "b"}, {})):
            node = f"{pool}-n{number}"
            await api.node(node, pool, 4, rack=f"r{number}", **labels)
            # As gpupool-controller does; by merge, since KWOK's node has nobody else's taints.
            await api.client.merge(NODE, node, {"spec": {"taints": [TAINT]}}, manager="test")
            await until(lambda node=node: api.ready_node(node), "the node to be ready")

    async def passes() -> bool:
        try:
            made = [await api.make_pod(namespace, asking(pool, 4), DRY) for _ in range(6)]
        except Exception:  # noqa: BLE001 - whatever it is, not yet
            return False
        return all(TOLERATION in each["spec"]["tolerations"] for each in made)

    await until(passes, "the webhooks to know the pool and its taint")
    return namespace, pool


def asking(pool: str, units: int = 1, name: str = "p", **spec: Any) -> dict[str, Any]:
    return pod(name, {names.resource_name(pool): str(units)}, **spec)


async def test_a_bare_pod(api: Api, team: tuple[str, str]) -> None:
    namespace, pool = team
    made = await api.make_pod(namespace, asking(pool), DRY)
    spec, affinity = made["spec"], made["spec"]["affinity"]
    terms = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": [exists("disk"), exists(names.pool_node_label(pool))]}]
    wish, here = affinity["nodeAffinity"][PREFERRED]
    assert wish == SCHEDULING["affinity"]["nodeAffinity"][PREFERRED][0]
    (chosen,) = here["preference"]["matchFields"][0]["values"]
    assert chosen in (f"{pool}-n0", f"{pool}-n1")
    assert made["metadata"]["annotations"][names.DEVICES].startswith(f"{chosen}-0000:")
    assert affinity["podAntiAffinity"] == SCHEDULING["affinity"]["podAntiAffinity"]
    assert spec["topologySpreadConstraints"] == [NO_SPREAD]
    assert made["metadata"]["labels"][names.LABEL_POOL] == pool


async def test_a_pods_own_wishes_are_kept(api: Api, team: tuple[str, str]) -> None:
    namespace, pool = team
    own = {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["b"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]},
                ]
            },
            PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [exists("cheap")]}}],
        },
        "podAffinity": {REQUIRED: [near("zone")]},
        "podAntiAffinity": {PREFERRED: [{"weight": 9, "podAffinityTerm": near("zone")}]},
    }
    spread = {
        "maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }  # fmt: skip
    body = asking(
        pool, affinity=own, topologySpreadConstraints=[spread], tolerations=[{"key": "mine", "operator": "Exists"}]
    )
    made = (await api.make_pod(namespace, body, DRY))["spec"]
    first, second = made["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    ours = [exists("disk"), exists(names.pool_node_label(pool))]
    assert first["matchExpressions"] == [{"key": "disk", "operator": "In", "values": ["b"]}, *ours]
    assert second["matchFields"][0]["values"] == ["elsewhere"]
    assert second["matchExpressions"] == ours
    preferred = made["affinity"]["nodeAffinity"][PREFERRED]
    assert [entry["weight"] for entry in preferred] == [1, 7, 100]
    assert preferred[2]["preference"]["matchFields"][0]["values"] == [f"{pool}-n1"]
    assert made["affinity"]["podAffinity"] == own["podAffinity"]
    assert [entry["weight"] for entry in made["affinity"]["podAntiAffinity"][PREFERRED]] == [9, 3]
    assert made["topologySpreadConstraints"] == [spread]
    assert {"key": "mine", "operator": "Exists"} in made["tolerations"]
    assert TOLERATION in made["tolerations"]


async def test_null_lists_and_two_hundred_containers(api: Api, team: tuple[str, str]) -> None:
    namespace, pool = team
    body = asking(pool, affinity=None, tolerations=None, topologySpreadConstraints=None, nodeSelector=None)
    body["metadata"] |= {"labels": None, "annotations": None}
    body["spec"]["initContainers"] = None
    made = await api.make_pod(namespace, body, DRY)
    assert made["metadata"]["labels"] == {names.LABEL_POOL: pool}
    assert TOLERATION in made["spec"]["tolerations"]

    many = asking(pool)
    many["spec"]["containers"] += [{"name": f"c{number}", "image": "none"} for number in range(199)]
    made = await api.make_pod(namespace, many, DRY)
    assert len(made["spec"]["containers"]) == 200
    assert made["metadata"]["annotations"][names.DEVICES].count(",") == 0


async def test_a_pod_that_names_its_node(api: Api, team: tuple[str, str]) -> None:
    namespace, pool = team
    made = await api.make_pod(namespace, asking(pool, nodeName=f"{pool}-n1"), DRY)
    assert made["metadata"]["annotations"][names.DEVICES].startswith(f"{pool}-n1-0000:")
    message = await refusal(api.make_pod(namespace, asking(pool, nodeName="elsewhere"), DRY))
    assert "InsufficientCapacity: " in message
    assert "the pod names node elsewhere (spec.nodeName), which has 0 free" in message


def shaped(container: dict[str, Any]) -> dict[str, Any]:
    body = pod("p")
    body["spec"]["containers"][0] |= container
    return body


async def test_what_kubernetes_refuses_holds_no_card(api: Api, team: tuple[str, str]) -> None:
    namespace, pool = team
    key = names.resource_name(pool)
    for resources, part in (
        ({"requests": {key: "1"}}, "and its limit is not set; Kubernetes wants them to be equal"),
        ({"requests": {key: "1"}, "limits": {key: "2"}}, "requests"),
        ({"limits": {key: "1.5"}}, "'1500m' is not a whole number of cards"),
        ({"limits": {key: "-1"}}, "'-1' is not a whole number of cards"),
    ):
        message = await refusal(api.make_pod(namespace, shaped({"resources": resources})))
        assert "denied the request: Invalid: " in message
        assert part in message
    if HAS_POD_RESOURCES:  # a pod's own resources name no cards, and a pod that asks for them only there never meets us
        body = pod("p")
        body["spec"]["resources"] = {"limits": {key: "1"}}
        message = await refusal(api.make_pod(namespace, body))
        assert "spec.resources" in message
        assert "admission webhook" not in message
    assert await api.reservations(pool) == []


QUANTITIES = {"1": 1, "2k": 2000, "3e0": 3, "2000m": 2, "1Ki": 1024}


@pytest.mark.parametrize(("quantity", "units"), QUANTITIES.items(), ids=QUANTITIES.keys())
async def test_quantities_as_people_write_them(api: Api, team: tuple[str, str], quantity: str, units: int) -> None:
    namespace, pool = team
    body = shaped({"resources": {"limits": {names.resource_name(pool): quantity}}})
    if units > 4:
        assert f"cannot give {units} now" in await refusal(api.make_pod(namespace, body, DRY))
    else:
        made = await api.make_pod(namespace, body, DRY)
        assert len(made["metadata"]["annotations"][names.DEVICES].split(",")) == units


async def test_a_sidecar_and_an_init_container_count_as_the_scheduler_counts_them(
    api: Api, team: tuple[str, str]
) -> None:
    namespace, pool = team
    one = {"resources": {"limits": {names.resource_name(pool): "1"}}, "image": "none"}
    body = shaped(one)
    body["spec"]["initContainers"] = [
        {"name": "first", **one},
        {"name": "side", "restartPolicy": "Always", **one},
        {"name": "last", "image": "none", "resources": {"limits": {names.resource_name(pool): "2"}}},
    ]
    made = await api.make_pod(namespace, body, DRY)
    assert len(made["metadata"]["annotations"][names.DEVICES].split(",")) == 3


async def test_the_scheduler_follows(api: Api, team: tuple[str, str]) -> None:
    """With its tolerations, affinity and spread the pod is bound where its card is reserved."""
    namespace, pool = team
    made = await api.make_pod(namespace, asking(pool, name="runs"))
    node = made["metadata"]["annotations"][names.DEVICES].partition("-0000:")[0]

    async def bound() -> str:
        return (await api.get(POD.path(namespace, "runs")))["spec"].get("nodeName", "")

    assert await until(bound, "the pod to be bound") == node


async def test_what_the_node_does_not_show_yet_is_promised_to_nobody(
    plane: Plane, api: Api, pair: list[Replica]
) -> None:
    """Between a plugin's offer and kubelet's status update the scheduler knows of no such slot (D16)."""
    namespace, pool = await api.namespace(plane.unique("team")), await api.pool(plane.unique("pool"))
    shown, hidden = f"{pool}-shown", f"{pool}-hidden"
    for node in (shown, hidden):
        await api.node(node, pool, 2)
        await until(lambda node=node: api.ready_node(node), "the node to be ready")

    async def says(unavailable: int) -> bool:
        try:
            await api.make_pod(namespace, asking(pool, 3), DRY)
        except ApiError as error:
            return f"unavailable {unavailable}, " in error.message
        return False

    await api.shows(hidden, pool, 0)
    await until(lambda: says(2), "the webhooks to know the nodes")
    first = await api.make_pod(namespace, asking(pool, 2, "first", **ANYWHERE))
    assert first["metadata"]["annotations"][names.DEVICES].startswith(f"{shown}-")
    with pytest.raises(ApiError, match=names.INSUFFICIENT_CAPACITY):
        await api.make_pod(namespace, asking(pool, 1, "early", **ANYWHERE))

    await api.shows(hidden, pool, 2)
    await until(lambda: says(0), "the webhooks to know what the node shows")
    second = await api.make_pod(namespace, asking(pool, 2, "second", **ANYWHERE))
    assert second["metadata"]["annotations"][names.DEVICES].startswith(f"{hidden}-")
