"""What was asked: the API server's audit log, cut down to what RBAC decides by."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

CREATED = 201
DECISION, REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
_ROLE = re.compile(r'of ((?:Cluster)?Role "[^"]+") to')
_NAMESPACED_ROLE = re.compile(r'RoleBinding "[^"/]+/([^"]+)" of Role "([^"]+)"')


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """One verb that was asked for, and who allowed it; equal requests are one."""

    account: str
    group: str
    resource: str
    """With its subresource. The path, where the request was for no resource."""
    verb: str
    name: str = ""
    """The object that was asked for, by name or by a field selector that says one; else empty."""
    namespace: str = ""
    """Empty for what has none, and for a list of all namespaces."""
    program: str = ""
    """The user agent up to its first slash."""
    role: str = ""
    """Which role allowed it, as `Grant.role`; empty where nothing did."""

    def __str__(self) -> str:
        """Who asked what."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.account}: {self.verb} {kind}{f' {self.name}' if self.name else ''}{where}"


def read(text: bytes, namespace: str) -> frozenset[Use]:
    """What the ServiceAccounts of a namespace asked for, by an API server's log, a JSON document a line."""
    return frozenset(use for line in text.splitlines() for use in _uses(orjson.loads(line), namespace))


def _uses(event: dict[str, Any], namespace: str) -> Iterator[Use]:
    prefix = f"system:serviceaccount:{namespace}:"
    user = event["user"]["username"]
    if not user.startswith(prefix):
        return
    about, notes = event.get("objectRef") or {}, event.get("annotations") or {}
    resource = "/".join(part for part in (about.get("resource"), about.get("subresource")) if part)
    use = Use(
        account=user.removeprefix(prefix),
        group=about.get("apiGroup", ""),
        resource=resource or event["requestURI"].partition("?")[0],
        verb=event["verb"],
        name=about.get("name", ""),
        # A Namespace is said to be in itself.
        namespace="" if resource == "namespaces" else about.get("namespace", ""),
        program=event.get("userAgent", "").partition("/")[0],
        role=_role(notes.get(REASON, "")) if notes.get(DECISION) == "allow" else "",
    )
    yield use
    # An apply, or an update, that makes the object has been judged a second time, for `create`, and that with success.
    if use.verb in ("patch", "update") and event.get("responseStatus", {}).get("code") == CREATED:
        yield Use(use.account, use.group, use.resource, "create", use.name, use.namespace, use.program, use.role)


def _role(reason: str) -> str:
    if found := _NAMESPACED_ROLE.search(reason):
        return f'Role "{found[2]}/{found[1]}"'
    found = _ROLE.search(reason)
    return found[1] if found else reason or "nobody says which"
