"""Keeps the certificates: one replica renews them, every replica serves what the Secret holds.

The keeper runs in each replica and works in the one that has the Lease; each of its writes
asks the lease first, and is conditional on the version it was decided on. Reservations are not
fenced by this lease: a replica that loses it goes on serving and waits to lead again.

`Tls` follows the Secret by watch and reloads the live context, so that new handshakes get the
new certificate and open connections stay. A Secret that vanished, or does not load, changes
nothing in what is served. The keeper puts the one back, and makes all that is in the other anew.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import structlog

from controllers.api import names
from controllers.api.kube import Secret, WebhookConfiguration
from controllers.api.record import adapter
from controllers.api.resources import MUTATING_WEBHOOK, SECRET, VALIDATING_WEBHOOK, Resource
from controllers.runtime import tls
from controllers.runtime.errors import Conflict, LostLeadership, RuntimeFault
from webhook import metrics, pki, rotation
from webhook.pki import Keyring
from webhook.rotation import Do

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controllers.runtime.client import Client
    from controllers.runtime.leader import Leader
    from controllers.runtime.store import Store

log = structlog.get_logger()
STRATEGIC: Final = "application/strategic-merge-patch+json"  # merges the list of webhooks by name
LOOK_AT_LEAST: Final = 3600.0
RETRY: Final = 1.0


@dataclass(frozen=True, slots=True)
class Caches:
    """What the keeper follows: the Secret, and the configurations that carry its authorities."""

    secrets: Store[Secret]
    mutating: Store[WebhookConfiguration]
    validating: Store[WebhookConfiguration]

    @property
    def secret(self) -> Secret | None:
        """The Secret."""
        return self.secrets.get(f"{names.NAMESPACE}/{names.WEBHOOK_SECRET}")

    @property
    def synced(self) -> bool:
        """Whether all have been filled."""
        return self.secrets.synced and self.mutating.synced and self.validating.synced

    def configurations(self) -> Iterator[tuple[Resource, Store[WebhookConfiguration], WebhookConfiguration]]:
        """Those of ours that exist."""
        for resource, store in ((MUTATING_WEBHOOK, self.mutating), (VALIDATING_WEBHOOK, self.validating)):
            if (found := store.get(names.WEBHOOK_CONFIGURATION)) is not None:
                yield resource, store, found

    def bundles(self) -> set[str]:
        """The caBundles in force; one, where all is well."""
        return {
            str(webhook.client_config.get("caBundle") or "")
            for _, _, configuration in self.configurations()
            for webhook in configuration.webhooks
        }

    def trusting(self, bundle: str) -> bool:
        """Whether every configuration has exactly that bundle."""
        return self.bundles() <= {b64encode(bundle.encode()).decode()}

    def trusting_authority_of(self, certificate: str) -> bool:
        """Whether every configuration has the authority of a certificate."""
        return all(
            any(pki.signed_by(certificate, authority) for authority in authorities_of(bundle))
            for bundle in self.bundles()
        )


def authorities_of(encoded: str) -> tuple[str, ...]:
    """The authorities of a caBundle; none where it cannot be read."""
    try:
        return pki.split(b64decode(encoded).decode())
    except ValueError:
        return ()


def keyring_of(secret: Secret | None) -> Keyring | None:
    """What a Secret holds; None where it is not complete."""
    if secret is None:
        return None
    try:
        data = {key: b64decode(value).decode() for key, value in secret.data.items()}
        return Keyring(pki.split(data["ca.crt"]), data["ca.key"], data["tls.crt"], data["tls.key"])
    except (ValueError, KeyError):
        return None


def secret_data(keyring: Keyring) -> dict[str, str]:
    """A keyring as the Secret holds it."""
    texts = {
        "ca.crt": keyring.bundle,
        "ca.key": keyring.authority_key,
        "tls.crt": keyring.certificate,
        "tls.key": keyring.key,
    }
    return {key: b64encode(text.encode()).decode() for key, text in texts.items()}


class Tls:
    """The context that the server serves with."""

    def __init__(self, caches: Caches) -> None:
        """Follow the Secret."""
        self._caches = caches
        self.context = tls.server_context()
        self.loaded = asyncio.Event()
        self._serving, self._ends = "", 0.0
        caches.secrets.subscribe(self._changed)

    def _changed(self, _: Secret | None, secret: Secret | None) -> None:
        keyring = keyring_of(secret)
        if keyring is None or keyring.certificate == self._serving:
            return
        try:
            _try(keyring)
            ends = pki.facts(keyring.certificate).ends
            tls.load(self.context, keyring.certificate, keyring.key)
        except (ValueError, OSError) as error:
            log.error("a certificate cannot be loaded; the last one stays", error=str(error))  # noqa: TRY400
            return
        self._serving, self._ends = keyring.certificate, ends
        metrics.CERTIFICATE_EXPIRES.set(ends)
        self.loaded.set()
        log.info("serving a certificate", ends=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends)))

    def trusted(self) -> bool:
        """Whether the API server can verify what is served: ready means that it can call us."""
        return time.time() < self._ends and self._caches.trusting_authority_of(self._serving)


def loads(keyring: Keyring) -> bool:
    """Whether a server can serve with it."""
    try:
        _try(keyring)
    except ssl.SSLError:
        return False
    return True


def _try(keyring: Keyring) -> None:
    """Load it where nobody is served: a context that refuses a key has dropped the certificate that it had before."""
    tls.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), keyring.certificate, keyring.key)


class Keeper:
    """Makes, renews and spreads certificates while it leads."""

    def __init__(
        self, client: Client, caches: Caches, policy: rotation.Policy, candidate: Callable[[], Leader]
    ) -> None:
        """Prepare. `candidate` makes a fresh candidate for the lease, one for each term."""
        self._client, self._caches, self._policy, self._candidate = client, caches, policy, candidate
        self._wake = asyncio.Event()
        self._last: Keyring | None = None
        self._trusted: tuple[str, float] | None = None  # a bundle, and since when it is everywhere (monotonic)
        # Remembered from the first sight on: one who takes the lead after the Secret is gone puts it back, too.
        caches.secrets.subscribe(self._remember)
        for store in (caches.secrets, caches.mutating, caches.validating):
            store.subscribe(lambda *_: self._wake.set())

    def _remember(self, _: Secret | None, secret: Secret | None) -> None:
        self._last = keyring_of(secret) or self._last

    async def run(self) -> None:
        """Keep certificates whenever this replica leads, for ever."""
        while True:
            leader = self._candidate()
            try:
                await leader.run(lambda leader=leader: self._keep(leader))  # type: ignore[misc]
            except LostLeadership as error:
                log.warning("another replica keeps the certificates now", error=str(error))

    async def _keep(self, leader: Leader) -> None:
        while True:
            self._wake.clear()
            try:
                after = await self._step(leader) if self._caches.synced else RETRY
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

    async def _step(self, leader: Leader) -> float:
        """Do what is next; returns the seconds until something else may be."""
        now, secret, policy = time.time(), self._caches.secret, self._policy
        keyring = keyring_of(secret)
        if secret is None and self._last is not None:
            leader.fence()
            await self._write(None, self._last, "put back")
            return 0.0
        if keyring is not None and not loads(keyring):
            keyring = None  # no replica serves it
        trusted, trusted_for = self._trust_state(keyring)
        step = rotation.next_step(keyring, trusted=trusted, trusted_for=trusted_for, now=now, policy=policy)
        if step.do is Do.WAIT:
            return max(step.after, 0.01)
        leader.fence()
        if step.do is Do.TRUST and keyring is not None:
            await self._spread(keyring.bundle)
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
        if keyring is None or not self._caches.trusting(keyring.bundle):
            self._trusted = None
            return False, 0.0
        if self._trusted is None or self._trusted[0] != keyring.bundle:
            self._trusted = (keyring.bundle, time.monotonic())
        return True, time.monotonic() - self._trusted[1]

    async def _spread(self, bundle: str) -> None:
        """Write the bundle into the configurations; everything else in them is the installer's."""
        encoded = b64encode(bundle.encode()).decode()
        for resource, store, found in self._caches.configurations():
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
        self._caches.secrets.on_own_write(adapter(Secret).validate_json(answer))
        log.info("certificates changed", what=why, authorities=len(keyring.authorities))
