"""Cards at a real API server: what a person who annotates them reads."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.resources import CONFIGMAP, GPUDEVICE, GPUPOOL
from controllers.domain import mig
from controllers.domain.clock import stamp
from tests.kit import objects
from tests.kit.waiting import until
from tests.webhook.fleet import Fleet, in_pool, node_of_cards, ready, serving
from tests.webhook.plane import Api, Plane, Replica

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster


@pytest.fixture
async def fleet(plane: Plane, api: Api, pair: list[Replica]) -> AsyncIterator[Fleet]:
    async with node_of_cards(plane, api) as made:
        yield made


async def test_a_card_that_fits_is_assigned_without_a_word(fleet: Fleet) -> None:
    pool = await fleet.pool("fits", deviceSelector={"include": {"vendors": ["nvidia"], "minMemoryMiB": 40000}})
    done = fleet.assign(fleet.cards[0], pool)
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_pool_that_is_not_there_is_named_with_those_that_are(fleet: Fleet) -> None:
    pool = await fleet.pool("there")
    message = fleet.refused(fleet.cards[0], "nowhere", names.UNKNOWN_POOL)
    assert "there is no GPUPool 'nowhere'" in message
    # One that was made a moment ago is known, though no cache may have heard of it.
    assert fleet.assign(fleet.cards[0], pool).returncode == 0


async def test_the_key_that_leaves_a_card_out_is_said(fleet: Fleet) -> None:
    card = fleet.cards[0]
    large = await fleet.pool("large", deviceSelector={"include": {"minMemoryMiB": 80000}})
    message = fleet.refused(card, large, names.DEVICE_NOT_IN_SELECTOR)
    assert "spec.deviceSelector.include.minMemoryMiB expects at least 80000, found 40960" in message
    away = await fleet.pool("away", nodeSelector={"matchLabels": {"zone": "b"}})
    message = fleet.refused(card, away, names.DEVICE_NOT_IN_SELECTOR)
    assert "spec.nodeSelector.matchLabels expects zone=b, found a" in message
    divided = await fleet.pool("divided", allocation={"mode": "MIG", "migProfile": "1g.10gb"})
    message = fleet.refused(card, divided, names.DEVICE_NOT_IN_SELECTOR)
    assert "does not offer 1g.10gb" in message
    # A pool whose selectors have just been changed counts as it is now.
    await fleet.api.client.merge(
        GPUPOOL, large, {"spec": {"deviceSelector": {"include": {"minMemoryMiB": 1}}}}, manager="test"
    )
    assert fleet.assign(card, large).returncode == 0


async def test_a_card_that_pods_have_goes_to_another_pool_in_two_steps(fleet: Fleet) -> None:
    card, (home, other) = fleet.cards[0], [await fleet.pool(word) for word in ("home", "other")]
    assert fleet.assign(card, home).returncode == 0
    await fleet.status(card, **in_pool(home))
    assert fleet.assign(card, other, "--dry-run=server").returncode == 0, "nobody has it"
    await fleet.status(card, allocations=[serving("train")])
    message = fleet.refused(card, other, names.DEVICE_BUSY)
    assert "1 pod (team/train)" in message
    # Out of its pool is only told, and taken back without a word.
    done = fleet.assign(card, None)
    assert done.returncode == 0
    assert done.stderr.startswith(f"Warning: card {card} stays with 1 pod (team/train) until the end")
    fleet.refused(card, other, names.DEVICE_BUSY)
    done = fleet.assign(card, home)
    assert (done.returncode, done.stderr) == (0, "")


async def test_what_is_promised_counts_until_it_ends(fleet: Fleet) -> None:
    card, (home, other) = fleet.cards[0], [await fleet.pool(word) for word in ("home", "other")]
    promise = {"requestID": "r", "namespace": "team", "pod": "soon-*", "slots": 1, "seen": False}
    now = time.time()
    times = {"since": stamp(now), "expiresAt": stamp(now + 60)}
    await fleet.status(card, **in_pool(home), reservations=[{**promise, **times}])
    assert "team/soon-*" in fleet.refused(card, other, names.DEVICE_BUSY)
    await fleet.status(card, reservations=[{**promise, **times, "expiresAt": stamp(now - 1)}])
    assert fleet.assign(card, other).returncode == 0


async def test_a_card_that_cannot_be_pooled_now_is_not_assigned(fleet: Fleet) -> None:
    card, pool = fleet.cards[0], await fleet.pool("sound")
    fault = {
        "type": "Faulted", "status": "True", "reason": "CriticalXid", "message": "XID 79: it fell off the bus.",
        "lastTransitionTime": stamp(time.time()),
    }  # fmt: skip
    await fleet.status(card, conditions=[fault])
    message = fleet.refused(card, pool, names.DEVICE_NOT_READY)
    assert "condition Faulted is True (CriticalXid): XID 79" in message
    await fleet.status(card, conditions=[{**fault, "status": "False"}])
    assert fleet.kubectl("label", "gpudevice", card, f"{names.LABEL_IGNORE}=true").returncode == 0
    assert fleet.kubectl("label", "gpudevice", card, f"{names.LABEL_IGNORE}-").returncode == 0
    await ready(fleet.api, fleet.node, "False")
    message = fleet.refused(card, pool, names.DEVICE_NOT_READY)
    assert f"node {fleet.node} is not ReadyForPooling" in message
    await ready(fleet.api, fleet.node, "True")
    assert fleet.assign(card, pool).returncode == 0


async def test_a_card_in_mig_mode_is_assigned_to_a_pool_of_whole_cards_only_if_the_module_turned_it_on(
    fleet: Fleet,
) -> None:
    card, pool = fleet.cards[0], await fleet.pool("whole")
    found = await fleet.api.get(GPUDEVICE.path(name=card))
    hardware = found["status"]["hardware"] | {"mig": {"capable": True, "enabled": True}}
    await fleet.status(card, hardware=hardware)
    message = fleet.refused(card, pool, names.DEVICE_NOT_READY)
    assert "the card is in MIG mode, which somebody else turned on" in message
    assert "nvidia-smi -i" in message

    # The layout of the node says that it was the module, which turns it off itself.
    pci = hardware["pci"]
    ours = mig.PlannedCard(pci["address"], pci["vendor"], pci["device"], None, None, mig.DISABLED, ours=True)
    node = objects.node(fleet.node)
    body = mig.configmap(node, mig.NodeLayout((ours,)))
    assert body is not None
    body["metadata"] = {"name": names.mig_layout(fleet.node), "labels": body["metadata"]["labels"]}
    path = CONFIGMAP.path(names.NAMESPACE)
    await fleet.api.create(path, body)
    assert fleet.assign(card, pool).returncode == 0
    await fleet.api.client.request("DELETE", CONFIGMAP.path(names.NAMESPACE, names.mig_layout(fleet.node)))


async def test_other_marks_of_a_card_are_only_spoken_about(fleet: Fleet) -> None:
    card, pool = fleet.cards[0], await fleet.pool("auto", deviceAssignment={"requireAnnotation": False})
    done = fleet.kubectl("annotate", "gpudevice", card, f"{names.RETURN}=true")
    assert "is not Faulted: there is nothing to return" in done.stderr
    done = fleet.kubectl("label", "gpudevice", card, f"{names.LABEL_IGNORE}=yes")
    assert "is obeyed as =true only" in done.stderr
    assert fleet.kubectl("label", "gpudevice", card, f"{names.LABEL_IGNORE}-").stderr == ""
    assert fleet.assign(card, pool).returncode == 0

    async def comes_back() -> str:
        done = fleet.assign(card, None, "--dry-run=server")
        assert done.returncode == 0, done.stderr
        return done.stderr

    message = await until(comes_back, "the webhook to know the pool")
    assert f"GPUPool {pool} takes this card by itself" in message


async def test_our_own_accounts_and_the_collector_are_never_judged(fleet: Fleet) -> None:
    card = fleet.cards[0]
    for user in (
        "system:serviceaccount:d8-gpu-operator:gpupool-controller",
        "system:serviceaccount:kube-system:generic-garbage-collector",
    ):
        done = fleet.assign(card, "nowhere", "--dry-run=server", user=user)
        assert (done.returncode, done.stderr) == (0, ""), user
    assert fleet.assign(card, "nowhere", "--dry-run=server", user="jane").returncode == 1
