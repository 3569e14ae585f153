"""What the webhook does to others: nothing to pods that ask for nothing, no lost creation while it stops,
nothing left behind when it fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import GPUDEVICE, GPUPOOL, MODULECONFIG, POD
from controllers.domain.clock import seconds
from controllers.runtime.errors import ApiError
from tests.kit.waiting import until
from tests.webhook import people
from tests.webhook import plane as planes
from tests.webhook.plane import Api, Plane, pod, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.cluster
UNSEEN = 6
"""Seconds until a reservation ends whose pod is never seen; a few requests fit into them on a busy machine."""
ANYWHERE: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]}


async def created(api: Api, namespace: str, body: dict[str, Any], **query: str) -> str:
    """Created, or the refusal."""
    try:
        await api.make_pod(namespace, body, query)
    except ApiError as error:
        return error.message
    return "Created"


@pytest.fixture
async def team(plane: Plane, api: Api) -> AsyncIterator[tuple[str, str, list[str]]]:
    """A namespace, a pool, and its cards on one node of eight."""
    namespace, pool, node = plane.unique("team"), plane.unique("pool"), plane.unique("node")
    await api.namespace(namespace)
    await api.pool(pool)
    cards = await api.node(node, pool, 8)
    await until(lambda: api.ready_node(node), "the node to be ready")
    yield namespace, pool, cards
    await api.client.request("DELETE", f"/api/v1/nodes/{node}")


async def answering(api: Api, namespace: str, pool: str) -> None:
    """A dry run for all its cards passes six times: both replicas know them."""
    body = pod("probe", {names.resource_name(pool): "8"}, **ANYWHERE)

    async def passes() -> bool:
        return {await created(api, namespace, body, dryRun="All") for _ in range(6)} == {"Created"}

    await until(passes, "the webhook to answer")


async def test_pods_that_ask_for_nothing_do_not_meet_a_dead_webhook(plane: Plane, api: Api) -> None:
    namespace = await api.namespace(plane.unique("team"))
    for number in range(20):
        await api.make_pod(namespace, pod(f"plain-{number}", {"cpu": "1"}))
    message = await refusal(api.make_pod(namespace, pod("gpu", {names.resource_name("a"): "1"})))
    assert 'failed calling webhook "pods.gpu.deckhouse.io"' in message


async def test_a_replica_stops_and_another_dies_without_a_failed_creation(
    plane: Plane, api: Api, team: tuple[str, str, list[str]], tmp_path: Path
) -> None:
    namespace, pool, _ = team
    body = pod("probe", {names.resource_name(pool): "1"}, **ANYWHERE)
    with planes.replicas(plane, tmp_path, 3, "--drain-seconds=6") as three:
        await answering(api, namespace, pool)
        outcomes: Counter[str] = Counter()
        over = asyncio.Event()

        async def create() -> None:
            while not over.is_set():
                outcomes[await created(api, namespace, body, dryRun="All")] += 1

        load = [asyncio.create_task(create()) for _ in range(4)]
        await until(lambda: outcomes.total() > 20, "creations before it stops")
        assert await asyncio.to_thread(three[0].end) == 0
        stopped = outcomes.total()
        await until(lambda: outcomes.total() > stopped + 20, "creations after it has stopped")
        over.set()
        await asyncio.gather(*load)
        assert set(outcomes) == {"Created"}, outcomes

        three[1].end(kill=True)
        await answering(api, namespace, pool)


async def test_what_was_reserved_is_taken_back_when_a_card_cannot_be(
    plane: Plane, api: Api, team: tuple[str, str, list[str]], tmp_path: Path
) -> None:
    namespace, pool, cards = team
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    name = plane.unique("nobody-touches")
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": ["gpu.deckhouse.io"], "apiVersions": ["v1alpha1"], "operations": ["UPDATE"],
                    "resources": ["gpudevices/status"], "resourceNames": [cards[0]],
                }
            ]
        },
        "validations": [{"expression": "request.userInfo.username.endsWith('admin')", "message": "hands off"}],
    }  # fmt: skip
    await api.create(policies, {"metadata": {"name": name}, "spec": spec})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    await api.create("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", binding)
    with planes.replicas(plane, tmp_path, 1) as (replica,):
        await answering(api, namespace, pool)
        body = pod("all", {names.resource_name(pool): "8"}, **ANYWHERE)

        async def refused() -> str:
            message = await created(api, namespace, body)
            if message == "Created":
                await api.client.request("DELETE", POD.path(namespace, "all"), query={"gracePeriodSeconds": "0"})
                for card in cards:
                    await api.status(GPUDEVICE, card, {"state": "Assigned", "reservations": []})
            return message if "hands off" in message else ""

        message = await until(refused, "the policy to be in force")
        assert "ReservationNotWritten: the reservation could not be written (" in message
        assert await api.reservations(pool) == []
        assert {card["status"]["state"] for card in await api.cards(pool)} == {"Assigned"}
        assert replica.metric("gpu_webhook_reservations_taken_back_total") >= 7


async def test_a_reservation_whose_pod_never_appears_ends_by_itself(
    plane: Plane, api: Api, team: tuple[str, str, list[str]], tmp_path: Path
) -> None:
    namespace, pool, _ = team
    config = {
        "metadata": {"name": names.MODULE},
        "spec": {"version": 1, "settings": {"admission": {"unseenTTL": f"{UNSEEN}s"}}},
    }
    body = {"apiVersion": MODULECONFIG.api_version, "kind": MODULECONFIG.kind, **config}
    await api.create(MODULECONFIG.path(), body)
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {f"requests.{names.resource_name(pool)}": "0"}}}
    await api.create(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)

    async def counted() -> bool:
        found = await api.get(f"/api/v1/namespaces/{namespace}/resourcequotas/none")
        return bool(found.get("status", {}).get("hard"))

    await until(counted, "the quota to be counted")
    asking = pod("late", {names.resource_name(pool): "8"}, **ANYWHERE)
    try:
        with planes.replicas(plane, tmp_path, 2):
            other = await api.namespace(plane.unique("team"))
            await answering(api, other, pool)
            # Quota comes after us: the cards are reserved for a pod that is refused.
            assert "exceeded quota" in await created(api, namespace, asking)
            assert len(await api.reservations(pool)) == 8
            assert "InsufficientCapacity" in await created(api, other, asking)

            async def free() -> bool:
                return await created(api, other, asking) == "Created"

            for entry in await api.reservations(pool):
                assert seconds(entry["expiresAt"]) - seconds(entry["since"]) <= UNSEEN + 0.01
            await until(free, "the cards to be free again")
            assert len(await api.reservations(pool)) == 8
            assert {entry["namespace"] for entry in await api.reservations(pool)} == {other}
    finally:
        await api.client.request("DELETE", MODULECONFIG.path(name=names.MODULE))


async def test_settings_are_followed(plane: Plane, api: Api, team: tuple[str, str, list[str]], tmp_path: Path) -> None:
    namespace, pool, _ = team
    body = pod("p", {names.resource_name(pool): "1"}, **ANYWHERE)
    runtime_class = {"metadata": {"name": "nvidia"}, "handler": "nvidia"}
    await api.create("/apis/node.k8s.io/v1/runtimeclasses", runtime_class)
    with planes.replicas(plane, tmp_path, 1):
        await answering(api, namespace, pool)
        settings = {"admission": {"runtimeClassName": "nvidia"}}
        config = {"apiVersion": MODULECONFIG.api_version, "kind": MODULECONFIG.kind, "metadata": {"name": names.MODULE}}
        await api.create(MODULECONFIG.path(), config | {"spec": {"version": 1, "settings": settings}})
        try:

            async def given() -> bool:
                made = await api.make_pod(namespace, body, {"dryRun": "All"})
                return made["spec"].get("runtimeClassName") == "nvidia"

            await until(given, "the runtime class to be given")
            bad = {"spec": {"settings": {"admission": {"maxUnseen": "many"}}}}
            message = await refusal(api.client.merge(MODULECONFIG, names.MODULE, bad, manager="test"))
            assert "admission.maxUnseen" in message
            assert await given()
        finally:
            await api.client.request("DELETE", MODULECONFIG.path(name=names.MODULE))
            await api.client.request("DELETE", "/apis/node.k8s.io/v1/runtimeclasses/nvidia")


async def test_marks_that_a_pod_brings_do_not_count(
    plane: Plane, api: Api, team: tuple[str, str, list[str]], tmp_path: Path
) -> None:
    namespace, pool, _ = team
    forged = {
        "labels": {names.LABEL_POOL: "other"},
        "annotations": {names.REQUEST_ID: "stolen", names.DEVICES: "somebody-elses"},
    }
    with planes.replicas(plane, tmp_path, 1):
        await answering(api, namespace, pool)
        made = await api.make_pod(
            namespace, pod("asks", {names.resource_name(pool): "1"}, meta=forged, **ANYWHERE), {"dryRun": "All"}
        )
        assert made["metadata"]["labels"][names.LABEL_POOL] == pool
        assert made["metadata"]["annotations"][names.REQUEST_ID] != "stolen"
        nothing = await api.make_pod(namespace, pod("zero", {names.resource_name(pool): "0"}, meta=forged))
        assert names.LABEL_POOL not in nothing["metadata"].get("labels", {})
        assert names.REQUEST_ID not in nothing["metadata"].get("annotations", {})
        assert "affinity" not in nothing["spec"]
        assert await api.reservations(pool) == []


async def test_a_new_namespace_is_known_by_its_labels_at_once(
    plane: Plane, api: Api, team: tuple[str, str, list[str]], tmp_path: Path
) -> None:
    namespace, pool, _ = team
    with planes.replicas(plane, tmp_path, 2):
        await answering(api, namespace, pool)
        await _only_labelled(plane, api, namespace, pool)


async def _only_labelled(plane: Plane, api: Api, namespace: str, pool: str) -> None:
    async with people.acting(plane, "jane") as jane:
        access = {"access": {"namespaceSelector": {"matchLabels": {"gpu": "yes"}}}}
        await api.client.merge(GPUPOOL, pool, {"spec": access}, manager="test")
        body = pod("p", {names.resource_name(pool): "1"}, **ANYWHERE)

        async def refused() -> bool:
            return all(["AccessDenied" in await created(jane, namespace, body, dryRun="All") for _ in range(6)])

        await until(refused, "the pool to be closed")
        for _ in range(5):
            fresh = await api.namespace(plane.unique("fresh"), gpu="yes")
            assert await created(jane, fresh, body, dryRun="All") == "Created"


async def test_a_replica_set_is_told_and_tries_again(
    plane: Plane, api: Api, team: tuple[str, str, list[str]], tmp_path: Path
) -> None:
    namespace, pool, cards = team
    template = pod("x", {names.resource_name(pool): "1"}, **ANYWHERE)
    template = {"metadata": {"labels": {"app": "x"}}, "spec": template["spec"]}
    spec = {"replicas": 9, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "x"}, "spec": spec}
    with planes.replicas(plane, tmp_path, 2):
        await answering(api, namespace, pool)
        await api.create(f"/apis/apps/v1/namespaces/{namespace}/replicasets", body)

        async def told() -> list[str]:
            events = (await api.get(f"/api/v1/namespaces/{namespace}/events"))["items"]
            return [event["message"] for event in events if "InsufficientCapacity" in event["message"]]

        messages = await until(told, "the ReplicaSet to be told")
        assert "denied the request: InsufficientCapacity: " in messages[0]

        async def devices() -> list[str]:
            pods = (await api.get(POD.path(namespace)))["items"]
            return [item["metadata"]["annotations"][names.DEVICES] for item in pods]

        async def eight() -> bool:
            return len(await devices()) == 8

        await until(eight, "eight pods")
        assert len(set(await devices())) == 8
        node = cards[0].rsplit("-0000-", 1)[0]
        await api.card(node, pool, 40)
        await api.shows(node, pool, sum(card.startswith(f"{node}-") for card in cards) + 1)

        async def nine() -> bool:
            return len(await devices()) == 9

        await until(nine, "the ninth pod, once there is a card", 60)
