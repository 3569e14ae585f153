"""How role `toolkit` asks the API server: anew each time, since it has a question only now and then."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import structlog

from controllers.api import names
from controllers.runtime.client import Client
from controllers.runtime.errors import NotFound, RuntimeFault

if TYPE_CHECKING:
    from pathlib import Path

    from controllers.api.resources import Resource

log = structlog.get_logger()
ASK_SECONDS: Final = 5.0
Object: TypeAlias = dict[str, Any]
Asked: TypeAlias = "tuple[Resource, str, str | None]"
"""Kind, name, namespace."""


async def ask(kubeconfig: Path | None, about: str, *asked: Asked) -> list[Object | None] | None:
    """These objects, None for one that is not there; None for all where nobody says, which is logged with `about`."""
    try:
        client = await Client.connect(kubeconfig, user_agent=names.MANAGER_TOOLKIT, connections=1)
    except RuntimeFault as error:
        said = f"nobody can be asked {about}"
        log.warning(said, why=str(error))
        return None
    client.timeout = ASK_SECONDS
    try:
        return [await _get(client, *one) for one in asked]
    except RuntimeFault as error:
        said = f"the API server does not say {about}"
        log.warning(said, why=str(error))
        return None
    finally:
        await client.close()


async def _get(client: Client, resource: Resource, name: str, namespace: str | None) -> Object | None:
    try:
        found: Object = json.loads(await client.get(resource, name, namespace))
    except NotFound:
        return None
    return found
