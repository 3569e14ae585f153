"""Makes the certificates and keys of one control plane; a fresh authority each time.

Clients prove who they are by certificate, servers are verified against the authority:
nothing here needs a check switched off.
"""

from __future__ import annotations

import ipaddress
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = timedelta(days=3650)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
_SERVER_IPS = ("127.0.0.1", "::1", "10.96.0.1")


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that signs into ``folder``."""

    folder: Path
    key: ec.EllipticCurvePrivateKey
    cert: x509.Certificate

    @classmethod
    def create(cls, folder: Path) -> Authority:
        """Make the authority and write ``ca.crt`` and ``ca.key``."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("gpu-control-plane-sim")
        cert = (
            _builder(name, name, key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_ca_usage(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        authority = cls(folder, key, cert)
        authority._write("ca", cert, key)
        return authority

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Return the authority that was made in ``folder``, to sign more."""
        key = serialization.load_pem_private_key((folder / "ca.key").read_bytes(), password=None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)  # noqa: S101 - `create` makes no other
        return cls(folder, key, x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes()))

    def server(self, name: str) -> None:
        """Issue a certificate for servers on loopback."""
        names: list[x509.GeneralName] = [x509.DNSName(dns) for dns in _SERVER_NAMES]
        names += [x509.IPAddress(ipaddress.ip_address(ip)) for ip in _SERVER_IPS]
        self._issue(name, _name(name), x509.SubjectAlternativeName(names))

    def client(self, name: str, user: str, *groups: str) -> None:
        """Issue a certificate that Kubernetes reads as ``user`` in ``groups``."""
        self._issue(name, _name(user, *groups), None)

    def _issue(self, name: str, subject: x509.Name, names: x509.SubjectAlternativeName | None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        use = ExtendedKeyUsageOID.SERVER_AUTH if names else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = (
            _builder(subject, self.cert.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([use]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()),
                critical=False,
            )
        )
        if names:
            builder = builder.add_extension(names, critical=False)
        self._write(name, builder.sign(self.key, hashes.SHA256()), key)

    def _write(self, name: str, cert: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        (self.folder / f"{name}.crt").write_bytes(cert.public_bytes(serialization.Encoding.PEM))
        _write_key(self.folder / f"{name}.key", key)


def service_account_key(folder: Path) -> Path:
    """Make the key that signs ServiceAccount tokens; return its file."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = folder / "service-account.key"
    _write_key(path, key)
    return path


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ a little
        .not_valid_after(now + _LIFE)
    )


def _name(common: str, *organizations: str) -> x509.Name:
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common), *groups])


def _ca_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
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


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> None:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(pem)
