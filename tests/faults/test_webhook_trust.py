"""After whatever happened to its certificate the API server can call the webhook."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from controllers.api import names
from reliability.faults import webhook_trust
from webhook.certs import pki

if TYPE_CHECKING:
    from reliability.faults.trace import Objects

NOW, DAY = 1_800_000_000.0, 86400.0
AUTHORITY, KEY = pki.make_authority(NOW, 10 * DAY)
OTHER, _ = pki.make_authority(NOW, 10 * DAY)


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def cluster(bundle: str = AUTHORITY, begins: float = NOW) -> Objects:
    certificate, _ = pki.issue(AUTHORITY, KEY, begins, DAY)
    client = {"caBundle": encoded(bundle)}
    name = names.WEBHOOK_CONFIGURATION
    hooks = {"metadata": {"name": name}, "webhooks": [{"name": "pods", "clientConfig": client}]}
    return {
        webhook_trust.SECRET: {"metadata": {"name": names.WEBHOOK_SECRET}, "data": {"tls.crt": encoded(certificate)}},
        **{(kind, name): hooks for kind in webhook_trust.CONFIGURATIONS},
    }


def test_what_is_served_is_verified_by_what_is_trusted() -> None:
    assert not webhook_trust.broken(cluster(), NOW + 1)
    assert not webhook_trust.broken(cluster(OTHER + AUTHORITY), NOW + 1)


def test_another_authority_is_told_for_each_configuration() -> None:
    said = webhook_trust.broken(cluster(OTHER), NOW + 1)

    assert said == [
        f"{kind}: webhook pods does not trust the certificate that is served" for kind in webhook_trust.CONFIGURATIONS
    ]
    assert webhook_trust.broken(cluster("none"), NOW + 1)


def test_a_certificate_of_yesterday_is_told() -> None:
    assert "the webhook's certificate is not valid now" in webhook_trust.broken(cluster(begins=NOW - 3 * DAY), NOW + 1)


def test_what_is_gone_is_told() -> None:
    whole = cluster()

    for key in whole:
        assert "is gone" in webhook_trust.broken({k: v for k, v in whole.items() if k != key}, NOW + 1)[0]
    assert "cannot be read" in webhook_trust.broken(whole | {webhook_trust.SECRET: {"data": {}}}, NOW + 1)[0]
