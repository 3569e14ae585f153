"""What the webhook speaks on a real socket, and what it does not."""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.kube import Secret
from controllers.api.record import adapter
from controllers.runtime.health import Health
from controllers.runtime.store import Store
from tests.kit.sockets import ended
from webhook.certificate_stores import CertificateStores, secret_data
from webhook.certs import rotation
from webhook.certs.rotation import DAY, Policy
from webhook.server import Server
from webhook.serving_certificate import ServingCertificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

KEYRING = rotation.make(time.time(), Policy(certificate=DAY, authority=4 * DAY, settle=10.0))
pytestmark = pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")


@pytest.fixture
async def port() -> AsyncIterator[int]:
    """The server with the context that the process makes of its Secret; nobody is asked anything here."""
    secrets: Store[Secret] = Store("Secret")
    tls = ServingCertificate(
        CertificateStores(secrets, Store("MutatingWebhookConfiguration"), Store("ValidatingWebhookConfiguration"))
    )
    meta = {"name": names.WEBHOOK_SECRET, "namespace": names.NAMESPACE, "resourceVersion": "1"}
    secrets.replace([adapter(Secret).validate_python({"metadata": meta, "data": secret_data(KEYRING)})], 1)
    assert tls.loaded.is_set()

    class Nobody:
        async def handle(self, body: bytes, seconds: float) -> bytes:
            raise AssertionError((body, seconds))

    server = Server(Nobody(), Nobody(), Health("127.0.0.1", 0), host="127.0.0.1", port=0)  # type: ignore[arg-type]
    await server.start(tls.context)
    try:
        yield server.port
    finally:
        await server.stop()


def client(least: ssl.TLSVersion, most: ssl.TLSVersion, ciphers: str = "ALL:@SECLEVEL=0") -> ssl.SSLContext:
    """Somebody who would speak anything that OpenSSL still can."""
    made = ssl.create_default_context(cadata=KEYRING.bundle)
    made.set_ciphers(ciphers)
    made.minimum_version, made.maximum_version = least, most
    return made


async def spoken(port: int, context: ssl.SSLContext) -> tuple[str, str]:
    """Version and cipher of a handshake."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="localhost")
    del reader
    found = writer.get_extra_info("ssl_object")
    answer = found.version(), found.cipher()[0]
    await ended(writer)
    return answer


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_current_versions_are_spoken(port: int, version: ssl.TLSVersion) -> None:
    name, cipher = await spoken(port, client(version, version))
    assert name == version.name.replace("_", ".")
    assert "GCM" in cipher or "CHACHA20" in cipher


OLD = {
    "TLS 1.0": (ssl.TLSVersion.TLSv1, "ALL"),
    "TLS 1.1": (ssl.TLSVersion.TLSv1_1, "ALL"),
    "CBC and SHA-256": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA256"),
    "CBC and SHA-1": (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES256-SHA"),
}


@pytest.mark.parametrize(("version", "ciphers"), OLD.values(), ids=OLD.keys())
async def test_old_versions_and_ciphers_are_refused(port: int, version: ssl.TLSVersion, ciphers: str) -> None:
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await spoken(port, client(ssl.TLSVersion.MINIMUM_SUPPORTED, version, f"{ciphers}:@SECLEVEL=0"))


@pytest.mark.parametrize(("version", "ciphers"), OLD.values(), ids=OLD.keys())
async def test_a_server_that_spoke_them_would_be_found(version: ssl.TLSVersion, ciphers: str, tmp_path: Path) -> None:
    """This machine's OpenSSL still can: the refusals above are ours."""
    pem = tmp_path / "pem"
    pem.write_text(f"{KEYRING.certificate}{KEYRING.key}")
    lax = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    lax.set_ciphers("ALL:@SECLEVEL=0")
    lax.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    lax.load_cert_chain(pem)
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=lax)
    async with server:
        at = server.sockets[0].getsockname()[1]
        name, _ = await spoken(at, client(ssl.TLSVersion.MINIMUM_SUPPORTED, version, f"{ciphers}:@SECLEVEL=0"))
    assert name == {"TLSv1": "TLSv1", "TLSv1_1": "TLSv1.1", "TLSv1_2": "TLSv1.2"}[version.name]


async def test_the_api_server_is_told_one_authority_and_trusts_no_other(port: int) -> None:
    other = rotation.make(time.time(), Policy(certificate=DAY, authority=4 * DAY, settle=10.0))
    with pytest.raises(ssl.SSLCertVerificationError):
        await spoken(port, ssl.create_default_context(cadata=other.bundle))
