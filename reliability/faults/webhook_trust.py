"""Whether the API server can call the webhook at the end: its CA bundles must verify its certificate.

Pure: objects and a time in, sentences out. Reviews that fail for this are refused by `failurePolicy`, so that every
creation of a pod with a card would be.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

from controllers.api import names
from webhook.certs import pki

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reliability.faults.trace import Objects

SECRET = ("Secret", f"{names.NAMESPACE}/{names.WEBHOOK_SECRET}")
CONFIGURATIONS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def broken(objects: Objects, at: float) -> list[str]:
    """What keeps the API server from trusting the webhook; `at`: seconds since the epoch."""
    if SECRET not in objects:
        return ["the Secret with the webhook's certificate is gone"]
    try:
        served = _text(objects[SECRET].get("data", {}), "tls.crt")
        facts = pki.facts(served)
    except (KeyError, ValueError) as error:
        return [f"the webhook's certificate cannot be read: {error!r}"]
    found = [] if facts.begins <= at < facts.ends else ["the webhook's certificate is not valid now"]
    for kind in CONFIGURATIONS:
        configuration = objects.get((kind, names.WEBHOOK_CONFIGURATION))
        if configuration is None:
            found.append(f"{kind} {names.WEBHOOK_CONFIGURATION} is gone")
        else:
            found += [
                f"{kind}: webhook {webhook['name']} does not trust the certificate that is served"
                for webhook in configuration.get("webhooks", ())
                if not _trusts(webhook.get("clientConfig", {}), served, at)
            ]
    return found


def _trusts(client: Mapping[str, Any], served: str, at: float) -> bool:
    try:
        authorities = pki.split(_text(client, "caBundle"))
        return any(pki.signed_by(served, a) and pki.facts(a).begins <= at < pki.facts(a).ends for a in authorities)
    except (KeyError, ValueError):
        return False


def _text(holder: Mapping[str, Any], key: str) -> str:
    return b64decode(holder[key]).decode()
