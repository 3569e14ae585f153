"""Who answers is not always an API server: the sentence names the address, and there is no trace."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from controllers.explain.faults import UsageError
from kubectl_gpu.cluster import Cluster
from tests.kit.pods import pod as tenant_pod


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


class Recorded:
    """A server that notes what it is sent, and says that everything is allowed."""

    server = "https://here"

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    async def request(self, method: str, path: str, **more: Any) -> bytes:
        self.sent.append((method, path, more))
        return b'{"metadata": {}, "status": {"allowed": true}}'


async def test_a_patch_of_a_pod_goes_to_that_pod() -> None:
    server: Any = Recorded()
    operations = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    pod = tenant_pod("p")
    await Cluster(server, "default").json_patch(resources.POD, pod, operations, dry_run=True)
    await Cluster(server, "default").json_patch(resources.POD, pod, operations, dry_run=False)
    (method, path, asked), (_, _, done) = server.sent
    assert (method, path) == ("PATCH", "/api/v1/namespaces/team/pods/p")
    assert asked == {
        "query": {"fieldManager": "kubectl-gpu", "dryRun": "All"},
        "body": operations,
        "content_type": "application/json-patch+json",
    }
    assert "dryRun" not in done["query"]


async def test_a_right_is_asked_for_by_name() -> None:
    server: Any = Recorded()
    assert await Cluster(server, "default").may("release", resources.GPUPOOL, "training")
    ((method, path, more),) = server.sent
    assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    assert more["body"]["spec"] == {
        "resourceAttributes": {
            "verb": "release",
            "group": "gpu.deckhouse.io",
            "resource": "gpupools",
            "name": "training",
        }
    }


@pytest.mark.parametrize("status", ["{}", '{"allowed": false}', '{"allowed": false, "denied": true}'])
async def test_no_yes_is_a_no(status: str) -> None:
    body = f'{{"metadata": {{}}, "status": {status}}}'.encode()
    assert not await cluster(body).may("release", resources.GPUPOOL, "a")
