"""The webhook's port, without a cluster: which certificate it shows, and what it answers to broken bodies."""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from cryptography.hazmat.primitives import serialization

from controllers.api import names
from controllers.api.kube import Secret
from controllers.api.record import adapter
from controllers.runtime.health import Health
from controllers.runtime.store import Store
from tests.kit.sockets import ended
from tests.kit.waiting import PATIENCE, until
from webhook import metrics
from webhook.certificate_controller import CertificateController
from webhook.certificate_stores import CertificateStores, keyring_of, secret_data
from webhook.certs import pki, rotation
from webhook.certs.rotation import DAY, Policy
from webhook.server import Server
from webhook.serving_certificate import ServingCertificate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from webhook.certs.pki import Keyring

POLICY = Policy(certificate=DAY, authority=4 * DAY, settle=10.0)
GOOD = rotation.make(time.time(), POLICY)
OTHER = rotation.issue(GOOD, time.time(), POLICY)


def encrypted(key: str) -> str:
    """A key that wants a password; nobody is to be asked for it."""
    private = serialization.load_pem_private_key(key.encode(), None)
    form, how = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret")
    return private.private_bytes(serialization.Encoding.PEM, form, how).decode()


class Asked:
    """Says what it was asked."""

    async def handle(self, body: bytes, _deadline: float) -> bytes:
        return body


class Port:
    """A server that serves with what a Secret holds."""

    def __init__(self) -> None:
        self.secrets: Store[Secret] = Store("Secret")
        self.caches = CertificateStores(
            self.secrets, Store("MutatingWebhookConfiguration"), Store("ValidatingWebhookConfiguration")
        )
        self.tls = ServingCertificate(self.caches)
        self._version = 0
        self.hold(GOOD)
        asked: Any = Asked()
        self.server = Server(asked, asked, Health("127.0.0.1", 0), host="127.0.0.1", port=0)

    def hold(self, keyring: Keyring) -> None:
        """Somebody writes the Secret."""
        self._version += 1
        meta = {"name": names.WEBHOOK_SECRET, "namespace": names.NAMESPACE, "resourceVersion": str(self._version)}
        body = {"metadata": meta, "data": secret_data(keyring)}
        self.secrets.on_watch_event(adapter(Secret).validate_python(body))

    async def shown(self, trusted: str = GOOD.bundle) -> str:
        """The certificate of a new handshake, which must be trusted."""
        context = ssl.create_default_context(cadata=trusted)
        _, writer = await asyncio.open_connection(
            "127.0.0.1", self.server.port, ssl=context, server_hostname="localhost"
        )
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        await ended(writer)
        return ssl.DER_cert_to_PEM_cert(der).strip()


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    made = Port()
    await made.server.start(made.tls.context)
    yield made
    await made.server.stop()


UNLOADABLE = {
    "the key of another": replace(OTHER, key=pki.make_authority(time.time(), DAY)[1]),
    "a key that is text": replace(OTHER, key="hello\n"),
    "no key": replace(OTHER, key=""),
    "an encrypted key": replace(OTHER, key=encrypted(OTHER.key)),
    "a chain that breaks off": replace(
        OTHER, certificate=f"{OTHER.certificate}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    ),
}


@pytest.mark.parametrize("broken", UNLOADABLE.values(), ids=UNLOADABLE.keys())
async def test_what_does_not_load_leaves_what_is_served(port: Port, broken: Keyring) -> None:
    assert await port.shown() == GOOD.certificate.strip()
    port.hold(broken)
    assert await port.shown() == GOOD.certificate.strip()
    port.hold(GOOD)
    assert await port.shown() == GOOD.certificate.strip()
    port.hold(OTHER)
    assert await port.shown() == OTHER.certificate.strip()


class Term:
    """A term that nobody takes away, and an API server that takes every write."""

    def __init__(self) -> None:
        self.written: list[dict[str, str]] = []

    def require_leadership(self) -> None:
        pass

    async def merge(self, _resource: object, _name: str, body: dict[str, Any], **_: object) -> bytes:
        self.written.append(body["data"])
        meta = {"name": names.WEBHOOK_SECRET, "namespace": names.NAMESPACE, "resourceVersion": "99"}
        return orjson.dumps({"metadata": meta, "data": body["data"]})


@pytest.mark.parametrize("broken", UNLOADABLE.values(), ids=UNLOADABLE.keys())
async def test_who_leads_makes_anew_what_does_not_load(port: Port, broken: Keyring) -> None:
    term: Any = Term()
    keeper = CertificateController(term, port.caches, POLICY, lambda: term)
    port.hold(broken)
    await keeper._reconcile(term)

    (written,) = term.written
    assert port.caches.secret is not None
    made = keyring_of(port.caches.secret)
    assert made is not None
    assert written == secret_data(made)
    assert await port.shown(made.bundle) == made.certificate.strip()


BODY = b'{"uid": "u"}'
BROKEN = {
    "gzip that is none": ("gzip", b"garbage"),
    "deflate that is none": ("deflate", b"\xff" * 7),
}


async def sent(port: Port, packed: str, body: bytes) -> tuple[bytes, bytes]:
    """The status line and the rest of the answer, after which the connection is closed."""
    tls = ssl.create_default_context(cadata=GOOD.bundle)
    reader, writer = await asyncio.open_connection("127.0.0.1", port.server.port, ssl=tls, server_hostname="localhost")
    head = f"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Encoding: {packed}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    first, _, rest = (await asyncio.wait_for(reader.read(), PATIENCE)).partition(b"\r\n")
    await ended(writer)
    return first, rest


@pytest.mark.parametrize(("packed", "body"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_body_that_cannot_be_unpacked_gets_a_sentence(
    port: Port, caplog: pytest.LogCaptureFixture, packed: str, body: bytes
) -> None:
    refused = metrics.REVIEWS.labels("refused", "400")._value
    before = refused.get()
    first, rest = await sent(port, packed, body)

    assert b" 400 " in first
    assert b"gpu-admission-webhook: the body is not packed as its header Content-Encoding says" in rest
    assert refused.get() - before == 1
    assert [record for record in caplog.records if record.exc_info] == []


async def test_a_review_that_is_given_up_amid_its_body_leaves_no_stack_trace(
    port: Port, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the API server does it: whoever was taking a gate off was killed."""
    reviews, review = list[str](), port.server._review

    async def watched(request: Any) -> Any:
        reviews.append("begun")
        try:
            return await review(request)
        finally:
            reviews.append("over")

    monkeypatch.setattr(port.server, "_review", watched)
    tls = ssl.create_default_context(cadata=GOOD.bundle)
    _, writer = await asyncio.open_connection("127.0.0.1", port.server.port, ssl=tls, server_hostname="localhost")
    writer.write(b"POST /mutate-pods HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
    await until(lambda: reviews == ["begun"], "the body to be read")
    writer.transport.abort()
    await until(lambda: reviews == ["begun", "over"], "the review to end")

    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    port.server.close_connections(away=True)  # it answers, and ends the connection
    first, _ = await sent(port, "gzip", gzip.compress(BODY))
    assert b" 200 " in first


@pytest.mark.parametrize(("packed", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_a_body_that_is_packed_is_read(port: Port, packed: str, pack: Callable[[bytes], bytes]) -> None:
    port.server.close_connections(away=True)  # it answers, and ends the connection
    first, rest = await sent(port, packed, pack(BODY))
    assert b" 200 " in first
    assert rest.endswith(BODY)
