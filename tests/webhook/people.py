"""People and ServiceAccounts at the API server, with the rights of those who work in a namespace and no more."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists
from tests.webhook.plane import Api, Plane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

RBAC = "/apis/rbac.authorization.k8s.io/v1"
WORKERS = "test:workers"


@asynccontextmanager
async def acting(plane: Plane, user: str, *groups: str) -> AsyncIterator[Api]:
    """Requests in the name of a person, who may edit in every namespace."""
    client = await Client.connect(plane.control.kubeconfig, user_agent="test")
    try:
        await _may_edit(Api(client))
        headers = client._session.headers
        headers["Impersonate-User"] = user
        for group in (*groups, WORKERS, "system:authenticated"):
            headers.add("Impersonate-Group", group)
        yield Api(client)
    finally:
        await client.close()


async def _may_edit(admin: Api) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": WORKERS}
    try:
        await admin.create(
            f"{RBAC}/clusterrolebindings",
            {"metadata": {"name": "test-workers"}, "roleRef": role, "subjects": [subject]},
        )
    except AlreadyExists:
        return


async def may_use(admin: Api, name: str, pool: str, subject: dict[str, Any]) -> None:
    """Grant the verb `use` on a pool."""
    rule = {"apiGroups": [names.GROUP], "resources": ["gpupools"], "resourceNames": [pool], "verbs": ["use"]}
    await admin.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    await admin.create(f"{RBAC}/clusterrolebindings", body)
