"""One review of a card, pool, settings, workload or admitted pod from its bytes to its answer.

Everything comes from the caches of this process but what would make a refusal wrong when it is old: before a refusal a
pool is read anew, and so is what no cache here has: whether a node is ReadyForPooling (its inventory), and whose MIG
mode is on a card (the node's layout). Decisions are made by the modules beside this one.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from controllers.api import names
from controllers.api.conditions import READY_FOR_POOLING, is_true
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import ConfigMap
from controllers.api.record import adapter
from controllers.api.resources import CONFIGMAP, GPUNODEINVENTORY, GPUPOOL
from controllers.api.settings import ModuleConfig
from controllers.domain import mig
from controllers.domain.assignment import assigned_pool
from controllers.domain.position import positions
from controllers.domain.slots import reported
from controllers.domain.usage import card_users
from controllers.runtime.errors import NotFound, RuntimeFault
from webhook import access, metrics, review
from webhook.objects import device, pool, settings, workload
from webhook.objects.admitted import AdmittedPods
from webhook.objects.judged import PASSED, READ_TIMEOUT, Judged, warned
from webhook.objects.read import AdmittedPod, Binding, CronJob, ObjectReview, Workload, parse
from webhook.verdict import FAULT, NOT_READY, Denied

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.settings import Settings
    from controllers.domain.mig import NodeLayout
    from controllers.runtime.client import Client
    from webhook.grants import Grants
    from webhook.snapshot import Stores

log = structlog.get_logger()
AT_ONCE = 4
"""Nodes whose cards are looked at before others have their turn: a millisecond."""
EARLY: Final = Denied(NOT_READY, "the webhook has just started and does not know the pools yet. Try again.")
LATE: Final = Denied(NOT_READY, "the webhook did not come to a decision in time; nothing was changed. Try again.")


@dataclass(frozen=True, slots=True)
class Around:
    """What was read about a card's node; nothing where nobody assigns the card."""

    ready: bool | None = None
    layout: NodeLayout | None = None
    knows_layout: bool = False


