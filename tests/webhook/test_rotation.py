"""Certificates stay valid and trusted through every rotation, for replicas and API servers that lag behind."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.webhook.world import NOW
from webhook.certificate_stores import keyring_of, secret_data
from webhook.certs import pki, rotation
from webhook.certs.pki import Keyring
from webhook.certs.rotation import DAY, Do, Policy, next_step

POLICY = Policy(certificate=30 * DAY, authority=120 * DAY, settle=10.0)


def step(keyring: Keyring | None, now: float, *, trusted: bool = True, trusted_for: float = 1e9) -> rotation.Step:
    return next_step(keyring, trusted=trusted, trusted_for=trusted_for, now=now, policy=POLICY)


def test_from_nothing_everything_is_made() -> None:
    assert step(None, NOW).do is Do.MAKE
    made = rotation.make(NOW, POLICY)
    assert pki.signed_by(made.certificate, made.authorities[0])
    assert step(made, NOW, trusted=False).do is Do.TRUST
    quiet = step(made, NOW)
    assert quiet.do is Do.WAIT
    assert quiet.after == pytest.approx(20 * DAY, abs=2)


BROKEN: dict[str, Any] = {
    "no authority": {"authorities": ()},
    "authority is text": {"authorities": ("hello",)},
    "certificate is text": {"certificate": "hello"},
    "certificate is empty": {"certificate": ""},
    "key of another": {"key": pki.make_authority(NOW, DAY)[1]},
    "authority's key of another": {"authority_key": pki.make_authority(NOW, DAY)[1]},
    "key is text": {"key": "hello"},
}


@pytest.mark.parametrize("damage", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_of_no_use_is_made_anew(damage: dict[str, Any]) -> None:
    good = rotation.make(NOW, POLICY)
    parts = {name: getattr(good, name) for name in ("authorities", "authority_key", "certificate", "key")}
    assert step(Keyring(**parts | damage), NOW).do is Do.MAKE


def test_a_certificate_is_renewed_in_time() -> None:
    made = rotation.make(NOW, POLICY)
    assert step(made, NOW + 19 * DAY).do is Do.WAIT
    assert step(made, NOW + 21 * DAY).do is Do.ISSUE
    again = rotation.issue(made, NOW + 21 * DAY, POLICY)
    assert again.authorities == made.authorities
    assert step(again, NOW + 21 * DAY).do is Do.WAIT


def test_a_new_authority_is_trusted_before_it_is_used_and_the_old_one_after() -> None:
    now = NOW + 81 * DAY
    old = rotation.issue(rotation.make(NOW, POLICY), now - DAY, POLICY)
    assert step(old, now).do is Do.ADD_AUTHORITY
    both = rotation.add_authority(old, now, POLICY)
    assert len(both.authorities) == 2
    assert both.certificate == old.certificate
    assert step(both, now, trusted=False).do is Do.TRUST
    waiting = step(both, now, trusted_for=4)
    assert (waiting.do, waiting.after) == (Do.WAIT, 6)
    assert step(both, now, trusted_for=11).do is Do.ISSUE
    new = rotation.issue(both, now, POLICY)
    assert pki.signed_by(new.certificate, new.authorities[0])
    assert step(new, now).do is Do.WAIT
    assert step(new, now + 19 * DAY).do is Do.WAIT
    later = rotation.issue(new, now + 25 * DAY, POLICY)
    assert step(later, now + 31 * DAY).do is Do.PRUNE
    assert len(rotation.prune(later).authorities) == 1


def test_what_has_expired_is_replaced_without_waiting() -> None:
    made = rotation.add_authority(rotation.make(NOW, POLICY), NOW + 31 * DAY, POLICY)
    assert step(made, NOW + 31 * DAY, trusted=False).do is Do.TRUST
    assert step(made, NOW + 31 * DAY, trusted_for=0).do is Do.ISSUE


def test_a_certificate_without_our_names_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pki, "SERVER_NAMES", ("elsewhere",))
    made = rotation.make(NOW, POLICY)
    monkeypatch.undo()
    assert step(made, NOW).do is Do.ISSUE


def test_a_certificate_does_not_outlive_its_authority() -> None:
    authority, key = pki.make_authority(NOW, DAY)
    certificate, _ = pki.issue(authority, key, NOW, 30 * DAY)
    assert pki.facts(certificate).ends == pki.facts(authority).ends


def test_a_secret_gives_back_what_was_put_in() -> None:
    from controllers.api.kube import Secret
    from controllers.api.record import adapter

    both = rotation.add_authority(rotation.make(NOW, POLICY), NOW, POLICY)
    secret = adapter(Secret).validate_python({"metadata": {"name": "s"}, "data": secret_data(both)})
    assert keyring_of(secret) == both
    for key in secret.data:
        less = {name: value for name, value in secret.data.items() if name != key}
        assert keyring_of(adapter(Secret).validate_python({"data": less})) is None
    assert keyring_of(adapter(Secret).validate_python({"data": dict.fromkeys(secret.data, "???")})) is None


def test_openssl_takes_what_is_made() -> None:
    made = rotation.make(NOW, POLICY)
    context = ssl.create_default_context(cadata=made.bundle)
    assert len(context.get_ca_certs()) == 1


@dataclass
class Cluster:
    """An API server and two replicas, each of which learns of changes late; time in seconds."""

    keyring: Keyring | None = None
    bundle: str = ""
    since: float = 0.0
    learned: list[tuple[float, str]] = field(default_factory=list)
    is_bound: list[tuple[float, str]] = field(default_factory=list)

    def act(self, now: float, policy: Policy) -> float:
        """One step of the keeper; returns how long it would wait."""
        trusted = self.keyring is not None and self.bundle == self.keyring.bundle
        todo = next_step(
            self.keyring, trusted=trusted, trusted_for=now - self.since if trusted else 0, now=now, policy=policy
        )
        match todo.do:
            case Do.MAKE:
                self.keyring = rotation.make(now, policy)
            case Do.ADD_AUTHORITY if self.keyring:
                self.keyring = rotation.add_authority(self.keyring, now, policy)
            case Do.TRUST if self.keyring:
                self.bundle, self.since = self.keyring.bundle, now
                self.learned.append((now, self.bundle))
            case Do.ISSUE if self.keyring:
                self.keyring = rotation.issue(self.keyring, now, policy)
            case Do.PRUNE if self.keyring:
                self.keyring = rotation.prune(self.keyring)
            case Do.WAIT:
                return todo.after
        assert self.keyring is not None
        if not self.is_bound or self.is_bound[-1][1] != self.keyring.certificate:
            self.is_bound.append((now, self.keyring.certificate))
        return 0.0


def at(history: list[tuple[float, str]], moment: float) -> str:
    return next(value for when, value in reversed(history) if when <= moment)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0.1, 40 * DAY), min_size=5, max_size=25), st.floats(0, 9.5), st.floats(0, 60))
def test_at_any_time_what_a_slow_replica_serves_is_trusted_by_a_slow_api_server(
    pauses: list[float], server_lag: float, replica_lag: float
) -> None:
    cluster, now = Cluster(), NOW
    for pause in pauses:
        due = now + pause
        while now <= due:  # as the keeper does: act, or wait as long as it says
            wait = cluster.act(now, POLICY)
            assert wait >= 0
            now += max(wait, 0.5)
    began = NOW + server_lag + replica_lag + 2
    for moment in [when for when, _ in (*cluster.is_bound, *cluster.learned)]:
        for later in (moment, moment + server_lag / 2, moment + replica_lag / 2, moment + replica_lag):
            if not began <= later <= now:
                continue
            certificate, bundle = at(cluster.is_bound, later - replica_lag), at(cluster.learned, later - server_lag)
            facts = pki.facts(certificate)
            assert facts.begins - pki.BACKDATE <= later <= facts.ends
            assert any(pki.signed_by(certificate, authority) for authority in pki.split(bundle))
