"""TLS contexts of our ports; the key is loaded without touching a disk."""

from __future__ import annotations

import os
import ssl
from typing import Final

CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Of TLS 1.2: what keeps old traffic secret when a key is stolen, and is authenticated. TLS 1.3 has no others."""


def server_context() -> ssl.SSLContext:
    """A context to serve with; it has no certificate yet."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers(CIPHERS)
    return made


def load(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Load from memory: OpenSSL's binding wants a path. Raises OSError, as ssl.SSLError is one."""
    fd = os.memfd_create("certificate")
    try:
        os.write(fd, f"{certificate}{key}".encode())
        # With a password, though an empty one, OpenSSL does not ask a terminal for that of a key that is encrypted.
        context.load_cert_chain(f"/proc/self/fd/{fd}", password="")
    finally:
        os.close(fd)
