"""AdmissionReviews of cards, pools, settings, workloads and admitted pods: read, validate, answer.

Everything comes from the caches of this process but what would make a refusal wrong when it is old: before a refusal a
pool is read anew, and so is what no cache here has: whether a node is ReadyForPooling (its inventory), and whose MIG
mode is on a card (the node's layout). Decisions are made by the modules beside this one.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
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
from controllers.domain.accounting import reported
from controllers.domain.assignment import assigned_pool
from controllers.domain.usage import card_users, given_cards
from controllers.runtime.errors import NotFound, RuntimeFault
from webhook import metrics
from webhook.caches.stores import BY_NODE, BY_POOL, BY_POOL_AND_NODE, BY_REQUEST, pool_and_node
from webhook.decision import review
from webhook.decision.access import NOT_REVIEWED, Requester
from webhook.decision.verdict import FAULT, NOT_READY, Denied
from webhook.handlers.admitted_pods import AdmittedPodValidator
from webhook.validating import device, pool, settings, workload
from webhook.validating.result import ALLOWED, READ_TIMEOUT, ReviewResult, warned
from webhook.validating.review import AdmittedPod, Binding, CronJob, ObjectReview, Workload, parse

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.settings import Settings
    from controllers.domain.mig import NodeLayout
    from controllers.runtime.client import Client
    from webhook.caches.access_reviews import AccessReviewCache
    from webhook.caches.stores import Stores

log = structlog.get_logger()
NODES_AT_ONCE = 4
"""Nodes whose cards are looked at before others have their turn: a millisecond."""
EARLY: Final = Denied(NOT_READY, "the webhook has just started and does not know the pools yet. Try again.")
LATE: Final = Denied(NOT_READY, "the webhook did not come to a decision in time; nothing was changed. Try again.")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is asked about a card's node; nothing where nobody assigns the card."""

    ready: bool | None = None
    layout: NodeLayout | None = None
    knows_layout: bool = False
    maybe_in_use: frozenset[str] = frozenset()
    """Cards (inventoryIDs) that its bound pods were given, and of which kubelet has not told otherwise."""


