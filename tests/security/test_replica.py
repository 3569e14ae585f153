"""A replica of the webhook in foreign hands: what its account lets it write beside reservations."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from tests.templates.harness import NAMESPACE
from webhook.certs import pki

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.templates import harness

pytestmark = pytest.mark.cluster
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
MINE = f"{SECRETS}/{names.WEBHOOK_SECRET}"
HOOKS = "/apis/admissionregistration.k8s.io/v1"
DRY = "?dryRun=All"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
TOKEN_OF = {"kubernetes.io/service-account.name": names.BOOTSTRAP}


def secret(name: str = names.WEBHOOK_SECRET, kind: str = "kubernetes.io/tls", **meta: Any) -> dict[str, Any]:
    data = {"tls.crt": "", "tls.key": ""} if kind == "kubernetes.io/tls" else {}
    return {"metadata": {"name": name, **meta}, "type": kind, "data": data}


@pytest.fixture(scope="module")
def replica(guarded: harness.Kube) -> harness.Kube:
    """Whoever runs under the webhook's account."""
    return guarded.account(names.WEBHOOK)


@pytest.fixture
def kept(guarded: harness.Kube, replica: harness.Kube) -> Iterator[None]:
    """The webhook's Secret, as it makes it."""
    answer = replica.create(SECRETS, secret())
    assert answer.code == 201, answer.message
    yield
    guarded.delete(MINE)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (secret("another"), "writes Secret gpu-admission-webhook-tls and no other"),
        (secret("x", "kubernetes.io/service-account-token", annotations=TOKEN_OF), "and no other"),
        (secret(kind="kubernetes.io/service-account-token", annotations=TOKEN_OF), "of type kubernetes.io/tls"),
        (secret(kind="Opaque"), "of type kubernetes.io/tls"),
        ({"metadata": {"generateName": names.WEBHOOK_SECRET}, "type": "kubernetes.io/tls",
          "data": {"tls.crt": "", "tls.key": ""}}, "and no other"),
    ],
)  # fmt: skip
def test_no_secret_is_filled_with_anothers_token_for_it(replica: harness.Kube, body: Any, says: str) -> None:
    answer = replica.create(f"{SECRETS}{DRY}", body)
    assert answer.code == 403, answer.message
    assert says in answer.message


@pytest.mark.usefixtures("kept")
def test_its_secret_is_not_made_to_vanish(replica: harness.Kube) -> None:
    """An owner that does not exist would have the collector delete it, and free its name for another type."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
    for meta in ({"ownerReferences": [owner]}, {"finalizers": ["example.com/mine"]}):
        answer = replica.merge(f"{MINE}{DRY}", {"metadata": meta})
        assert answer.code == 403, meta
        assert "no owners and no finalizers" in answer.message
    assert replica.delete(MINE).code == 403
    assert replica.merge(f"{MINE}{DRY}", {"data": {"ca.crt": ""}}).code == 200, "what the webhook does to it"


def test_people_and_others_make_secrets_as_before(guarded: harness.Kube) -> None:
    assert guarded.create(f"{SECRETS}{DRY}", secret("another", "Opaque")).code == 201


@pytest.mark.parametrize("kind", KINDS)
def test_webhooks_of_others_are_not_its_to_change(guarded: harness.Kube, replica: harness.Kube, kind: str) -> None:
    path = f"{HOOKS}/{kind}"
    assert guarded.create(path, {"metadata": {"name": "of-others"}, "webhooks": []}).code == 201
    try:
        assert replica.merge(f"{path}/of-others{DRY}", {"webhooks": []}).code == 403
        assert replica.delete(f"{path}/of-others").code == 403
        assert replica.create(f"{path}{DRY}", {"metadata": {"name": "mine"}, "webhooks": []}).code == 403
        assert replica.delete(f"{path}/gpu-control-plane").code == 403
    finally:
        guarded.delete(f"{path}/of-others")


EVERYTHING = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "scope": "*"}
WIDER: dict[str, dict[str, Any]] = {
    "what it is asked about": {"rules": [EVERYTHING]},
    "which of that": {"matchConditions": []},
    "where": {"namespaceSelector": {"matchLabels": {"a": "b"}}},
    "who answers": {"clientConfig": {"url": "https://attacker.example.com/"}},
    "which Service answers": {"clientConfig": {"service": {"namespace": "default", "name": "mine"}}},
    "what holds without it": {"failurePolicy": "Ignore"},
    "how long it may take": {"timeoutSeconds": 30},
}


def ours(kube: harness.Kube, kind: str) -> list[dict[str, Any]]:
    """The webhooks of a configuration of ours."""
    found: list[dict[str, Any]] = kube.get(f"{HOOKS}/{kind}/gpu-control-plane").body["webhooks"]
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", WIDER.values(), ids=WIDER.keys())
def test_it_has_itself_asked_about_nothing_more(
    guarded: harness.Kube, replica: harness.Kube, kind: str, change: dict[str, Any]
) -> None:
    first, *rest = ours(guarded, kind)
    client = {"clientConfig": {**first["clientConfig"], **change["clientConfig"]}} if "clientConfig" in change else {}
    if "service" in client.get("clientConfig", {}):
        del client["clientConfig"]["url"]
    answer = replica.merge(
        f"{HOOKS}/{kind}/gpu-control-plane{DRY}", {"webhooks": [{**first, **change, **client}, *rest]}
    )
    assert answer.code == 403, answer.message
    assert "changes the caBundle of its webhooks, and nothing else" in answer.message


@pytest.mark.parametrize("kind", KINDS)
def test_it_adds_drops_and_marks_nothing_there(guarded: harness.Kube, replica: harness.Kube, kind: str) -> None:
    path, (first, *rest) = f"{HOOKS}/{kind}/gpu-control-plane{DRY}", ours(guarded, kind)
    for change in (
        {"webhooks": [first, *rest, {**first, "name": "more.gpu.deckhouse.io"}]},
        {"webhooks": rest},
        {"metadata": {"labels": {"module": None}}},
        {"metadata": {"finalizers": ["example.com/mine"]}},
    ):
        answer = replica.merge(path, change)
        assert answer.code == 403, change
        assert "and nothing else" in answer.message


@pytest.mark.parametrize("kind", KINDS)
def test_it_tells_whom_to_trust(guarded: harness.Kube, replica: harness.Kube, kind: str) -> None:
    authority, _ = pki.make_authority(time.time(), 86400)
    bundle = base64.b64encode(authority.encode()).decode()
    told = [{"name": one["name"], "clientConfig": {"caBundle": bundle}} for one in ours(guarded, kind)]
    path = f"{HOOKS}/{kind}/gpu-control-plane{DRY}"
    answer = replica.call("PATCH", path, {"webhooks": told}, "application/strategic-merge-patch+json")
    assert answer.code == 200, answer.message
    assert {one["clientConfig"]["caBundle"] for one in answer.body["webhooks"]} == {bundle}


@pytest.mark.parametrize("kind", KINDS)
def test_people_change_them_as_before(guarded: harness.Kube, kind: str) -> None:
    wider = [{**one, "rules": [EVERYTHING]} for one in ours(guarded, kind)]
    assert guarded.merge(f"{HOOKS}/{kind}/gpu-control-plane{DRY}", {"webhooks": wider}).code == 200
