"""The Secret with the webhook's certificates, and the webhook configurations whose caBundle has to trust it."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import MUTATING_WEBHOOK, VALIDATING_WEBHOOK, Resource
from webhook.certs import pki
from webhook.certs.pki import Keyring

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.kube import Secret, WebhookConfiguration
    from controllers.runtime.store import Store


@dataclass(frozen=True, slots=True)
class CertificateStores:
    """The Secret, and the configurations that carry its authorities."""

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

    def trust_bundle(self, bundle: str) -> bool:
        """Whether every configuration has exactly that caBundle."""
        return self.bundles() <= {b64encode(bundle.encode()).decode()}

    def trust_authority_of(self, certificate: str) -> bool:
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
    """The certificates and keys that a Secret holds; None where it is not complete."""
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
