"""What a pool adds to its pods, at a real API server: it refuses in a pod what it, or we, refuse in a pool."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api.resources import GPUPOOL
from controllers.runtime.errors import ApiError
from tests.kit.versions import CHECKS_LABEL_VALUES
from tests.webhook.affinities import REFUSED, RIGHT, UNKNOWN
from tests.webhook.plane import Api, Plane, pod

if TYPE_CHECKING:
    from collections.abc import Awaitable

pytestmark = pytest.mark.cluster
DRY = {"dryRun": "All"}


async def refused(attempt: Awaitable[Any]) -> str:
    """Why; empty where it was not."""
    try:
        await attempt
    except ApiError as error:
        return error.message
    return ""


async def test_an_affinity_is_judged_as_the_api_server_judges_it(plane: Plane, api: Api) -> None:
    namespace = await api.namespace(plane.unique("team"))

    async def in_a_pod(affinity: Any) -> str:
        return await refused(api.make_pod(namespace, pod("p", affinity=affinity), DRY))

    right = RIGHT | {word: raw for word, (raw, _) in UNKNOWN.items()}
    told = await asyncio.gather(*map(in_a_pod, right.values()))
    assert {word: why for word, why in zip(right, told, strict=True) if why} == {}, "dropped, not refused"
    told = await asyncio.gather(*(in_a_pod(raw) for raw, _ in REFUSED.values()))
    taken = [] if CHECKS_LABEL_VALUES else ["no value of a label"]
    assert [word for word, why in zip(REFUSED, told, strict=True) if not why] == taken


GOOD: list[dict[str, Any]] = [
    {"topologyKey": "example.com/rack"},
    {"topologyKey": ""},
    {
        "tolerations": [
            {"operator": "Exists"},
            {"key": "a.b/c", "operator": "Exists", "value": ""},
            {"key": "a", "value": "b"},
            {"key": "a", "operator": "Equal", "effect": "NoExecute", "tolerationSeconds": 5},
        ]
    },
]
BAD: list[tuple[dict[str, Any], str]] = [
    ({"topologyKey": "not a label!"}, "spec.scheduling.topologyKey"),
    ({"topologyKey": "x" * 64}, "spec.scheduling.topologyKey"),
    ({"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}, "operator Exists compares no value"),
    ({"tolerations": [{"key": "a"}, {"value": "b"}]}, "spec.scheduling.tolerations[1]: Invalid value"),
    ({"tolerations": [{"operator": "Equal"}]}, "a toleration without a key needs operator Exists"),
    ({"tolerations": [{"key": "a b", "operator": "Exists"}]}, "spec.scheduling.tolerations[0].key"),
    ({"tolerations": [{"key": "a", "value": "b!"}]}, "spec.scheduling.tolerations[0].value"),
    ({"tolerations": [{"key": "a", "value": "b", "tolerationSeconds": 5}]}, "tolerationSeconds needs effect NoExecute"),
]


async def test_a_pools_tolerations_and_topology_are_what_a_pod_may_have(plane: Plane, api: Api) -> None:
    namespace = await api.namespace(plane.unique("team"))

    async def in_a_pool(scheduling: dict[str, Any]) -> str:
        body = {
            "apiVersion": GPUPOOL.api_version,
            "kind": GPUPOOL.kind,
            "metadata": {"name": "p"},
            "spec": {"scheduling": scheduling},
        }
        return await refused(api.create(GPUPOOL.path(), body, DRY))

    async def in_a_pod(scheduling: dict[str, Any]) -> str:
        return await refused(api.make_pod(namespace, pod("p", tolerations=scheduling["tolerations"]), DRY))

    for scheduling in GOOD:
        assert await in_a_pool(scheduling) == ""
        assert "tolerations" not in scheduling or await in_a_pod(scheduling) == ""
    for scheduling, said in BAD:
        assert said in await in_a_pool(scheduling)
        # A pod may be spread over what can be no label: it is spread over nothing.
        assert "tolerations" not in scheduling or await in_a_pod(scheduling), scheduling
