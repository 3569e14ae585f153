"""What each identity may do, as the rows of `docs/rbac.md`: what on, where, which verbs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.rbac.grants import Chart

Row = tuple[str, str, str]
ORDER = ("get", "list", "watch", "create", "update", "patch", "delete")


def rows(chart: Chart) -> dict[str, list[Row]]:
    """By ServiceAccount; objects for which the verbs are the same share a row."""
    verbs: dict[tuple[str, str, str, str], set[str]] = {}
    for grant in chart.grants:
        verbs.setdefault((grant.account, grant.kind, grant.namespace, grant.name), set()).add(grant.verb)
    objects: dict[tuple[str, str, str, tuple[str, ...]], list[str]] = {}
    for (account, kind, namespace, name), found in verbs.items():
        spoken = tuple(sorted(found, key=lambda verb: (ORDER.index(verb) if verb in ORDER else len(ORDER), verb)))
        objects.setdefault((account, kind, namespace, spoken), []).append(name)
    made: dict[str, list[Row]] = {}
    for (account, kind, namespace, spoken), names in objects.items():
        named = ", ".join(f"`{name}`" for name in sorted(names) if name)
        row = (f"`{kind}` {named}".strip(), f"`{namespace}`" if namespace else "cluster", ", ".join(spoken))
        made.setdefault(account, []).append(row)
    return {account: sorted(found) for account, found in made.items()}
