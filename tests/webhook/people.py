"""People and ServiceAccounts at the API server, with the rights of those who work in a namespace and no more."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists, ApiError
from tests.kit.waiting import until
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


@asynccontextmanager
async def owning(plane: Plane, namespace: str) -> AsyncIterator[Api]:
    """Requests of somebody who may do everything in one namespace, and nothing outside it."""
    user, client = f"owner-{namespace}", await Client.connect(plane.control.kubeconfig, user_agent="test")
    try:
        rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "owner"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
        bound = {"metadata": {"name": "owner"}, "roleRef": role, "subjects": [subject]}
        for plural, body in (("roles", {"metadata": {"name": "owner"}, "rules": [rule]}), ("rolebindings", bound)):
            await Api(client).create(f"{RBAC}/namespaces/{namespace}/{plural}", body)
        client._session.headers["Impersonate-User"] = user
        owner = Api(client)

        async def heard() -> bool:
            with suppress(ApiError):
                return bool(await owner.get(f"/api/v1/namespaces/{namespace}/pods"))
            return False

        await until(heard, f"the rights of {user}")
        yield owner
    finally:
        await client.close()


async def may_use(admin: Api, name: str, pool: str, subject: dict[str, Any]) -> None:
    """Grant the verb `use` on a pool."""
    rule = {"apiGroups": [names.GROUP], "resources": ["gpupools"], "resourceNames": [pool], "verbs": ["use"]}
    await admin.create(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    body = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
    await admin.create(f"{RBAC}/clusterrolebindings", body)
