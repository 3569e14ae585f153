"""Which Secrets the module has, who may read them, and where a key is never written."""

from __future__ import annotations

import builtins
import time
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from controllers.runtime import tls
from tests.rbac.conftest import chart
from tests.templates import harness
from webhook.certs import rotation
from webhook.certs.rotation import DAY, Policy

if TYPE_CHECKING:
    from tests.rbac.grants import Chart

__all__ = ["chart"]
READS = {"get", "list", "watch"}
CONFIGURATION = "eyJhdXRocyI6e319"


def secrets(*values: str) -> list[dict[str, Any]]:
    """The Secrets that Helm renders."""
    found = harness.objects(harness.render(harness.programs()["helm"], *values))
    return [one for one in found if one["kind"] == "Secret"]


def test_the_chart_makes_secrets_of_the_registrys_credentials_alone() -> None:
    assert secrets() == []
    made = secrets(f"gpuControlPlane.registry.dockercfg={CONFIGURATION}")
    assert {one["metadata"]["name"] for one in made} == {
        "deckhouse-registry", "gpu-crds-registry", "gpu-cleanup-registry"
    }  # fmt: skip
    assert {one["type"] for one in made} == {"kubernetes.io/dockerconfigjson"}
    assert {key for one in made for key in one["data"]} == {".dockerconfigjson"}


def test_one_account_reads_one_secret(chart: Chart) -> None:
    reads = {
        (grant.account, grant.name, grant.namespace)
        for grant in chart.grants
        if grant.resource == "secrets" and grant.verb in READS
    }
    assert reads == {
        (names.WEBHOOK, names.WEBHOOK_SECRET, names.NAMESPACE),
        (names.MANAGER_CLEANUP, names.WEBHOOK_SECRET, names.NAMESPACE),
    }


def test_a_key_is_loaded_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL's binding wants a path: it is that of a file in memory, which nobody else can open."""
    opened: list[Any] = []
    plain = builtins.open
    monkeypatch.setattr(builtins, "open", lambda path, *a, **k: opened.append(path) or plain(path, *a, **k))

    class Context:
        def load_cert_chain(self, path: str, **_: Any) -> None:
            opened.append(path)

    keyring = rotation.make(time.time(), Policy(certificate=DAY, authority=4 * DAY, settle=10.0))
    tls.load(Context(), keyring.certificate, keyring.key)  # type: ignore[arg-type]
    assert len(opened) == 1
    assert opened[0].startswith("/proc/self/fd/")
