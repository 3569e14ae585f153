"""Rules of dmt's linter `rbac`: where identities and roles stand, and how they are called."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.module.module import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.module.module import Module

PEOPLE = "templates/user-authz-cluster-roles.yaml"
ANNOTATION = "user-authz.deckhouse.io/access-level"
LEVELS = {"User", "PrivilegedUser", "Editor", "Admin", "ClusterEditor", "ClusterAdmin"}
V2 = re.compile(rf"d8:manage:permission:module:{NAME}:(view|edit)|d8:use:capability:module:{NAME}:(view|edit)")


def user_authz(module: Module) -> Iterator[str]:
    """Roles for people: ClusterRoles only, named after their level."""
    for template, item in module.objects:
        if template != PEOPLE:
            continue
        level = item["metadata"].get("annotations", {}).get(ANNOTATION)
        kebab = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", level or "").lower()
        if item["kind"] != "ClusterRole" or level not in LEVELS:
            yield f"{item['metadata']['name']}: {item['kind']} of access level {level}"
        elif item["metadata"]["name"] != f"d8:user-authz:{NAME}:{kebab}":
            yield f"{item['metadata']['name']}: is not called after {level}"


def placement(module: Module) -> Iterator[str]:
    """ServiceAccounts and their roles are in rbac-for-us.yaml, and called as its folder."""
    for template, item in module.objects:
        kind, name, folders = item["kind"], item["metadata"]["name"], template.split("/")[1:-1]
        if kind == "ServiceAccount" and not (template.endswith("/rbac-for-us.yaml") and name == "-".join(folders)):
            yield f"ServiceAccount {name} in {template}"
        if kind in {"ClusterRole", "ClusterRoleBinding"}:
            if template.startswith("templates/rbacv2/"):
                fits = V2.fullmatch(name) is not None
            elif template == PEOPLE:
                fits = True  # user_authz looks at them
            else:
                fits = template.endswith("/rbac-for-us.yaml") and name.startswith(f"d8:{NAME}:{'-'.join(folders)}")
            if not fits:
                yield f"{kind} {name} in {template}"
        if kind in {"Role", "RoleBinding"}:
            to_us = template.endswith("rbac-to-us.yaml") and name.startswith("access-to-")
            if not to_us and not template.endswith("/rbac-for-us.yaml"):
                yield f"{kind} {name} in {template}"


def wildcards(module: Module) -> Iterator[str]:
    """Nothing is given by a star."""
    for name, role in module.of("Role", "ClusterRole"):
        if any("*" in rule.get(part, ()) for rule in role["rules"] for part in ("apiGroups", "resources", "verbs")):
            yield f"{role['kind']} {name}"


def subjects(module: Module) -> Iterator[str]:
    """Bindings bind accounts that there are; Deckhouse's Prometheus is, in every cluster of it."""
    accounts = {(o["metadata"]["namespace"], name) for name, o in module.of("ServiceAccount")}
    accounts.add(("d8-monitoring", "prometheus"))
    for name, binding in module.of("RoleBinding", "ClusterRoleBinding"):
        for subject in binding["subjects"]:
            if subject["kind"] == "ServiceAccount" and (subject["namespace"], subject["name"]) not in accounts:
                yield f"{binding['kind']} {name}: {subject['name']}"


def levels(module: Module) -> Iterator[str]:
    """Roles of the role model say where they are added up."""
    for template, item in module.objects:
        if template.startswith("templates/rbacv2/"):
            found = item["metadata"]["labels"]
            kind = template.split("/")[2]
            added = [k for k in found if re.fullmatch(r"rbac\.deckhouse\.io/aggregate-to-[a-z]+-as", k)]
            if found.get("rbac.deckhouse.io/kind") != kind or not added:
                yield f"{item['metadata']['name']}: labels {sorted(found)}"


RULES = (user_authz, placement, wildcards, subjects, levels)
