"""Who may use a pool (docs/design.md, Access): the union of its lists and of RBAC's verb `use`. Pure.

All lists empty means every namespace, and RBAC is not asked. Groups count only for what a person creates: a pod
that a controller makes carries the controller's identity, and neither its groups nor its rights say whose pod it is:
one with the rights of an administrator would open every pool to whoever has it make pods. RBAC is asked about the
pod's ServiceAccount and about a person who creates the pod; the answers are brought here (`webhook.grants`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain.selectors.match import matches
from controllers.domain.wording import listed, short
from webhook.records import UserInfo
from webhook.verdict import Denied

if TYPE_CHECKING:
    from controllers.api.gpupool import Access, GPUPool
    from controllers.api.kube import Namespace

VERB: Final = "use"
SYSTEM: Final = "system:"
"""The head of names that Kubernetes keeps for its components and ServiceAccounts."""

GROUPS_KEPT: Final = 64
"""Of a person whom RBAC grants a pool, so many groups are remembered with the pod."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Somebody about whom RBAC is asked."""

    user: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """What RBAC says about the verb `use` on a pool."""

    by: str = ""
    """Who may; empty where none of those asked about may."""
    asked: tuple[str, ...] = ()
    """About whom was asked."""
    failure: str = ""
    """Why it could not be asked, about some or all."""


NOT_ASKED: Final = Use()


def needs_namespace(pool: GPUPool, namespace: str) -> bool:
    """Whether the labels of the namespace may decide."""
    access = pool.spec.access
    return access is not None and access.namespace_selector is not None and namespace not in access.namespaces


def by_lists(
    pool: GPUPool, *, namespace: str, labels: Namespace | None, account: str, user: UserInfo | None = None
) -> bool:
    """Whether the pool's lists allow it, or are all empty.

    `labels` is the namespace as an object, where it is known; `user` is who creates the pod, None for a controller.
    """
    access = pool.spec.access
    if access is None or _is_open(access):
        return True
    if namespace in access.namespaces or f"{namespace}/{account or 'default'}" in access.service_accounts:
        return True
    selector = access.namespace_selector
    if selector is not None and labels is not None and matches(selector, labels.metadata.labels):
        return True
    return is_person(user) and user is not None and not set(user.groups).isdisjoint(access.dex_groups)


def judge(
    pool: GPUPool,
    *,
    namespace: str,
    labels: Namespace | None,
    account: str,
    user: UserInfo | None = None,
    use: Use = NOT_ASKED,
) -> Denied | None:
    """Why pods of that namespace and ServiceAccount may not use the pool; None where they may."""
    if namespace == names.NAMESPACE:
        # Its pods are operands to everybody who counts the pool's pods.
        return Denied(
            names.ACCESS_DENIED,
            f"namespace {namespace} belongs to the module itself; pods that use cards go to another namespace.",
        )
    access = pool.spec.access
    if access is None or use.by or by_lists(pool, namespace=namespace, labels=labels, account=account, user=user):
        return None
    return Denied(
        names.ACCESS_DENIED,
        f"namespace {namespace} (ServiceAccount {account or 'default'}) may not use GPUPool {pool.name};"
        f" its spec.access allows {_allowed(access, user)}.{_asked(use, pool.name)}"
        " Ask the pool's administrator to add the namespace, or use another pool.",
    )


def subjects(namespace: str, account: str, user: UserInfo | None = None) -> tuple[Subject, ...]:
    """About whom RBAC is asked: the pod's ServiceAccount, and a person who creates the pod."""
    name = f"{SYSTEM}serviceaccount:{namespace}:{account or 'default'}"
    groups = (f"{SYSTEM}serviceaccounts", f"{SYSTEM}serviceaccounts:{namespace}", f"{SYSTEM}authenticated")
    own = Subject(name, groups)
    return (own, Subject(user.username, user.groups)) if user is not None and is_person(user) else (own,)


def vouching(
    pool: GPUPool, *, namespace: str, labels: Namespace | None, account: str, user: UserInfo | None, use: Use
) -> UserInfo | None:
    """Whom the access of an allowed pod rests on, with the groups that count; None where it rests on the pod alone."""
    access = pool.spec.access
    if access is None or user is None or by_lists(pool, namespace=namespace, labels=labels, account=account):
        return None
    if is_person(user) and (member := set(user.groups).intersection(access.dex_groups)):
        return UserInfo(username=user.username, groups=tuple(sorted(member)))
    if use.by != user.username:
        return None
    everybody = tuple(group for group in user.groups if group.startswith(SYSTEM))
    return UserInfo(username=user.username, groups=tuple(dict.fromkeys((*everybody, *user.groups)))[:GROUPS_KEPT])


def is_person(user: UserInfo | None) -> bool:
    """Whether it is neither a ServiceAccount nor a component of Kubernetes (nor nobody: system:anonymous)."""
    return user is not None and user.username != "" and not user.username.startswith(SYSTEM)


def _is_open(access: Access) -> bool:
    return not (access.namespaces or access.namespace_selector is not None or access.service_accounts) and (
        not access.dex_groups
    )


def _allowed(access: Access, user: UserInfo | None) -> str:
    parts = []
    if access.namespaces:
        parts.append(f"namespaces {listed(access.namespaces)}")
    if access.namespace_selector is not None:
        parts.append("namespaces by label (namespaceSelector)")
    if access.service_accounts:
        parts.append(f"ServiceAccounts {listed(access.service_accounts)}")
    if access.dex_groups:
        who = (
            f"{short(user.username)} is in none of them"
            if user is not None and is_person(user)
            else "they count only for pods that a person creates, not a controller"
        )
        parts.append(f"groups {listed(access.dex_groups)} ({who})")
    return "; ".join(parts)


def _asked(use: Use, pool: str) -> str:
    """What RBAC had to say; nothing where it was not asked."""
    what = f"the verb {VERB} on gpupools/{pool}"
    if use.failure:
        return f" RBAC could not be asked about {what} ({short(use.failure)}), which counts as no."
    return f" Nor does RBAC grant {what} to {' or '.join(map(short, use.asked))}." if use.asked else ""
