"""HTTP at a socket of the host: how CRI-O and Docker tell what they run with."""

from __future__ import annotations

import http.client
import socket
from typing import TYPE_CHECKING, Final

from nodeagent.toolkit.cri import RuntimeUnavailable

if TYPE_CHECKING:
    from pathlib import Path

CALL_SECONDS: Final = 10.0
ANSWER_MAX: Final = 4 * 1024 * 1024


class LocalHTTP(http.client.HTTPConnection):
    """HTTP over a socket of the host."""

    def __init__(self, path: Path) -> None:
        """`path`: the socket, as it is seen here."""
        super().__init__("localhost", timeout=CALL_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(CALL_SECONDS)
        self.sock.connect(str(self._path))


def get(path: Path, what: str) -> bytes:
    """The answer of a program that serves HTTP at a socket; raises RuntimeUnavailable."""
    connection = LocalHTTP(path)
    try:
        connection.request("GET", what)
        answer = connection.getresponse()
        content = answer.read(ANSWER_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise RuntimeUnavailable(f"{path}: {type(error).__name__}") from None
    finally:
        connection.close()
    if answer.status != http.HTTPStatus.OK:
        raise RuntimeUnavailable(f"{path}: {what} answers with status {answer.status}")
    return content
