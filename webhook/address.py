"""The paths by which reviews come, and the word in them that tells the API server from strangers. Pure.

Anybody in the pods' network reaches the port, and only who may read the webhook configurations knows their paths. So
the keeper of the certificates adds a word to those paths, which every replica derives from the Secret.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.pki import Keyring

MUTATE_PODS: Final = "/mutate-pods"
VALIDATE: Final = "/validate"
_ADDRESS: Final = re.compile(rf"(.*(?:{MUTATE_PODS}|{VALIDATE}))(?:/([0-9a-f]+))?")


def word_of(keyring: Keyring) -> str:
    """What stands behind the path while this keyring's authority lives."""
    return hmac.digest(keyring.authority_key.encode(), b"path", hashlib.sha256).hex()[:32]


def word_in(client: Mapping[str, Any]) -> str | None:
    """The word in the path of a `clientConfig`; empty where it has none, None where the path is none of ours."""
    return None if (match := _match(client)) is None else (match[2] or "")


def addressed(client: Mapping[str, Any], word: str) -> dict[str, Any]:
    """What to write into a `clientConfig` so that its path has that word; empty where the path is none of ours."""
    if (match := _match(client)) is None:
        return {}
    wanted = f"{match[1]}/{word}"
    return {"service": {"path": wanted}} if client.get("service") else {"url": wanted}


def _match(client: Mapping[str, Any]) -> re.Match[str] | None:
    service = client.get("service")
    return _ADDRESS.fullmatch(str(service.get("path") if service else client.get("url")))
