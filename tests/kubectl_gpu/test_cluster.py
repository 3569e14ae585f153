"""Who answers is not always an API server: the sentence names the address, and there is no trace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from kubectl_gpu.cluster import Cluster
from kubectl_gpu.explain.faults import UsageError


def cluster(body: bytes) -> Cluster:
    """A server that says this to everything, with status 200."""

    async def answer(*_: Any, **__: Any) -> bytes:
        return body

    client: Any = SimpleNamespace(server="https://portal.example.com", get=answer, request=answer)
    return Cluster(client, "default")


@pytest.mark.parametrize(
    "body",
    [
        b"<!DOCTYPE html><title>Log in</title>",
        b"",
        b"null",
        b"[]",
        b'"ok"',
        b'{"status": "ok"}',
        b'{"items": [], "metadata": null}',
        b'{"items": [], "metadata": "x"}',
    ],
)
async def test_what_no_api_server_says_is_told_with_the_address(body: bytes) -> None:
    told = "https://portal.example.com answered, and not as an API server: check the cluster's address"
    with pytest.raises(UsageError, match=told):
        await cluster(body).get(resources.GPUDEVICE, GPUDevice, "card")
    with pytest.raises(UsageError, match=told):
        await cluster(body).list(resources.GPUDEVICE, GPUDevice)


@pytest.mark.parametrize("items", ["[]", "null"])
async def test_an_empty_list_is_one(items: str) -> None:
    found = await cluster(f'{{"metadata": {{}}, "items": {items}}}'.encode()).list(resources.GPUDEVICE, GPUDevice)
    assert found == []
