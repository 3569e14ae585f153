"""The next step in keeping the webhook's certificates valid. Pure; a step at a time, from any state.

    nothing readable              → make everything
    authority grows old           → add a new one; the old one stays trusted
    caBundle lacks an authority   → write it into the webhook configurations
    certificate grows old, or is not of the newest authority
        bundle in place for `settle` seconds, or it has expired → issue a new one
        not yet                              → wait
    an authority nobody serves under any more → take it out

So no certificate is served before every API server has had the time to trust its authority,
and no authority is dropped while a certificate of it may be served by a replica that has not
reloaded: it stays for the life of a certificate after its successor was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from webhook.certs import pki

if TYPE_CHECKING:
    from webhook.certs.pki import Keyring

DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Policy:
    """How long things live; seconds."""

    certificate: float = 90 * DAY
    authority: float = 3650 * DAY
    renew_share: float = 2 / 3
    """A certificate is renewed when this share of its life is over."""
    settle: float = 10.0
    """How long an API server may take to learn a new caBundle."""


class Do(Enum):
    """What to do now."""

    MAKE = "make everything"
    ADD_AUTHORITY = "add an authority"
    TRUST = "write the caBundle"
    ISSUE = "issue a certificate"
    PRUNE = "drop an authority"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Step:
    """What to do, and when to look again where that is to wait."""

    do: Do
    after: float = 0.0


def next_step(keyring: Keyring | None, *, trusted: bool, trusted_for: float, now: float, policy: Policy) -> Step:
    """Decide. `trusted`: every webhook configuration has the keyring's bundle, since `trusted_for` seconds."""
    ends = _ends(keyring)
    if keyring is None or ends is None:
        return Step(Do.MAKE)
    authority_ends, certificate_ends = ends
    authority_due = authority_ends - policy.authority * (1 - policy.renew_share)
    certificate_due = certificate_ends - policy.certificate * (1 - policy.renew_share)
    if now >= authority_due:
        return Step(Do.ADD_AUTHORITY)
    if not trusted:
        return Step(Do.TRUST)
    if now >= certificate_due or not _fitting(keyring):
        # What has expired protects nobody: there is nothing to wait for.
        left = policy.settle - trusted_for if now < certificate_ends else 0.0
        return Step(Do.WAIT, left) if left > 0 else Step(Do.ISSUE)
    drop_at = _drop_at(keyring, policy)
    if drop_at is not None and now >= drop_at:
        return Step(Do.PRUNE)
    due = min(authority_due, certificate_due, drop_at if drop_at is not None else authority_due)
    return Step(Do.WAIT, due - now)


def make(now: float, policy: Policy) -> Keyring:
    """Everything anew."""
    authority, authority_key = pki.make_authority(now, policy.authority)
    return _certified((authority,), authority_key, now, policy)


def add_authority(keyring: Keyring, now: float, policy: Policy) -> Keyring:
    """A new authority that signs from now on; what is served stays, and stays trusted."""
    authority, authority_key = pki.make_authority(now, policy.authority)
    return pki.Keyring((authority, *keyring.authorities), authority_key, keyring.certificate, keyring.key)


def issue(keyring: Keyring, now: float, policy: Policy) -> Keyring:
    """A new certificate of the newest authority."""
    return _certified(keyring.authorities, keyring.authority_key, now, policy)


def prune(keyring: Keyring) -> Keyring:
    """Only the newest authority."""
    return pki.Keyring(keyring.authorities[:1], keyring.authority_key, keyring.certificate, keyring.key)


def _certified(authorities: tuple[str, ...], authority_key: str, now: float, policy: Policy) -> Keyring:
    """A keyring with a certificate just issued."""
    certificate, key = pki.issue(authorities[0], authority_key, now, policy.certificate)
    return pki.Keyring(authorities, authority_key, certificate, key)


def _ends(keyring: Keyring | None) -> tuple[float, float] | None:
    """When the authority and the certificate end; None where the keyring is of no use."""
    if keyring is None or not keyring.authorities:
        return None
    try:
        ends = pki.facts(keyring.authorities[0]).ends, pki.facts(keyring.certificate).ends
    except ValueError:
        return None
    whole = pki.belongs(keyring.authority_key, keyring.authorities[0]) and pki.belongs(keyring.key, keyring.certificate)
    return ends if whole else None


def _fitting(keyring: Keyring) -> bool:
    """Whether what is served is of the newest authority and for all our names."""
    wanted = {*pki.SERVER_NAMES, *pki.SERVER_ADDRESSES}
    return (
        pki.signed_by(keyring.certificate, keyring.authorities[0])
        and wanted <= pki.facts(keyring.certificate).server_names
    )


def _drop_at(keyring: Keyring, policy: Policy) -> float | None:
    """When older authorities can go: nothing that they signed is valid any more."""
    if len(keyring.authorities) == 1:
        return None
    return pki.facts(keyring.authorities[0]).begins + policy.settle + policy.certificate
