"""Grants against uses: what is granted and never used, used and not granted, or granted wider than it is used. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tests.rbac.audit import Use
    from tests.rbac.grants import Grant

WHOLE = ("list", "watch")
Kind = Literal["unused", "everywhere", "nameless"]
SAYS = {
    "unused": "granted and never used",
    "everywhere": "granted in every namespace and used in one alone",
    "nameless": "granted for all objects and used for one alone",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A grant that is more than what is used of it."""

    kind: Kind
    grant: Grant

    def __str__(self) -> str:
        """As a sentence, with the rule and its file."""
        return f"{SAYS[self.kind]}: {self.grant}"


@dataclass(frozen=True, slots=True)
class Exempt:
    """Findings that are to stay, with the reason; it speaks of each of its verbs."""

    kind: Kind
    account: str
    resource: str
    """As in a grant, with its group behind a dot: `events.events.k8s.io`."""
    verbs: tuple[str, ...]
    reason: str

    def of(self, finding: Finding) -> set[str]:
        """The verb of that finding, where this speaks of it."""
        grant = finding.grant
        same = (finding.kind, grant.account, grant.kind) == (self.kind, self.account, self.resource)
        return {grant.verb} & set(self.verbs) if same else set()


def covers(grant: Grant, use: Use) -> bool:
    """Whether RBAC would let the request pass for that grant alone."""
    return (
        (grant.account, grant.group, grant.resource, grant.verb) == (use.account, use.group, use.resource, use.verb)
        and grant.namespace in ("", use.namespace)
        and grant.name in ("", use.name)
    )


def problems(grants: Collection[Grant], uses: Collection[Use], exempt: Iterable[Exempt] = ()) -> list[str]:
    """Each deviation from least privilege as a sentence; none where all is well.

    `uses` of other programs than the account's own, such as a stand-in for it, say nothing about what it needs.
    """
    own = [use for use in uses if use.program == use.account]
    roles = {(grant.account, grant.role) for grant in grants}
    played = {use.account for use in own}
    found = [finding for grant in grants if grant.account in played for finding in _findings(grant, own)]
    exempt = tuple(exempt)
    return sorted(
        {
            *(str(each) for each in found if not any(one.of(each) for one in exempt)),
            *_needless(exempt, found),
            *(f"used and not granted: {use}" for use in own if not use.role),
            *(f"allowed by another's role: {use} ({use.role})" for use in own if _is_foreign(use, roles)),
            *(f"granted twice: {grant}" for grant in grants if _is_said_elsewhere(grant, grants)),
            *(f"nothing plays {name}, so nobody knows what it needs" for name in {g.account for g in grants} - played),
        }
    )


def _findings(grant: Grant, uses: Iterable[Use]) -> Iterator[Finding]:
    used = [use for use in uses if covers(grant, use)]
    spaces, objects = {use.namespace for use in used}, {use.name for use in used}
    if not used:
        yield Finding("unused", grant)
        return
    if not grant.namespace and len(spaces) == 1 and "" not in spaces:
        yield Finding("everywhere", grant)
    # Of single objects nothing can be told by their number: a story has few of each.
    if grant.verb in WHOLE and not grant.name and len(objects) == 1 and "" not in objects:
        yield Finding("nameless", grant)


def _needless(exempt: Iterable[Exempt], found: Collection[Finding]) -> Iterator[str]:
    for one in exempt:
        needed = {verb for finding in found for verb in one.of(finding)}
        if left := sorted(set(one.verbs) - needed):
            yield f"an exception that is not needed: {one.account}: {', '.join(left)} {one.resource} ({one.kind})"


def _is_foreign(use: Use, roles: Collection[tuple[str, str]]) -> bool:
    return bool(use.role) and (use.account, use.role) not in roles


def _is_said_elsewhere(grant: Grant, grants: Iterable[Grant]) -> bool:
    """Whether another rule grants at least as much."""
    return any(
        other is not grant
        and (other.account, other.kind, other.verb) == (grant.account, grant.kind, grant.verb)
        and other.namespace in ("", grant.namespace)
        and other.name in ("", grant.name)
        for other in grants
    )
