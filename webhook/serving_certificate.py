"""The certificate that the webhook serves with: always the one in the Secret, as long as that can be loaded.

It follows the Secret by watch and reloads the live context, so that new handshakes get the new certificate and open
connections stay. A Secret that vanished, or does not load, changes nothing in what is served.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import TYPE_CHECKING

import structlog

from controllers.runtime import tls
from webhook import metrics
from webhook.certificate_stores import keyring_of
from webhook.certs import pki

if TYPE_CHECKING:
    from controllers.api.kube import Secret
    from webhook.certificate_stores import CertificateStores
    from webhook.certs.pki import Keyring

log = structlog.get_logger()


class ServingCertificate:
    """The context that the server serves with."""

    def __init__(self, stores: CertificateStores) -> None:
        """Follow the Secret."""
        self._stores = stores
        self.context = tls.server_context()
        self.loaded = asyncio.Event()
        self._serving, self._ends = "", 0.0
        stores.secrets.subscribe(self._changed)

    def _changed(self, _: Secret | None, secret: Secret | None) -> None:
        keyring = keyring_of(secret)
        if keyring is None or keyring.certificate == self._serving:
            return
        try:
            _load_aside(keyring)
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
        return time.time() < self._ends and self._stores.trust_authority_of(self._serving)


def can_be_loaded(keyring: Keyring) -> bool:
    """Whether a server can serve with these certificates and keys."""
    try:
        _load_aside(keyring)
    except ssl.SSLError:
        return False
    return True


def _load_aside(keyring: Keyring) -> None:
    """Load it where nobody is served: a context that refuses a key has dropped the certificate that it had before."""
    tls.load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), keyring.certificate, keyring.key)