class Objects:
    """Answers reviews of objects other than pods."""

    def __init__(self, client: Client, stores: Stores, grants: Grants, settings: Callable[[], Settings]) -> None:
        """Prepare; `stores` have the indexes that the snapshot keeps."""
        self._client, self._stores, self._grants, self._settings = client, stores, grants, settings
        self._admitted = AdmittedPods(client, stores, grants, self._read_pool)

    async def answer(self, body: bytes, deadline: float) -> bytes:
        """The answer to a review, within `deadline` seconds; raises NotAReview."""
        started = time.perf_counter()
        parsed = parse(body)
        if isinstance(parsed, review.Unreadable):
            return _told(parsed.uid, "unreadable", Judged(parsed.why))
        if isinstance(parsed, review.Foreign):
            return _told(parsed.uid, "foreign", warned(f"gpu-admission-webhook does not judge {parsed.what}"))
        try:
            async with asyncio.timeout(deadline):
                judged = await self._judge(parsed)
        except TimeoutError:
            judged = Judged(LATE)
        except Exception:
            log.exception("a review failed", uid=parsed.uid[:64], kind=parsed.kind, name=parsed.name)
            judged = Judged(Denied(FAULT, f"the webhook failed on this object; its log tells why ({parsed.uid[:64]})"))
        if judged.denied is not None and not parsed.may_refuse:
            # Only told, so nobody is hurt by what went wrong here.
            judged = PASSED
        metrics.VALIDATION_SECONDS.labels(parsed.kind).observe(time.perf_counter() - started)
        return _told(parsed.uid, parsed.kind, judged, parsed)

    async def _judge(self, seen: ObjectReview) -> Judged:
        if isinstance(seen.new, ModuleConfig):
            return settings.judge(seen.new)
        if not self._stores.synced:
            return Judged(EARLY)
        if isinstance(seen.new, AdmittedPod | Binding):
            return await self._admitted.judge(seen.namespace, seen.new)
        return await self._judge_by_caches(seen)

    async def _judge_by_caches(self, seen: ObjectReview) -> Judged:
        match seen.old, seen.new:
            case GPUDevice() as old, GPUDevice() as new:
                return await self._device(old, new)
            case GPUPool() as old, None:
                return await self._deletion(old)
            case (GPUPool() | None) as old, GPUPool() as new:
                return await self._pool(old, new)
            case _, (Workload() | CronJob()) as new:
                return await self._workload(seen, new)
        return PASSED

    # --- cards --------------------------------------------------------------------------------

    async def _device(self, old: GPUDevice, new: GPUDevice) -> Judged:
        named = assigned_pool(new)
        around = Around()
        if named is not None and named != assigned_pool(old):
            ready, layout = await asyncio.gather(self._is_ready(new.status.node_name), self._layout(new))
            around = Around(ready, *layout)
        judged = device.judge(old, new, self._card(new, around))
        if judged.denied is None or named is None:
            return judged
        # The cache may not have heard of a pool, or of a change of it, from a moment ago.
        await self._read_pool(named)
        return device.judge(old, new, self._card(new, around))

    def _card(self, card: GPUDevice, around: Around) -> device.CardView:
        stores, node = self._stores, card.status.node_name or ""
        there = stores.devices.by("node", node)
        found = stores.nodes.get(node)
        places = zip(positions(there), there, strict=True)
        homes = (d.home for d in there if d.home is not None)
        home = card.status.pool_ref
        return device.CardView(
            pools={pool.name: pool for pool in stores.pools},
            labels=found.metadata.labels if found is not None else {},
            position=next((at for at, other in places if other.name == card.name), 0),
            ready=around.ready,
            layout=around.layout,
            knows_layout=around.knows_layout,
            holders=self._holders(node, home.name if home is not None else None, [card]),
            neighbours=Counter(homes),
            settings=self._settings(),
        )

    def _holders(self, node: str, pool_name: str | None, cards: list[GPUDevice]) -> tuple[str, ...]:
        """Pods that have one of these cards of a node and pool, or are about to get it."""
        pods, there = self._stores.pods, self._stores.devices.by("node", node)
        bound = pods.by("spot", f"{pool_name}/{node}") if pool_name is not None else []
        told, found = reported(there), set[str]()
        for card in cards:
            promised = [pod for promise in card.status.reservations for pod in pods.by("request", promise.request_id)]
            found.update(card_users(card, [*bound, *promised], told, time.time()))
        return tuple(sorted(found))

    async def _is_ready(self, node: str | None) -> bool | None:
        """Whether a node is ReadyForPooling; None where it cannot be read."""
        try:
            body = await self._client.request(
                "GET", GPUNODEINVENTORY.path(name=node or "unknown"), timeout=READ_TIMEOUT
            )
            inventory: GPUNodeInventory = adapter(GPUNodeInventory).validate_json(body)
        except NotFound:
            return False
        except (RuntimeFault, ValueError) as error:
            log.warning("cannot read a node's inventory", node=node, error=str(error))
            return None
        return is_true(inventory.status.conditions, READY_FOR_POOLING)

    async def _layout(self, card: GPUDevice) -> tuple[NodeLayout | None, bool]:
        """The MIG layout of a card's node, None where there is none or it decides nothing, and whether that is so."""
        hardware = card.status.hardware
        if hardware is None or (hardware.mig is not None and not hardware.mig.enabled):
            return None, True  # MIG mode is off, so nobody has to know whose it is
        name = names.mig_layout(card.status.node_name or "unknown")
        try:
            body = await self._client.request("GET", CONFIGMAP.path(names.NAMESPACE, name), timeout=READ_TIMEOUT)
            config: ConfigMap = adapter(ConfigMap).validate_json(body)
        except NotFound:
            return None, True
        except (RuntimeFault, ValueError) as error:
            log.warning("cannot read a node's MIG layout", node=card.status.node_name, error=str(error))
            return None, False
        return mig.read(config.data), True

    async def _read_pool(self, name: str) -> None:
        """Bring the cache up to date about a pool."""
        try:
            body = await self._client.request("GET", GPUPOOL.path(name=name), timeout=READ_TIMEOUT)
            self._stores.pools.on_own_write(adapter(GPUPool).validate_json(body))
        except (RuntimeFault, ValueError) as error:
            log.info("cannot read a pool", pool=name, error=str(error))

    # --- pools --------------------------------------------------------------------------------

    async def _pool(self, old: GPUPool | None, new: GPUPool) -> Judged:
        search = pool.Search(new)
        for turn, node in enumerate(self._stores.devices.index_values("node")):
            found = self._stores.nodes.get(node)
            search.look(found.metadata.labels if found is not None else {}, self._stores.devices.by("node", node))
            if turn % AT_ONCE == 0:
                await asyncio.sleep(0)
        return pool.judge(old, new, search, await self._users(new.name))

    async def _deletion(self, old: GPUPool) -> Judged:
        return pool.judge_deletion(old, len(self._stores.devices.by("pool", old.name)), await self._users(old.name))

    async def _users(self, name: str) -> tuple[str, ...]:
        """Pods that have cards of a pool or are promised some."""
        nodes: dict[str, list[GPUDevice]] = defaultdict(list)
        for card in self._stores.devices.by("pool", name):
            nodes[card.status.node_name or ""].append(card)
        found: set[str] = set()
        for turn, (node, cards) in enumerate(nodes.items()):
            found.update(self._holders(node, name, cards))
            if turn % AT_ONCE == 0:
                await asyncio.sleep(0)
        return tuple(sorted(found))

    # --- workloads ----------------------------------------------------------------------------

    async def _workload(self, seen: ObjectReview, new: Workload | CronJob) -> Judged:
        spec, stores = new.pods, self._stores
        named = workload.asked_pool(spec)
        if named is not None and stores.pools.get(named) is None:
            await self._read_pool(named)
        found = stores.pools.get(named) if named is not None else None
        labels, use = stores.namespaces.get(seen.namespace), access.NOT_ASKED
        if found is not None:
            use = await self._grants.beyond_lists(
                found, namespace=seen.namespace, labels=labels, account=spec.service_account_name
            )
        return workload.judge(
            seen.kind,
            spec,
            namespace=seen.namespace,
            labels=labels,
            pool=found,
            known_pools=(item.name for item in stores.pools),
            use=use,
        )


def _told(uid: str, kind: str, judged: Judged, seen: ObjectReview | None = None) -> bytes:
    """Count, log and encode."""
    about = {"uid": uid[:64], "kind": kind} | ({"name": seen.name, "namespace": seen.namespace} if seen else {})
    if judged.denied is not None:
        denied = judged.denied
        metrics.VALIDATIONS.labels(kind, "denied", denied.word).inc()
        log.info("denied", reason=denied.word, message=denied.message, **about)
        return review.deny(uid, denied, audit={"reason": denied.word})
    if judged.warnings:
        metrics.VALIDATIONS.labels(kind, "warned", "").inc()
        log.info("allowed with a warning", warnings=judged.warnings, **about)
        audit = {"reason": "Warned", "warnings": "; ".join(judged.warnings)}
        return review.allow(uid, warnings=judged.warnings, audit=audit)
    metrics.VALIDATIONS.labels(kind, "allowed", "").inc()
    return review.allow(uid, audit={"reason": "Allowed"})
