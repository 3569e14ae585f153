"""Who may use a pool (design §6): the union of its lists; all lists empty means every namespace. Pure.

`dexGroups` and the RBAC verb `use` need to know the person and to ask the API server; until
they are built, a pool that names only groups refuses, and says so: what is not judged is
not allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from controllers.domain.selectors import matches
from webhook.validate import listed
from webhook.verdict import Denied

if TYPE_CHECKING:
    from controllers.api.gpupool import Access, GPUPool
    from controllers.api.kube import Namespace


def needs_namespace(pool: GPUPool, namespace: str) -> bool:
    """Whether the labels of the namespace may decide."""
    access = pool.spec.access
    return access is not None and access.namespace_selector is not None and namespace not in access.namespaces


def judge(pool: GPUPool, *, namespace: str, labels: Namespace | None, account: str) -> Denied | None:
    """Why pods of that namespace and ServiceAccount may not use the pool; None where they may.

    `labels` is the namespace as an object, where it is known.
    """
    if namespace == names.NAMESPACE:
        # Its pods are operands to everybody who counts the pool's pods.
        return Denied(
            names.ACCESS_DENIED,
            f"namespace {namespace} belongs to the module itself; pods that use cards go to another namespace.",
        )
    access = pool.spec.access
    if access is None or _is_open(access):
        return None
    if namespace in access.namespaces or f"{namespace}/{account or 'default'}" in access.service_accounts:
        return None
    selector = access.namespace_selector
    if selector is not None and labels is not None and matches(selector, labels.metadata.labels):
        return None
    return Denied(
        names.ACCESS_DENIED,
        f"namespace {namespace} (ServiceAccount {account or 'default'}) may not use GPUPool {pool.name};"
        f" its spec.access allows {_allowed(access)}."
        " Ask the pool's administrator to add the namespace, or use another pool.",
    )


def _is_open(access: Access) -> bool:
    return not (access.namespaces or access.namespace_selector is not None or access.service_accounts) and (
        not access.dex_groups
    )


def _allowed(access: Access) -> str:
    parts = []
    if access.namespaces:
        parts.append(f"namespaces {listed(access.namespaces)}")
    if access.namespace_selector is not None:
        parts.append("namespaces by label (namespaceSelector)")
    if access.service_accounts:
        parts.append(f"ServiceAccounts {listed(access.service_accounts)}")
    if access.dex_groups:
        parts.append(f"groups {listed(access.dex_groups)} (which this version does not judge yet, and so refuses)")
    return "; ".join(parts)
