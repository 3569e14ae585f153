"""Whom the API server trusts: in both configurations, whoever overwrites them, and whenever the keeper died."""

from __future__ import annotations

import asyncio
import ssl
import time
from base64 import b64decode, b64encode
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.api.kube import Secret
from controllers.api.record import adapter
from controllers.api.resources import MUTATING_WEBHOOK, SECRET, VALIDATING_WEBHOOK
from controllers.runtime.errors import ApiError
from tests.kit.sockets import ended
from tests.kit.waiting import until
from tests.webhook import plane as planes
from tests.webhook.plane import Api, Plane, pod
from webhook.certificate_stores import keyring_of, secret_data
from webhook.certs import pki, rotation
from webhook.certs.rotation import DAY, Policy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from webhook.certs.pki import Keyring

pytestmark = pytest.mark.cluster
KINDS = (MUTATING_WEBHOOK, VALIDATING_WEBHOOK)
SECRET_PATH = SECRET.path(names.NAMESPACE, names.WEBHOOK_SECRET)
STRATEGIC = "application/strategic-merge-patch+json"
ANYWHERE: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]}
CERTIFICATE, AUTHORITY, SHARE, SETTLE = 60, 120, 0.1, 3
QUICK = (
    f"--certificate-days={CERTIFICATE / DAY}",
    f"--authority-days={AUTHORITY / DAY}",
    f"--certificate-renew-share={SHARE}",
    f"--certificate-settle={SETTLE}",
)
"""A new certificate every six seconds, long before the old one ends: a keeper that gets no processor for some seconds
is late, and nothing expires."""


async def bundles(api: Api) -> list[str]:
    """The caBundle of every webhook of ours, of both kinds."""
    found = [await api.get(kind.path(name=names.WEBHOOK_CONFIGURATION)) for kind in KINDS]
    return [b64decode(hook["clientConfig"].get("caBundle", "")).decode() for item in found for hook in item["webhooks"]]


async def overwrite(api: Api, bundle: str) -> None:
    """As an installer does that knows better."""
    for kind in KINDS:
        path = kind.path(name=names.WEBHOOK_CONFIGURATION)
        hooks = (await api.get(path))["webhooks"]
        wrong = [{"name": h["name"], "clientConfig": {"caBundle": b64encode(bundle.encode()).decode()}} for h in hooks]
        await api.client.request("PATCH", path, body={"webhooks": wrong}, content_type=STRATEGIC)


async def handshake(port: int, trusted: str) -> None:
    """A new connection, verified; raises OSError where it is not trusted."""
    context = ssl.create_default_context(cadata=trusted)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    await ended(writer)


async def keyring(api: Api) -> Keyring:
    found = keyring_of(adapter(Secret).validate_python(await api.get(SECRET_PATH)))
    assert found is not None
    return found


async def put(api: Api, wanted: Keyring) -> None:
    """Have the Secret hold it."""
    body = {"type": "kubernetes.io/tls", "metadata": {"name": names.WEBHOOK_SECRET}, "data": secret_data(wanted)}
    if await api.exists(SECRET_PATH):
        await api.client.request("DELETE", SECRET_PATH)
    await api.create(SECRET.path(names.NAMESPACE), body)


@pytest.fixture
async def creates(plane: Plane, api: Api) -> AsyncIterator[Callable[[], Any]]:
    """Creates a GPU pod (dry run): empty, or why it was refused."""
    namespace, pool, node = plane.unique("team"), plane.unique("pool"), plane.unique("node")
    await api.namespace(namespace)
    await api.pool(pool)
    await api.node(node, pool, 1)
    asking = pod("p", {names.resource_name(pool): "1"}, **ANYWHERE)

    async def create() -> str:
        try:
            await api.make_pod(namespace, asking, {"dryRun": "All"})
        except ApiError as error:
            return error.message
        return ""

    yield create
    await api.client.request("DELETE", f"/api/v1/nodes/{node}")


async def passing(creates: Callable[[], Any]) -> None:
    async def passes() -> bool:
        return [await creates() for _ in range(4)] == [""] * 4

    await until(passes, "pods to be created")


