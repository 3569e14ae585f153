"""The programs that change cards, behind a small interface: `nvidia-mig-parted`, and `nvidia-smi` for one reset.

mig-parted is told cards by index, in a document of just those that change, and never to reset: left to itself it
resets every GPU of the node (`document` in `controllers.domain.mig`). A reset is done beside it, of one card by its
address. Each program has a deadline, a session of its own, so that it can be killed whole, and the node's lock; the
end of what it says is kept for the reason that a person reads.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from nodeagent.host.output import one_line
from nodeagent.mig import metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from nodeagent.mig.files import Lock

KEPT = 4096  # bytes of output
CHUNK = 1 << 16
END_SECONDS = 5.0
OWN_VARIABLES = "MIG_PARTED_"
BUSY = ("in use", "in_use", "being used")


class Hung(Exception):
    """A program does not end though it was killed: a call into the driver does not return."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended."""

    ok: bool
    text: str = ""
    """The end of what it said, in one line."""
    busy: bool = False
    """Whether it failed and said, early or late, that somebody holds the card."""


class Tools(Protocol):
    """What can be done to cards; `document` is mig-parted's. All raise Hung."""

    async def apply(self, document: str, *, mode_only: bool) -> Outcome:
        """Make the cards as the document says, or only their MIG mode; nothing is reset."""

    async def check(self, document: str) -> Outcome:
        """Whether the cards are as the document says."""

    async def reset(self, address: str) -> Outcome:
        """Reset one card that nobody holds open."""

    async def mode(self, address: str, *, enabled: bool) -> Outcome:
        """Set one card's MIG mode, though it is in force: a mode that waits for the next reset is taken back."""


class Programs:
    """The real ones."""

    def __init__(
        self, parted: str, smi: str, lock: Lock, deadline: float, library: Callable[[], Path | None] = lambda: None
    ) -> None:
        """Prepare; `deadline`: seconds that one run may take; `library` tells a folder with the driver's own."""
        self._parted, self._smi, self._lock, self._deadline = parted, smi, lock, deadline
        self._library = library

    async def apply(self, document: str, *, mode_only: bool) -> Outcome:
        """See `Tools`."""
        flags = ("--mode-only",) if mode_only else ()
        return await self._run(self._parted, "apply", "--config-file", "-", "--skip-reset", *flags, given=document)

    async def check(self, document: str) -> Outcome:
        """See `Tools`."""
        return await self._run(self._parted, "assert", "--config-file", "-", given=document)

    async def reset(self, address: str) -> Outcome:
        """See `Tools`."""
        return await self._run(self._smi, "--gpu-reset", "-i", address)

    async def mode(self, address: str, *, enabled: bool) -> Outcome:
        """See `Tools`: mig-parted compares with the mode in force, and would leave the one that waits."""
        return await self._run(self._smi, "-mig", str(int(enabled)), "-i", address)

    async def _run(self, program: str, *arguments: str, given: str = "") -> Outcome:
        what = f"{Path(program).name} {arguments[0]}"
        outcome = await self._ended(what, program, arguments, given)
        metrics.RUNS.labels(what, "ok" if outcome.ok else "failed").inc()
        return outcome

    async def _ended(self, what: str, program: str, arguments: tuple[str, ...], given: str) -> Outcome:
        try:
            child = await asyncio.create_subprocess_exec(
                program,
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment(os.environ, self._library()),
                pass_fds=() if self._lock.fd is None else (self._lock.fd,),
                start_new_session=True,
            )
        except OSError as error:
            return Outcome(ok=False, text=f"{what} cannot be started: {error.strerror or error}")
        try:
            async with asyncio.timeout(self._deadline):
                _, output, status = await asyncio.gather(_write_stdin(child, given), _kept(child), child.wait())
        except TimeoutError:
            await _kill(child, what)
            return Outcome(ok=False, text=f"{what} did not end in {self._deadline:g} s and was killed")
        except asyncio.CancelledError:
            await _kill(child, what)
            raise
        printed = output.decode("utf-8", "replace")
        text = one_line(printed)
        if status < 0:
            text = f"ended by signal {-status}; {text}"
        if status == 0:
            return Outcome(ok=True, text=text)
        return Outcome(False, f"{what}: {text or f'status {status}'}", is_busy(printed))


def environment(inherited: Mapping[str, str], library: Path | None) -> dict[str, str]:
    """What a program gets: nothing that could change what mig-parted was told, and the way to the driver's library."""
    kept = {name: value for name, value in inherited.items() if not name.startswith(OWN_VARIABLES)}
    if library is not None:
        kept["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(library), kept.get("LD_LIBRARY_PATH", ""))))
    return kept


def is_busy(text: str) -> bool:
    """Whether a program says that somebody holds the card."""
    return any(word in text.lower() for word in BUSY)


async def _write_stdin(child: asyncio.subprocess.Process, text: str) -> None:
    stream = cast("asyncio.StreamWriter", child.stdin)
    with suppress(ConnectionError):  # it ended without reading: its status says why
        stream.write(text.encode())
        await stream.drain()
    stream.close()
    with suppress(ConnectionError):
        await stream.wait_closed()


async def _kept(child: asyncio.subprocess.Process) -> bytes:
    kept, stream = b"", cast("asyncio.StreamReader", child.stdout)
    while chunk := await stream.read(CHUNK):
        kept = (kept + chunk)[-KEPT:]
    return kept


async def _kill(child: asyncio.subprocess.Process, what: str) -> None:
    """End it with all that it started; raises Hung."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    try:
        async with asyncio.timeout(END_SECONDS):
            await child.wait()
    except TimeoutError:
        raise Hung(f"{what} was killed and does not end") from None
