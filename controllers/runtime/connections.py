"""The connections of a client to its API server: TLS by its credentials, kept open between requests.

A connector lives as long as its client, in its event loop.
"""

from __future__ import annotations

import ssl
import sys
from typing import TYPE_CHECKING, Any, Final

import aiohttp

if TYPE_CHECKING:
    from controllers.runtime.library import Configuration

ENDING: Final[dict[str, Any]] = {"enable_cleanup_closed": True} if sys.version_info < (3, 12, 8) else {}
"""For aiohttp's connectors over TLS: one that is closed ends the connections too that ran idle just before and still
say farewell. Without it they outlive the event loop as open sockets. aiohttp refuses the option on newer interpreters.
"""


def connector(configuration: Configuration) -> aiohttp.TCPConnector:
    """Must run inside the event loop. Raises OSError where a file of the credentials cannot be read or is none."""
    tls = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        tls.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    if not configuration.verify_ssl:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if configuration.disable_strict_ssl_verification:
        tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return aiohttp.TCPConnector(limit=configuration.connection_pool_maxsize, ssl=tls, **ENDING)