async def test_a_foreign_bundle_is_replaced_in_both_configurations(
    plane: Plane, api: Api, creates: Callable[[], Any], tmp_path: Path
) -> None:
    with planes.replicas(plane, tmp_path, 2):
        await passing(creates)
        right = (await keyring(api)).bundle
        await overwrite(api, pki.make_authority(time.time(), DAY)[0])

        async def mended() -> bool:
            return set(await bundles(api)) == {right}

        await until(mended, "both configurations to be right again")
        assert len(await bundles(api)) > 1, "of both kinds"
        await passing(creates)


def _authority_added(old: Keyring, policy: Policy) -> tuple[Keyring, str]:
    """The keeper died after it had added an authority, and before it told the API server."""
    return rotation.add_authority(old, time.time(), policy), old.bundle


def _all_new(_: Keyring, policy: Policy) -> tuple[Keyring, str]:
    """It died after it had made everything, where somebody else's caBundle was in place."""
    return rotation.make(time.time(), policy), pki.make_authority(time.time(), DAY)[0]


def _issued_untold(old: Keyring, policy: Policy) -> tuple[Keyring, str]:
    """Somebody put a caBundle back that lacks the authority of what is served."""
    added = rotation.add_authority(old, time.time(), policy)
    return rotation.issue(added, time.time(), policy), old.bundle


@pytest.mark.parametrize("left", [_authority_added, _all_new, _issued_untold])
async def test_what_a_dead_keeper_left_half_done_is_finished(
    plane: Plane,
    api: Api,
    creates: Callable[[], Any],
    tmp_path: Path,
    left: Callable[[Keyring, Policy], tuple[Keyring, str]],
) -> None:
    wanted, told = left(rotation.make(time.time(), Policy()), Policy())
    await put(api, wanted)
    await overwrite(api, told)
    with planes.replicas(plane, tmp_path, 2, f"--certificate-settle={SETTLE}"):
        # Ready means that the API server can verify what is served, so nothing fails from here on.
        failures = {await creates() for _ in range(20)}

        async def finished() -> bool:
            failures.add(await creates())
            now = await keyring(api)
            newest = pki.signed_by(now.certificate, now.authorities[0])
            return newest and set(await bundles(api)) == {now.bundle} and now.authorities[0] == wanted.authorities[0]

        await until(finished, "the newest authority to be trusted and to sign")
        failures |= {await creates() for _ in range(20)}
        assert failures == {""}, failures


async def test_certificates_and_their_authority_change_under_load_without_a_failed_creation(
    plane: Plane, api: Api, creates: Callable[[], Any], tmp_path: Path
) -> None:
    # What another test left is valid for months.
    await put(api, rotation.make(time.time(), Policy(CERTIFICATE, AUTHORITY)))
    failures: list[str] = []
    over = asyncio.Event()
    created = 0

    async def load() -> None:
        nonlocal created
        while not over.is_set():
            if why := await creates():
                failures.append(why)
            created += 1
            await asyncio.sleep(0.02)

    with planes.replicas(plane, tmp_path, 2, *QUICK) as pair:
        await passing(creates)
        loading = [asyncio.create_task(load()) for _ in range(4)]
        certificates, authorities, torn = set[str](), set[str](), 0

        async def changed() -> bool:
            nonlocal torn
            now = await keyring(api)
            certificates.add(now.certificate)
            authorities.update(now.authorities)
            known = await bundles(api)
            # At any moment each configuration trusts who signed what is served.
            torn += not all(any(pki.signed_by(now.certificate, a) for a in pki.split(bundle)) for bundle in known)
            # An API server that knows the bundle as it was a moment ago verifies both replicas.
            await asyncio.sleep(0.05)
            for bundle, replica in product(set(known), pair):
                await handshake(replica.port, bundle)
            return len(certificates) >= 4 and len(authorities) >= 2 and created > 50

        try:
            await until(changed, "three new certificates, a new authority, and pods that were created meanwhile")
        finally:
            over.set()
            await asyncio.gather(*loading)
    assert failures == []
    assert torn == 0
