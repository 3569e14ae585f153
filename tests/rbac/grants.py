"""What the chart grants, a verb at a time: the rendered roles that our ServiceAccounts are bound to."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROLES = ("Role", "ClusterRole")
SOURCE = "# Source: gpu-control-plane/"


@dataclass(frozen=True, slots=True, order=True)
class Grant:
    """One verb on one resource, as one rule gives it to one ServiceAccount."""

    account: str
    group: str
    resource: str
    """With its subresource: `gpudevices/status`."""
    verb: str
    name: str = ""
    """The one object that it is about; all, where empty."""
    namespace: str = ""
    """Where it holds; in the whole cluster, where empty."""
    role: str = ""
    """As the API server names it in its audit log: `ClusterRole "d8:x"`, `Role "x/namespace"`."""
    file: str = ""

    @property
    def kind(self) -> str:
        """The resource with its group behind a dot."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    def __str__(self) -> str:
        """The sentence's subject: who may do what, and where that stands."""
        where = f" in {self.namespace}" if self.namespace else ""
        about = f" {self.name}" if self.name else ""
        return f"{self.account}: {self.verb} {self.kind}{about}{where} ({self.role} in {self.file})"


@dataclass(frozen=True, slots=True)
class Chart:
    """The parts of a rendered chart that RBAC is made of, each with the template that it comes from."""

    accounts: tuple[str, ...]
    roles: tuple[tuple[str, dict[str, Any]], ...]
    """Those that are bound to an account of ours."""
    grants: tuple[Grant, ...]


def parts(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a rendered text, each with its template."""
    for piece in text.split("\n---"):
        source = next((line[len(SOURCE) :] for line in piece.splitlines() if line.startswith(SOURCE)), "")
        for item in yaml.safe_load_all(piece):
            if isinstance(item, dict) and item.get("kind"):
                yield source, item


def read(text: str, namespace: str) -> Chart:
    """The module's RBAC as Helm renders it; the ServiceAccounts are those of `namespace`.

    Raises LookupError where one of them is bound to a role of somebody else's.
    """
    found = list(parts(text))
    accounts = [o["metadata"]["name"] for _, o in found if o["kind"] == "ServiceAccount"]
    roles = {_key(o): (file, o) for file, o in found if o["kind"] in ROLES}
    bound: dict[tuple[str, str, str], tuple[str, dict[str, Any]]] = {}
    grants: list[Grant] = []
    for _, binding in found:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        where = binding["metadata"].get("namespace", "")
        reference = binding["roleRef"]
        key = (reference["kind"], where if reference["kind"] == "Role" else "", reference["name"])
        for subject in binding.get("subjects") or ():
            ours = subject["kind"] == "ServiceAccount" and subject.get("namespace") == namespace
            if not ours or subject["name"] not in accounts:
                continue
            if key not in roles:
                msg = f"{subject['name']} is bound to {_spoken(key)}, a role that is not the chart's"
                raise LookupError(msg)
            file, role = roles[key]
            bound[key] = (file, role)
            grants += _expanded(subject["name"], where, _spoken(key), file, role["rules"])
    return Chart(tuple(sorted(accounts)), tuple(bound.values()), tuple(sorted(grants)))


def _key(role: dict[str, Any]) -> tuple[str, str, str]:
    return role["kind"], role["metadata"].get("namespace", ""), role["metadata"]["name"]


def _spoken(key: tuple[str, str, str]) -> str:
    kind, namespace, name = key
    return f'{kind} "{name}/{namespace}"' if namespace else f'{kind} "{name}"'


def _expanded(account: str, where: str, role: str, file: str, rules: Iterable[dict[str, Any]]) -> Iterator[Grant]:
    for rule in rules:
        whole = (rule.get("apiGroups", [""]), rule.get("resources", []), rule["verbs"])
        for (group, resource, verb), name in product(product(*whole), rule.get("resourceNames") or [""]):
            yield Grant(account, group, resource, verb, name, where, role, file)
