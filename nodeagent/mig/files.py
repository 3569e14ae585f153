"""Files that the MIG managers of a node share: the lock, and the journal of work that has begun.

Both lie in a folder of the host that a reboot empties, as it does away with MIG instances. The lock is a `flock`: the
kernel lets go of it when the last process that has it ends. Programs that change cards inherit it, so that a manager
that was killed keeps the next one out for as long as its program is still at the cards.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog

from controllers.domain.mig import CardLayout
from nodeagent.host import jsonfile
from nodeagent.mig.cards.records import Attempt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

log = structlog.get_logger()
LOCK, JOURNAL = "lock", "work.json"


class Taken(Exception):
    """Another manager of the node, or a program of one that was killed, is at work."""


class Lock:
    """The node's lock."""

    def __init__(self, folder: Path) -> None:
        """Prepare; the folder must be there."""
        self._path = folder / LOCK
        self.fd: int | None = None
        """The descriptor that programs inherit, while we have the lock."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Have the lock; raises Taken."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Taken from None
            self.fd = fd
            yield
        finally:
            self.fd = None
            os.close(fd)  # a program that inherited it and still runs keeps it


class Journal:
    """Attempts that have begun, by PCI address; used by whoever has the lock."""

    def __init__(self, folder: Path) -> None:
        """Prepare; the folder must be there."""
        self._path = folder / JOURNAL

    def read(self) -> dict[str, Attempt]:
        """What was written last; nothing where there is no file, or a foreign hand spoiled it."""
        try:
            text = self._path.read_text("utf-8")
        except FileNotFoundError:
            return {}
        try:
            return {str(address): _attempt(values) for address, values in json.loads(text).items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.error("the memory of work cannot be read; it begins anew", path=str(self._path), why=str(error))  # noqa: TRY400
            return {}

    def write(self, attempts: Mapping[str, Attempt]) -> None:
        """Put them in place of what was written, whole or not at all."""
        jsonfile.write(self._path, {address: _written(attempt) for address, attempt in sorted(attempts.items())})


def _written(attempt: Attempt) -> dict[str, Any]:
    return {
        "version": attempt.version,
        "before": {"enabled": attempt.before.enabled, "instances": dict(attempt.before.instances)},
        "begun": attempt.begun,
        "failed": attempt.failed,
    }


def _attempt(values: dict[str, Any]) -> Attempt:
    before = values["before"]
    instances = {str(name): int(count) for name, count in before["instances"].items()}
    return Attempt(
        str(values["version"]),
        CardLayout(bool(before["enabled"]), instances),
        int(values["begun"]),
        str(values["failed"]),
    )
