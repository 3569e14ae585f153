"""A certificate that nobody verifies, made by a program of its own: `python -m controllers.runtime.selfsigned NAME`.

Metrics are served with it (ADR 0039): it keeps them, and the token of who reads them, from those who listen on the
network. The library that makes it takes 9 MB for good, on every node several times; in a program that ends it takes
none. The key goes through a pipe, and is on no disk.
"""

from __future__ import annotations

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import Final

from controllers.runtime.errors import Terminal

LIFE: Final = 10 * 365 * 86400.0
"""Seconds. It ends with its process, and nobody looks at its dates."""
BACKDATE: Final = 3600.0
"""Seconds by which it begins early: clocks differ."""
DEADLINE: Final = 60.0
"""Seconds; it takes a fraction of one, but on a node that is busy."""


def make(name: str, now: float) -> str:
    """Certificate and key as PEM, one after the other; `now` is in seconds since the epoch."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    whose = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(whose)
        .issuer_name(whose)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.fromtimestamp(now - BACKDATE, UTC))
        .not_valid_after(datetime.fromtimestamp(now + LIFE, UTC))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    parts = made.public_bytes(encoding), key.private_bytes(encoding, private, serialization.NoEncryption())
    return b"".join(parts).decode()


async def made_elsewhere(name: str) -> str:
    """The same, by a program of its own; raises Terminal with what that said."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "controllers.runtime.selfsigned", name),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(DEADLINE):
            out, err = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if process.returncode:
        said = " ".join(err.decode(errors="replace").split())[-500:]
        raise Terminal(f"no certificate was made: it ended with {process.returncode}: {said}")
    return out.decode()


if __name__ == "__main__":
    sys.stdout.write(make(sys.argv[1], time.time()))
