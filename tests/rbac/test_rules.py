"""What no role of the module may hold, whoever uses it; and that `docs/rbac.md` says what the roles hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from tests.rbac.grants import Grant
from tests.rbac.table import rows

if TYPE_CHECKING:
    from tests.rbac.grants import Chart
    from tests.rbac.table import Row

DOCS = Path(__file__).resolve().parents[2] / "docs" / "rbac.md"
ESCALATES = {"escalate", "bind", "impersonate"}
DANGEROUS = {
    ("create", "pods/exec"), ("create", "pods/attach"), ("create", "pods/ephemeralcontainers"), ("create", "pods"),
    ("create", "serviceaccounts/token"), ("create", "certificatesigningrequests"),
}  # fmt: skip
OF_DRIVERS = Grant(names.DRIVER_CONTROLLER, "", "pods", "create", namespace=names.NAMESPACE)
"""It makes the pods that look at a node before anything starts; DaemonSets with the same rights it makes anyway."""


def forbidden(grant: Grant) -> list[str]:
    """Why nobody of ours may have it."""
    secret = grant.resource == "secrets"
    reasons = {
        "a wildcard": "*" in (grant.group, grant.resource, grant.verb) or grant.resource.startswith("*/"),
        "a way to any other right": grant.verb in ESCALATES or grant.group == "rbac.authorization.k8s.io",
        "secrets of every namespace": secret and not grant.namespace,
        "every secret of a namespace": secret and grant.verb != "create" and not grant.name,
        # A condition of the Node is all that a policy lets anybody of ours change of its status.
        "kubelet's own interface": grant.resource.startswith("nodes/") and grant.resource != "nodes/status",
        "another's rights, by a pod or a token": (grant.verb, grant.resource) in DANGEROUS
        and replace(grant, role="", file="") != OF_DRIVERS,
    }
    return [why for why, is_so in reasons.items() if is_so]


@pytest.mark.parametrize(
    "grant",
    [
        Grant("x", "", "pods", "*"),
        Grant("x", "", "*", "get"),
        Grant("x", "*", "pods", "get"),
        Grant("x", "", "users", "impersonate"),
        Grant("x", "rbac.authorization.k8s.io", "roles", "escalate"),
        Grant("x", "", "secrets", "list"),
        Grant("x", "", "secrets", "get", namespace="d8-gpu-operator"),
        Grant("x", "", "nodes/proxy", "get"),
        Grant("x", "", "serviceaccounts/token", "create"),
        Grant("x", "", "pods", "create", namespace="d8-gpu-operator"),
        Grant("gpu-driver-controller", "", "pods", "create"),
    ],
    ids=str,
)
def test_what_is_forbidden_is_found(grant: Grant) -> None:
    assert forbidden(grant)


def test_no_role_holds_what_none_may(chart: Chart) -> None:
    assert chart.grants
    assert [f"{', '.join(why)}: {grant}" for grant in chart.grants if (why := forbidden(grant))] == []


def test_every_identity_has_roles_of_its_own_and_no_more(chart: Chart) -> None:
    """A role of Kubernetes' own, such as `view`, would grow with the cluster."""
    by_role: dict[str, set[str]] = {}
    for grant in chart.grants:
        by_role.setdefault(grant.role, set()).add(grant.account)
    assert {role: who for role, who in by_role.items() if len(who) > 1} == {}
    assert set().union(*by_role.values()) == set(chart.accounts)


def written() -> dict[str, dict[Row, str]]:
    """The rows of the page by identity, and the reason of each."""
    found: dict[str, dict[Row, str]] = {}
    for part in DOCS.read_text().split("\n## ")[1:]:
        title, *lines = part.splitlines()
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| `")]
        found[title.strip("`")] = {(on, where, verbs): why for on, where, verbs, why in cells}
    return found


def test_the_page_says_what_the_chart_grants(chart: Chart) -> None:
    granted = rows(chart)
    assert set(written()) == set(granted)
    for account, found in written().items():
        assert sorted(found) == granted[account], account


def test_every_right_has_its_reason() -> None:
    assert [(account, row) for account, found in written().items() for row, why in found.items() if not why] == []
