"""Starts programs of ours that call into the driver, one at a time, each with a deadline.

A call into a broken driver may never return; a program can be killed. One that is killed and does not end (a call
into the kernel that nothing interrupts) is left behind; as long as it lives no other is started.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

KILL_SECONDS = 1.0
OUTPUT_MAX, ERRORS_MAX, CHUNK = 1 << 20, 4096, 1 << 16  # bytes
LAST_WORDS_MAX = 200  # characters
NOT_RETURNED = "a call into it has not returned since it was last asked"
"""Why nothing is asked while a program that was left behind lives."""


class DriverUnavailable(Exception):
    """The driver gave no answer; says why."""


class DeadlineExceeded(DriverUnavailable):
    """There was no answer before the deadline, or an earlier program has not ended."""


def answered(output: bytes, key: str, made: Callable[[Any], T]) -> T:
    """What is made of a program's answer: its last line is JSON, with that key or `error`; raises DriverUnavailable."""
    try:
        answer = json.loads(output.splitlines()[-1])
        if "error" in answer:
            raise DriverUnavailable(str(answer["error"]))
        return made(answer[key])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise DriverUnavailable(f"its reader printed what cannot be read: {output[-200:]!r}") from error


class Children:
    """Runs one program after the other; used from the event loop, by one task at a time."""

    def __init__(self) -> None:
        self._left: asyncio.subprocess.Process | None = None

    async def run_module(self, module: str, flags: Sequence[str], deadline: float) -> bytes:
        """What a module of ours printed when it was run; raises DriverUnavailable. `deadline` in seconds."""
        if self._left is not None and self._left.returncode is None:
            raise DeadlineExceeded(NOT_RETURNED)
        try:
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                module,
                *flags,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:  # no process or memory is left for it: that passes
            raise DriverUnavailable(f"its reader cannot be started: {error.strerror or error}") from error
        self._left = child
        try:
            async with asyncio.timeout(deadline):
                output, errors, status = await _collect_output(child)
        except TimeoutError:
            raise DeadlineExceeded(f"no answer in {deadline:g} s") from None
        finally:
            await _end(child)
        if len(output) > OUTPUT_MAX:
            raise DriverUnavailable(f"its reader printed more than {OUTPUT_MAX} bytes")
        if status != 0:
            raise DriverUnavailable(_fate(status, errors))
        return output


async def _collect_output(child: asyncio.subprocess.Process) -> tuple[bytes, bytes, int]:
    """What the child printed, the end of what it complained of, and its status; one that prints too much is killed."""

    async def output() -> bytes:
        kept, stream = b"", cast("asyncio.StreamReader", child.stdout)
        while chunk := await stream.read(CHUNK):
            if len(kept) <= OUTPUT_MAX:
                kept += chunk
                if len(kept) > OUTPUT_MAX:
                    with suppress(ProcessLookupError):
                        child.kill()
        return kept

    async def errors() -> bytes:
        kept, stream = b"", cast("asyncio.StreamReader", child.stderr)
        while chunk := await stream.read(CHUNK):
            kept = (kept + chunk)[-ERRORS_MAX:]
        return kept

    return await asyncio.gather(output(), errors(), child.wait())


def _fate(status: int, errors: bytes) -> str:
    """How the reader ended: by a signal it was the library, else its own last words say why."""
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    words = f": {lines[-1].strip()[:LAST_WORDS_MAX]}" if lines else ""
    if status < 0:
        return f"its library ended the reader by signal {-status}{words}"
    return f"its reader ended with status {status}{words}"


async def _end(child: asyncio.subprocess.Process) -> None:
    """Kill what still runs; one that cannot be killed is left, and reaped whenever it ends."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(KILL_SECONDS):
                await child.wait()