class ObjectReviewHandler:
    """Answers reviews of objects other than pods."""

    def __init__(
        self, client: Client, stores: Stores, access_reviews: AccessReviewCache, settings: Callable[[], Settings]
    ) -> None:
        """Prepare; `stores` have the indexes that the snapshot keeps."""
        self._client, self._stores, self._access_reviews, self._settings = client, stores, access_reviews, settings
        self._admitted = AdmittedPodValidator(client, stores, access_reviews, self._read_pool)

    async def handle(self, body: bytes, deadline: float) -> bytes:
        """The answer to a review, within `deadline` seconds; raises NotAReview."""
        started = time.perf_counter()
        parsed = parse(body)
        if isinstance(parsed, review.Unreadable):
            return _encode(parsed.uid, "unreadable", ReviewResult(parsed.why))
        if isinstance(parsed, review.OutOfScope):
            return _encode(parsed.uid, "foreign", warned(f"gpu-admission-webhook does not judge {parsed.what}"))
        try:
            async with asyncio.timeout(deadline):
                result = await self._validate(parsed)
        except TimeoutError:
            result = ReviewResult(LATE)
        except Exception:
            log.exception("a review failed", uid=parsed.uid[:64], kind=parsed.kind, name=parsed.name)
            result = ReviewResult(
                Denied(FAULT, f"the webhook failed on this object; its log tells why ({parsed.uid[:64]})")
            )
        if result.denied is not None and not parsed.may_refuse:
            # Only told, so nobody is hurt by what went wrong here.
            result = ALLOWED
        metrics.VALIDATION_SECONDS.labels(parsed.kind).observe(time.perf_counter() - started)
        return _encode(parsed.uid, parsed.kind, result, parsed)

    async def _validate(self, seen: ObjectReview) -> ReviewResult:
        if isinstance(seen.new, ModuleConfig):
            return settings.validate(seen.new)
        if not self._stores.synced:
            return ReviewResult(EARLY)
        if isinstance(seen.new, AdmittedPod | Binding):
            return await self._admitted.validate(seen.namespace, seen.new)
        return await self._validate_by_caches(seen)

    async def _validate_by_caches(self, seen: ObjectReview) -> ReviewResult:
        match seen.old, seen.new:
            case GPUDevice() as old, GPUDevice() as new:
                return await self._device(old, new)
            case GPUPool() as old, None:
                return await self._deletion(old)
            case (GPUPool() | None) as old, GPUPool() as new:
                return await self._pool(old, new)
            case _, (Workload() | CronJob()) as new:
                return await self._workload(seen, new)
        return ALLOWED

    # --- cards --------------------------------------------------------------------------------

    async def _device(self, old: GPUDevice, new: GPUDevice) -> ReviewResult:
        named = assigned_pool(new)
        facts = NodeFacts()
        if named is not None and named != assigned_pool(old):
            ready, layout = await asyncio.gather(self._is_ready(new.status.node_name), self._layout(new, named))
            facts = NodeFacts(ready, *layout, self._maybe_in_use(new.status.node_name or ""))
        result = device.validate(old, new, self._card(new, facts))
        if result.denied is None or named is None:
            return result
        # The cache may not have heard of a pool, or of a change of it, from a moment ago.
        await self._read_pool(named)
        return device.validate(old, new, self._card(new, facts))

    def _card(self, card: GPUDevice, facts: NodeFacts) -> device.CardView:
        stores, node = self._stores, card.status.node_name or ""
        there = stores.devices.by(BY_NODE, node)
        found = stores.nodes.get(node)
        home = card.status.pool_ref
        return device.CardView(
            pools={pool.name: pool for pool in stores.pools},
            labels=found.metadata.labels if found is not None else {},
            cards=there,
            ready=facts.ready,
            layout=facts.layout,
            knows_layout=facts.knows_layout,
            holders=self._holders(node, home.name if home is not None else None, [card]),
            maybe_in_use=facts.maybe_in_use,
            settings=self._settings(),
        )

    def _maybe_in_use(self, node: str) -> frozenset[str]:
        return frozenset(given_cards(self._stores.devices.by(BY_NODE, node), self._stores.pods.by(BY_NODE, node)))

    def _holders(self, node: str, pool_name: str | None, cards: list[GPUDevice]) -> tuple[str, ...]:
        """Pods that have one of these cards of a node and pool, or are about to get it."""
        pods, there = self._stores.pods, self._stores.devices.by(BY_NODE, node)
        bound = pods.by(BY_POOL_AND_NODE, pool_and_node(pool_name, node)) if pool_name is not None else []
        told, found = reported(there), set[str]()
        for card in cards:
            promised = [pod for promise in card.status.reservations for pod in pods.by(BY_REQUEST, promise.request_id)]
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

    async def _layout(self, card: GPUDevice, pool_name: str) -> tuple[NodeLayout | None, bool]:
        """The MIG layout of a card's node, None where there is none or it decides nothing, and whether that is so."""
        there = self._stores.devices.by(BY_NODE, card.status.node_name or "")
        coming = (other for other in there if other.home is None and assigned_pool(other) == pool_name)
        if not any(map(_may_be_in_mig_mode, (card, *coming))):
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

    async def _pool(self, old: GPUPool | None, new: GPUPool) -> ReviewResult:
        search = pool.SelectorSearch(new)
        for turn, node in enumerate(self._stores.devices.index_values(BY_NODE)):
            found = self._stores.nodes.get(node)
            search.look(found.metadata.labels if found is not None else {}, self._stores.devices.by(BY_NODE, node))
            if turn % NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return pool.validate(old, new, search, await self._users(new.name))

    async def _deletion(self, old: GPUPool) -> ReviewResult:
        return pool.validate_deletion(old, len(self._stores.devices.by(BY_POOL, old.name)), await self._users(old.name))

    async def _users(self, name: str) -> tuple[str, ...]:
        """Pods that have cards of a pool or are promised some."""
        nodes: dict[str, list[GPUDevice]] = defaultdict(list)
        for card in self._stores.devices.by(BY_POOL, name):
            nodes[card.status.node_name or ""].append(card)
        found: set[str] = set()
        for turn, (node, cards) in enumerate(nodes.items()):
            found.update(self._holders(node, name, cards))
            if turn % NODES_AT_ONCE == 0:
                await asyncio.sleep(0)
        return tuple(sorted(found))

    # --- workloads ----------------------------------------------------------------------------

    async def _workload(self, seen: ObjectReview, new: Workload | CronJob) -> ReviewResult:
        spec, stores = new.pods, self._stores
        named = workload.asked_pool(spec)
        if named is not None and stores.pools.get(named) is None:
            await self._read_pool(named)
        found = stores.pools.get(named) if named is not None else None
        requester = Requester(seen.namespace, stores.namespaces.get(seen.namespace), spec.service_account_name)
        answer = NOT_REVIEWED
        if found is not None:
            answer = await self._access_reviews.review_unlisted(found, requester)
        known_pools = (item.name for item in stores.pools)
        return workload.validate(seen.kind, spec, requester, pool=found, known_pools=known_pools, review=answer)


def _may_be_in_mig_mode(card: GPUDevice) -> bool:
    hardware = card.status.hardware
    return hardware is not None and (hardware.mig is None or hardware.mig.enabled)


def _encode(uid: str, kind: str, result: ReviewResult, seen: ObjectReview | None = None) -> bytes:
    """Count, log and encode."""
    about = {"uid": uid[:64], "kind": kind} | ({"name": seen.name, "namespace": seen.namespace} if seen else {})
    if result.denied is not None:
        denied = result.denied
        metrics.VALIDATIONS.labels(kind, "denied", denied.error_code).inc()
        log.info("denied", reason=denied.error_code, message=denied.message, **about)
        return review.deny(uid, denied, audit={"reason": denied.error_code})
    if result.warnings:
        metrics.VALIDATIONS.labels(kind, "warned", "").inc()
        log.info("allowed with a warning", warnings=result.warnings, **about)
        audit = {"reason": "Warned", "warnings": "; ".join(result.warnings)}
        return review.allow(uid, warnings=result.warnings, audit=audit)
    metrics.VALIDATIONS.labels(kind, "allowed", "").inc()
    return review.allow(uid, audit={"reason": "Allowed"})
