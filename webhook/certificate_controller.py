"""Controller of the webhook's certificates: one replica renews them, every replica serves what the Secret holds.

It runs in each replica and works in the one that has the Lease; each of its writes asks the lease first, and is
conditional on the version it was decided on. Reservations are not fenced by this lease: a replica that loses it goes on
serving and waits to lead again. It puts a Secret that vanished back, and makes anew all that is in one that does not
load.
"""

from __future__ import annotations

import asyncio
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

import structlog

from controllers.api import names
from controllers.api.kube import Secret, WebhookConfiguration
from controllers.api.record import adapter
from controllers.api.resources import SECRET
from controllers.runtime.errors import Conflict, LostLeadership, RuntimeFault
from webhook.certificate_stores import keyring_of, secret_data
from webhook.certs import rotation
from webhook.certs.rotation import Do
from webhook.serving_certificate import can_be_loaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.runtime.client import Client
    from controllers.runtime.leader import Leader
    from webhook.certificate_stores import CertificateStores
    from webhook.certs.pki import Keyring

log = structlog.get_logger()
STRATEGIC: Final = "application/strategic-merge-patch+json"  # merges the list of webhooks by name
LOOK_AT_LEAST: Final = 3600.0
"""Seconds without a change after which the certificates are looked at again."""
RETRY: Final = 1.0
"""Seconds after a failure."""


class CertificateController:
    """Makes and renews certificates, and writes the caBundles, while it leads."""

    def __init__(
        self, client: Client, stores: CertificateStores, policy: rotation.Policy, candidate: Callable[[], Leader]
    ) -> None:
        """Prepare. `candidate` makes a fresh candidate for the lease, one for each term."""
        self._client, self._stores, self._policy, self._candidate = client, stores, policy, candidate
        self._wake = asyncio.Event()
        self._last: Keyring | None = None
        self._trusted: tuple[str, float] | None = None  # a bundle, and since when it is everywhere (monotonic)
        # Remembered from the first sight on: one who takes the lead after the Secret is gone puts it back, too.
        stores.secrets.subscribe(self._remember)
        for store in (stores.secrets, stores.mutating, stores.validating):
            store.subscribe(lambda *_: self._wake.set())

    def _remember(self, _: Secret | None, secret: Secret | None) -> None:
        self._last = keyring_of(secret) or self._last

    async def run(self) -> None:
        """Keep certificates whenever this replica leads, for ever."""
        while True:
            leader = self._candidate()
            try:
                await leader.run(lambda leader=leader: self._run_while_leading(leader))  # type: ignore[misc]
            except LostLeadership as error:
                log.warning("another replica keeps the certificates now", error=str(error))

    async def _run_while_leading(self, leader: Leader) -> None:
        while True:
            self._wake.clear()
            try:
                after = await self._reconcile(leader) if self._stores.synced else RETRY
            except Conflict:
                after = RETRY / 10  # the watch is about to tell what somebody else wrote
            except LostLeadership:
                raise
            except RuntimeFault as error:
                log.warning("cannot keep the certificates", error=str(error), retry_in=RETRY)
                after = RETRY
            if after > 0:
                await self._pause(min(after, LOOK_AT_LEAST))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _reconcile(self, leader: Leader) -> float:
        """Do what is next; returns the seconds until something else may be."""
        now, secret, policy = time.time(), self._stores.secret, self._policy
        keyring = keyring_of(secret)
        if secret is None and self._last is not None:
            leader.require_leadership()
            await self._write(None, self._last, "put back")
            return 0.0
        if keyring is not None and not can_be_loaded(keyring):
            keyring = None  # no replica serves it
        trusted, trusted_for = self._trust_state(keyring)
        step = rotation.next_step(keyring, trusted=trusted, trusted_for=trusted_for, now=now, policy=policy)
        if step.do is Do.WAIT:
            return max(step.after, 0.01)
        leader.require_leadership()
        if step.do is Do.TRUST and keyring is not None:
            await self._write_bundles(keyring.bundle)
        elif step.do is Do.MAKE or keyring is None:
            await self._write(secret, rotation.make(now, policy), step.do.value)
        elif step.do is Do.ADD_AUTHORITY:
            await self._write(secret, rotation.add_authority(keyring, now, policy), step.do.value)
        elif step.do is Do.ISSUE:
            await self._write(secret, rotation.issue(keyring, now, policy), step.do.value)
        elif step.do is Do.PRUNE:
            await self._write(secret, rotation.prune(keyring), step.do.value)
        return 0.0

    def _trust_state(self, keyring: Keyring | None) -> tuple[bool, float]:
        """Whether the bundle is everywhere, and for how long we have known that."""
        if keyring is None or not self._stores.trust_bundle(keyring.bundle):
            self._trusted = None
            return False, 0.0
        if self._trusted is None or self._trusted[0] != keyring.bundle:
            self._trusted = (keyring.bundle, time.monotonic())
        return True, time.monotonic() - self._trusted[1]

    async def _write_bundles(self, bundle: str) -> None:
        """Write the bundle into the configurations; everything else in them is the installer's."""
        encoded = b64encode(bundle.encode()).decode()
        for resource, store, found in self._stores.configurations():
            webhooks = [{"name": item.name, "clientConfig": {"caBundle": encoded}} for item in found.webhooks]
            meta = {"resourceVersion": found.metadata.resource_version, "uid": found.metadata.uid}
            answer = await self._client.request(
                "PATCH",
                resource.path(None, found.name),
                query={"fieldManager": names.MANAGER_ADMISSION},
                body={"metadata": meta, "webhooks": webhooks},
                content_type=STRATEGIC,
            )
            store.on_own_write(adapter(WebhookConfiguration).validate_json(answer))
            log.info("the API server is told whom to trust", kind=resource.kind, webhooks=len(webhooks))

    async def _write(self, old: Secret | None, keyring: Keyring, why: str) -> None:
        data = secret_data(keyring)
        if old is None:
            body: dict[str, Any] = {
                "apiVersion": SECRET.api_version,
                "kind": SECRET.kind,
                "type": "kubernetes.io/tls",
                "metadata": {
                    "name": names.WEBHOOK_SECRET,
                    "labels": {
                        names.LABEL_HERITAGE: "deckhouse",
                        names.LABEL_MODULE: names.MODULE,
                        names.LABEL_APP: names.WEBHOOK,
                    },
                },
                "data": data,
            }
            answer = await self._client.create(SECRET, body, names.NAMESPACE, manager=names.MANAGER_ADMISSION)
        else:
            meta = {"resourceVersion": old.metadata.resource_version, "uid": old.metadata.uid}
            answer = await self._client.merge(
                SECRET,
                names.WEBHOOK_SECRET,
                {"metadata": meta, "data": data},
                manager=names.MANAGER_ADMISSION,
                namespace=names.NAMESPACE,
            )
        self._stores.secrets.on_own_write(adapter(Secret).validate_json(answer))
        log.info("certificates changed", what=why, authorities=len(keyring.authorities))
