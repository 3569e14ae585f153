"""Makes and reads the webhook's certificates. No I/O, no clock: `now` is seconds since the epoch.

An authority (CA) of our own signs the serving certificate; ECDSA P-256 throughout. Each
authority has a subject of its own, so that two in one bundle are never mistaken.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from controllers.api import names

BACKDATE: Final = 300.0
"""Seconds by which certificates begin early: clocks differ a little."""
SERVER_NAMES: Final = (
    names.WEBHOOK,
    f"{names.WEBHOOK}.{names.NAMESPACE}",
    f"{names.WEBHOOK}.{names.NAMESPACE}.svc",
    "localhost",
)
SERVER_ADDRESSES: Final = ("127.0.0.1",)
_CURVE = ec.SECP256R1()


@dataclass(frozen=True, slots=True)
class Keyring:
    """What the Secret holds, as PEM: trusted authorities (the signing one first), and what is served."""

    authorities: tuple[str, ...]
    authority_key: str
    certificate: str
    key: str

    @property
    def bundle(self) -> str:
        """The authorities as the API server wants them."""
        return "".join(self.authorities)


@dataclass(frozen=True, slots=True)
class Facts:
    """What decisions need to know of a certificate; times in seconds since the epoch."""

    begins: float
    ends: float
    server_names: frozenset[str]


def facts(pem: str) -> Facts:
    """Read a certificate; raises ValueError."""
    certificate = x509.load_pem_x509_certificate(pem.encode())
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        found = {
            *alternatives.get_values_for_type(x509.DNSName),
            *map(str, alternatives.get_values_for_type(x509.IPAddress)),
        }
    except x509.ExtensionNotFound:
        found = set()
    begins = certificate.not_valid_before_utc.timestamp() + BACKDATE
    return Facts(begins, certificate.not_valid_after_utc.timestamp(), frozenset(found))


def split(bundle: str) -> tuple[str, ...]:
    """The certificates of a bundle, one by one; raises ValueError."""
    return tuple(_pem(certificate) for certificate in x509.load_pem_x509_certificates(bundle.encode()))


def signed_by(certificate: str, authority: str) -> bool:
    """Whether an authority signed a certificate; False where either cannot be read."""
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.encode()))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def belongs(key: str, certificate: str) -> bool:
    """Whether a private key is that of a certificate."""
    try:
        private = serialization.load_pem_private_key(key.encode(), None)
        public = x509.load_pem_x509_certificate(certificate.encode()).public_key()
    except (ValueError, TypeError):
        return False
    return private.public_key() == public


def make_authority(now: float, seconds: float) -> tuple[str, str]:
    """A new authority: its certificate and its key."""
    key = ec.generate_private_key(_CURVE)
    serial = x509.random_serial_number()
    subject = _name(f"{names.WEBHOOK} {serial:x}"[:64])
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(subject, subject, key.public_key(), serial, now, now + seconds)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(certificate), _key_pem(key)


def issue(authority: str, authority_key: str, now: float, seconds: float) -> tuple[str, str]:
    """A new serving certificate and its key; it does not outlive its authority."""
    signer = serialization.load_pem_private_key(authority_key.encode(), None)
    issuer = x509.load_pem_x509_certificate(authority.encode())
    if not isinstance(signer, ec.EllipticCurvePrivateKey):
        msg = "the authority's key is no elliptic-curve key"
        raise TypeError(msg)
    key = ec.generate_private_key(_CURVE)
    ends = min(now + seconds, issuer.not_valid_after_utc.timestamp())
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in SERVER_NAMES]
    alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in SERVER_ADDRESSES]
    certificate = (
        _builder(_name(names.WEBHOOK), issuer.subject, key.public_key(), x509.random_serial_number(), now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _pem(certificate), _key_pem(key)


def _builder(  # noqa: PLR0917 - a certificate has so many parts
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, serial: int, now: float, ends: float
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(serial)
        .not_valid_before(datetime.fromtimestamp(int(now - BACKDATE), UTC))
        .not_valid_after(datetime.fromtimestamp(int(ends), UTC))
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption()).decode()
