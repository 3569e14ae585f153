"""Pools, settings and workloads at a real API server: what their authors read."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.resources import GPUPOOL
from tests.kit.waiting import until
from tests.webhook.fleet import Fleet, in_pool, module_config, node_of_cards, serving, workload
from tests.webhook.plane import Api, Plane, Replica

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster


@pytest.fixture
async def fleet(plane: Plane, api: Api, pair: list[Replica]) -> AsyncIterator[Fleet]:
    async with node_of_cards(plane, api) as made:
        yield made


async def test_a_pools_author_reads_what_is_wrong_with_it(fleet: Fleet) -> None:
    def made(name: str, **spec: Any) -> subprocess.CompletedProcess[str]:
        body = {"apiVersion": GPUPOOL.api_version, "kind": GPUPOOL.kind, "metadata": {"name": name}, "spec": spec}
        return fleet.apply(body)

    done = made("odd", allocation={"mode": "MIG", "migProfile": "9g.45gb"})
    assert f'"gpupools.gpu.deckhouse.io" denied the request: {names.INVALID_MIG_PROFILE}: ' in done.stderr
    # What the CRD says itself.
    for name, spec, word in (
        ("x" * 41, {}, names.NAME_TOO_LONG),
        ("odd", {"resource": {"name": "gpu.deckhouse.io/even"}}, names.IMMUTABLE_FIELD),
        ("odd", {"resource": {"unit": "timeslice"}}, names.IMMUTABLE_FIELD),
        ("odd", {"allocation": {"mode": "MIG"}}, names.INVALID_MIG_PROFILE),
    ):
        done = made(name, **spec)
        assert f"{word}: " in done.stderr, done
    done = made(fleet.plane.unique("none"), deviceSelector={"include": {"products": ["NVIDIA H100 80GB HBM3"]}})
    assert done.returncode == 0
    assert "matches none of the" in done.stderr
    assert (
        "products expects NVIDIA H100 80GB HBM3, found " in done.stderr
    )  # the first card, which may be another test's
    done = made(fleet.plane.unique("odd"), scheduling={"affinity": {"nodeAfinity": {}}})
    assert done.returncode == 0
    assert (
        "gives no cards until this is mended: spec.scheduling.affinity cannot be read: nodeAfinity: there"
        in done.stderr
    )


async def test_a_pool_in_use_is_changed_and_deleted_with_a_word(fleet: Fleet) -> None:
    pool, card = await fleet.pool("used"), fleet.cards[0]
    await fleet.status(card, **in_pool(pool), allocations=[serving("train")])
    body: dict[str, Any] = {"spec": {"allocation": {"mode": "TimeSlice"}}}

    async def told() -> str:
        done = fleet.kubectl("patch", "gpupool", pool, "--type=merge", "--dry-run=server", "-p", json.dumps(body))
        assert done.returncode == 0, done.stderr
        return done.stderr

    message = await until(told, "the webhook to know who uses the pool")
    assert (
        "goes into Maintenance: new pods are refused (PoolInMaintenance) until the end of 1 pod (team/train)" in message
    )
    body = {"spec": {"nodeSelector": {"matchLabels": {"zone": "b"}}}}
    message = await told()
    assert "no longer matched by its selectors" in message
    body = {"metadata": {"labels": {"x": "y"}}}
    assert await told() == ""
    done = fleet.kubectl("delete", "gpupool", pool, "--dry-run=server")
    assert "stays until the end of 1 pod (team/train)" in done.stderr


def test_settings_are_checked_by_the_model_that_the_processes_use(plane: Plane, pair: list[Replica], api: Api) -> None:
    fleet = Fleet(plane, api, "", [])
    bad = {"health": {"maxUnavailablePercent": 500}, "inventory": {"resyncPeriod": "soon"}, "logLvl": "Info"}
    done = fleet.apply(module_config(**bad), "--dry-run=server")
    assert done.returncode == 1
    for part in (
        "health.maxUnavailablePercent: Input should be less than or equal to 100 (found 500)",
        "inventory.resyncPeriod: 'soon' is not a duration; write a number with ms, s, m or h, such as 30s or 2m",
        "logLvl: there is no such setting",
    ):
        assert part in done.stderr
    # Other modules' settings are not ours to judge, and switching off is never refused.
    assert fleet.apply(module_config(name="other", **bad), "--dry-run=server").returncode == 0
    assert fleet.apply(module_config(enabled=False, **bad), "--dry-run=server").returncode == 0
    assert fleet.apply(module_config(inventory={"resyncPeriod": "1m"}), "--dry-run=server").stderr == ""


KINDS = ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_workload_is_told_what_its_pods_would_be_refused_for(
    plane: Plane, pair: list[Replica], api: Api, kind: str
) -> None:
    fleet, namespace = Fleet(plane, api, "", []), await api.namespace(plane.unique("team"))
    closed, open_ = [await fleet.pool(word) for word in ("closed", "open")]
    await api.client.merge(GPUPOOL, closed, {"spec": {"access": {"namespaces": ["others"]}}}, manager="test")

    async def told(pool: str | None) -> str:
        done = fleet.apply(workload(kind, pool, namespace), "--dry-run=server")
        assert done.returncode == 0, done.stderr
        return done.stderr

    async def denied() -> str:
        message = await told(closed)
        return message if "AccessDenied" in message else ""

    message = await until(denied, "the webhook to know the pool's access")
    assert f"Warning: pods of this {kind} will be refused: AccessDenied: namespace {namespace}" in message
    assert f"will be refused: PoolNotFound: there is no GPUPool {'nowhere'!r}" in await told("nowhere")
    assert await told(open_) == ""
    assert await told(None) == ""


async def test_a_workload_is_not_looked_at_again_for_its_replicas(plane: Plane, pair: list[Replica], api: Api) -> None:
    fleet, namespace = Fleet(plane, api, "", []), await api.namespace(plane.unique("team"))
    made = workload("Deployment", "nowhere", namespace)
    made["spec"]["replicas"] = 0
    assert "PoolNotFound" in fleet.apply(made).stderr
    before = sum(replica.metric("gpu_webhook_validations_total") for replica in pair)
    for command in (("scale", "deployment/w", "--replicas=2"), ("scale", "deployment/w", "--replicas=0")):
        assert fleet.kubectl("-n", namespace, *command).stderr == ""
    assert sum(replica.metric("gpu_webhook_validations_total") for replica in pair) == before
