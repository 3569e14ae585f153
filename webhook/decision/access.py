"""Who may use a pool (docs/dev/design.md, Access): the union of its lists and of RBAC's verb `use`. Pure.

All lists empty means every namespace, and RBAC is not asked. Groups count only for what a person creates: a pod
that a controller makes carries the controller's identity, and neither its groups nor its rights say whose pod it is:
one with the rights of an administrator would open every pool to whoever has it make pods. RBAC is asked about the
pod's ServiceAccount and about a person who creates the pod; the answers are brought here
(`webhook.caches.access_reviews`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.domain import refusals
from controllers.domain.selectors.match import matches
from controllers.domain.wording import listed, short
from webhook.decision.records import UserInfo
from webhook.decision.verdict import Denied

if TYPE_CHECKING:
    from controllers.api.gpupool import Access as AccessSpec
    from controllers.api.gpupool import GPUPool
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
class Requester:
    """For whom cards are asked: a pod's namespace and ServiceAccount, and the person who creates the pod."""

    namespace: str
    labels: Namespace | None
    """The namespace as an object, where it is known; its labels may decide."""
    account: str = ""
    """The pod's ServiceAccount; empty for `default`."""
    user: UserInfo | None = None
    """Who creates the pod; None for a controller that will."""


@dataclass(frozen=True, slots=True)
class AccessReview:
    """What RBAC says about the verb `use` on a pool."""

    allowed_user: str = ""
    """Who may; empty where none of those asked about may."""
    reviewed: tuple[str, ...] = ()
    """About whom was asked."""
    failure: str = ""
    """Why it could not be asked, about some or all."""


NOT_REVIEWED: Final = AccessReview()


@dataclass(frozen=True, slots=True)
class Access:
    """Whether a pod may use a pool."""

    denied: Denied | None = None
    person: UserInfo | None = None
    """Whom the access of an allowed pod rests on, with the groups that count; None where it rests on the pod alone."""


UNRESTRICTED: Final = Access()


def depends_on_namespace_labels(pool: GPUPool, namespace: str) -> bool:
    """Whether the labels of the namespace may decide."""
    access = pool.spec.access
    return access is not None and access.namespace_selector is not None and namespace not in access.namespaces


def allowed_by_lists(pool: GPUPool, requester: Requester) -> bool:
    """Whether the pool's lists allow it, or are all empty."""
    access = pool.spec.access
    return access is None or _pod_is_listed(access, requester) or bool(_listed_groups(access, requester.user))


def resolve(pool: GPUPool, requester: Requester, review: AccessReview = NOT_REVIEWED) -> Access:
    """Whether a pod may use the pool, and on whom that rests. `review`: what RBAC says."""
    if requester.namespace == names.NAMESPACE:
        # Its pods are operands to everybody who counts the pool's pods.
        return Access(
            Denied(
                names.ACCESS_DENIED,
                f"{refusals.MODULE_NAMESPACE.begin(namespace=requester.namespace)} pods that use cards go to another"
                " namespace.",
            )
        )
    access, user = pool.spec.access, requester.user
    if access is None or _pod_is_listed(access, requester):
        return UNRESTRICTED
    if user is not None and (groups := _listed_groups(access, user)):
        return Access(person=UserInfo(username=user.username, groups=groups))
    if review.allowed_user:
        return Access(person=_with_groups(user) if user is not None and review.allowed_user == user.username else None)
    return Access(_denied(pool, access, requester, review))


def subjects(requester: Requester) -> tuple[Subject, ...]:
    """About whom RBAC is asked: the pod's ServiceAccount, and a person who creates the pod."""
    namespace, user = requester.namespace, requester.user
    name = f"{SYSTEM}serviceaccount:{namespace}:{requester.account or 'default'}"
    groups = (f"{SYSTEM}serviceaccounts", f"{SYSTEM}serviceaccounts:{namespace}", f"{SYSTEM}authenticated")
    own = Subject(name, groups)
    return (own, Subject(user.username, user.groups)) if user is not None and is_person(user) else (own,)


def is_person(user: UserInfo | None) -> bool:
    """Whether it is neither a ServiceAccount nor a component of Kubernetes (nor nobody: system:anonymous)."""
    return user is not None and user.username != "" and not user.username.startswith(SYSTEM)


def _pod_is_listed(access: AccessSpec, requester: Requester) -> bool:
    """Whether the lists allow the pod whoever creates it, or are all empty."""
    namespace, selector = requester.namespace, access.namespace_selector
    if _is_open(access) or namespace in access.namespaces:
        return True
    if f"{namespace}/{requester.account or 'default'}" in access.service_accounts:
        return True
    return selector is not None and requester.labels is not None and matches(selector, requester.labels.metadata.labels)


def _listed_groups(access: AccessSpec, user: UserInfo | None) -> tuple[str, ...]:
    """The groups of a person that the pool lists."""
    if user is None or not is_person(user):
        return ()
    return tuple(sorted(set(user.groups).intersection(access.dex_groups)))


def _with_groups(user: UserInfo) -> UserInfo:
    """A person with as many groups as are kept with the pod, Kubernetes' own first."""
    everybody = tuple(group for group in user.groups if group.startswith(SYSTEM))
    return UserInfo(username=user.username, groups=tuple(dict.fromkeys((*everybody, *user.groups)))[:GROUPS_KEPT])


def _denied(pool: GPUPool, access: AccessSpec, requester: Requester, review: AccessReview) -> Denied:
    begin = refusals.NOT_ALLOWED.begin(
        namespace=requester.namespace, account=requester.account or "default", pool=pool.name
    )
    return Denied(
        names.ACCESS_DENIED,
        f"{begin} its spec.access allows {_allowed(access, requester.user)}.{_reviewed(review, pool.name)}"
        " Ask the pool's administrator to add the namespace, or use another pool.",
    )


def _is_open(access: AccessSpec) -> bool:
    return not (access.namespaces or access.namespace_selector is not None or access.service_accounts) and (
        not access.dex_groups
    )


def _allowed(access: AccessSpec, user: UserInfo | None) -> str:
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


def _reviewed(review: AccessReview, pool: str) -> str:
    """What RBAC had to say; nothing where it was not asked."""
    what = f"the verb {VERB} on gpupools/{pool}"
    if review.failure:
        return f" RBAC could not be asked about {what} ({short(review.failure)}), which counts as no."
    return f" Nor does RBAC grant {what} to {' or '.join(map(short, review.reviewed))}." if review.reviewed else ""
