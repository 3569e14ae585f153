"""Reviews of pods that were admitted: their last gate goes, or somebody who is no scheduler of the cluster binds them.

Lives as long as the process, in its event loop. Access is checked by the caches, and before a refusal the pool is read
anew. A pod that is bound is read by quorum: no cache here has those that ask for nothing, nor one from a moment ago.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.record import adapter
from controllers.api.resources import POD
from controllers.api.tenant import TenantPod
from controllers.domain.lifecycle import live
from controllers.domain.request import pools_of
from controllers.runtime.errors import NotFound, RuntimeFault
from webhook.caches.stores import BY_REQUEST
from webhook.decision.access import Requester
from webhook.decision.verdict import NOT_READY, Denied
from webhook.validating import admitted
from webhook.validating.result import ALLOWED, READ_TIMEOUT, ReviewResult
from webhook.validating.review import AdmittedPod
from webhook.validating.workload import asked_pool

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controllers.runtime.client import Client
    from webhook.caches.access_reviews import AccessReviewCache
    from webhook.caches.stores import Stores
    from webhook.validating.review import Binding

_NAME: Final = re.compile("[a-z0-9.-]{1,253}")
"""What may stand in a path; stricter rules are the API server's."""


class AdmittedPodValidator:
    """Answers what becomes of a pod after its creation."""

    def __init__(
        self,
        client: Client,
        stores: Stores,
        access_reviews: AccessReviewCache,
        read_pool: Callable[[str], Awaitable[None]],
    ) -> None:
        """Prepare; `read_pool` brings the cache up to date about a pool."""
        self._client, self._stores, self._access_reviews, self._read_pool = client, stores, access_reviews, read_pool

    async def validate(self, namespace: str, new: AdmittedPod | Binding) -> ReviewResult:
        """Whether the pod may go on."""
        if isinstance(new, AdmittedPod):
            return await self._released(namespace, new)
        return await self._bound(namespace, new)

    async def _released(self, namespace: str, pod: AdmittedPod) -> ReviewResult:
        named = asked_pool(pod.spec)
        if named is None:
            return ALLOWED
        result = await self._may_use(named, namespace, pod)
        if result.denied is None:
            return result
        await self._read_pool(named)
        return await self._may_use(named, namespace, pod)

    async def _may_use(self, named: str, namespace: str, pod: AdmittedPod) -> ReviewResult:
        pool = self._stores.pools.get(named)
        if pool is None:
            return ALLOWED  # there are no cards that it could get
        requester = Requester(
            namespace, self._stores.namespaces.get(namespace), pod.spec.service_account_name, admitted.requested_by(pod)
        )
        review = await self._access_reviews.review_unlisted(pool, requester)
        return admitted.validate_release(pool, requester, review)

    async def _bound(self, namespace: str, binding: Binding) -> ReviewResult:
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(binding.name)):
            return ALLOWED  # no pod is called so
        try:
            body = await self._client.request("GET", POD.path(namespace, binding.name), timeout=READ_TIMEOUT)
            pod: TenantPod = adapter(TenantPod).validate_json(body)
        except NotFound:
            return ALLOWED  # the API server says so itself
        except (RuntimeFault, ValueError) as error:
            why = f"pod {namespace}/{binding.name} could not be read ({error}), and it may ask for cards. Try again."
            return ReviewResult(Denied(NOT_READY, why))
        if namespace == names.NAMESPACE or not pools_of(pod):
            return ALLOWED
        request, now = pod.metadata.annotations.get(names.REQUEST_ID, ""), time.time()
        reserved_nodes = frozenset(
            card.status.node_name or ""
            for card in self._stores.devices.by(BY_REQUEST, request)
            if any(
                reservation.request_id == request and live(reservation, now) for reservation in card.status.reservations
            )
        )
        return admitted.validate_binding(pod, binding.target.name, reserved_nodes)
