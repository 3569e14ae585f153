"""Which requests can be an API server's, against a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.resources import MUTATING_WEBHOOK
from tests.kit.waiting import until
from tests.webhook import direct
from tests.webhook import plane as planes
from tests.webhook.direct import review
from webhook.certificates import STRATEGIC

if TYPE_CHECKING:
    from pathlib import Path

    from tests.webhook.plane import Api, Plane, Replica

pytestmark = pytest.mark.cluster
SETTLE = 1.0


async def status(asks: direct.Sender, replica: Replica, path: str) -> int:
    """Of a review that came by that path."""
    body = review("no-such-pool", dry_run=True)
    async with asks.session.post(f"https://127.0.0.1:{replica.port}{path}", data=body) as answer:
        return answer.status


async def test_a_review_without_the_word_is_refused_once_api_servers_know_it(
    plane: Plane, api: Api, tmp_path: Path
) -> None:
    plain, wrong = "/mutate-pods", f"/mutate-pods/{'0' * 32}"
    with planes.replicas(plane, tmp_path, 2, f"--certificate-settle={SETTLE}") as pair:
        async with direct.sender(api) as asks:
            for replica in pair:

                async def refused(replica: Replica = replica) -> bool:
                    return {await status(asks, replica, path) for path in (plain, wrong)} == {403}

                await until(refused, "the stranger to be refused")
                assert await status(asks, replica, asks.path) == 200

            # An installer writes its own path, and this API server asks by it before any replica has heard of that.
            at = MUTATING_WEBHOOK.path(name=names.WEBHOOK_CONFIGURATION)
            hooks = [
                {
                    "name": hook["name"],
                    "clientConfig": {"url": hook["clientConfig"]["url"].removesuffix(asks.path) + plain},
                }
                for hook in (await api.get(at))["webhooks"]
            ]
            await api.client.request("PATCH", at, body={"webhooks": hooks}, content_type=STRATEGIC)
            assert {await status(asks, replica, plain) for replica in pair} == {200}
            for replica in pair:

                async def refused_again(replica: Replica = replica) -> bool:
                    return await status(asks, replica, plain) == 403

                await until(refused_again, "the word to be there again")
