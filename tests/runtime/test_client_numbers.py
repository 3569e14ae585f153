"""What cannot be written as JSON is an error that processes know, not one that they stumble over."""

from __future__ import annotations

import pytest

from controllers.api.resources import GPUPOOL
from controllers.runtime.client import Client
from controllers.runtime.errors import Invalid
from controllers.runtime.library import Configuration


async def test_what_cannot_be_sent_is_an_error_of_the_tree() -> None:
    """A sum of what a node said could be beyond 64 bits."""
    client = Client(Configuration(host="http://127.0.0.1:9"), user_agent="test")
    try:
        with pytest.raises(Invalid, match=r"POST .*gpupools is not sent, since it is no JSON: Integer exceeds 64-bit"):
            await client.request("POST", GPUPOOL.path(), body={"status": {"capacity": {"used": 1 << 64}}})
    finally:
        await client.close()
