"""The co-process that evaluates NodeFeatureRules, and what it last said of each node.

One question at a time: an answer takes a millisecond. A process that died is started anew, once
for a question; a node whose features and rules are as they were is not asked about again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from tools.errors import UserError

if TYPE_CHECKING:
    from sim.nodes.report import Report

LONGEST = 16 * 2**20
"""Bytes of one answer, at most."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What nfd-master would do."""

    labels: dict[str, str]
    errors: tuple[str, ...] = ()
    """What it would log as refused."""


class Evaluator:
    """The program `nfd-rule`, started with the first question."""

    def __init__(self, program: Path) -> None:
        """Prepare; nothing runs yet."""
        self._program = program
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._said: dict[str, tuple[bytes, Answer]] = {}
        self.asked = 0
        """How many questions went to the program."""

    async def node(self, name: str, rules: bytes, reports: Sequence[Report]) -> tuple[Answer, bool]:
        """What the rules (a list in JSON) give a node for its reports; whether that had to be asked."""
        key = hashlib.sha256(b"\n".join([rules, *(report.spec.packed for report in reports)])).digest()
        known = self._said.get(name)
        if known is not None and known[0] == key:
            return known[1], False
        answer = await self.ask(rules, [report.spec.unpacked for report in reports])
        self._said[name] = (key, answer)
        return answer, True

    def forget(self, name: str) -> None:
        """A node that is gone."""
        self._said.pop(name, None)

    async def ask(self, rules: bytes, specs: Sequence[bytes]) -> Answer:
        """What the rules give for the specs of NodeFeatures, all as JSON; raises UserError."""
        line = b'{"rules":' + rules + b',"specs":[' + b",".join(specs) + b"]}\n"
        async with self._lock:
            self.asked += 1
            text = await self._exchange(line) or await self._exchange(line)
        if not text:
            raise UserError(f"{self._program} gives no answer", expected="one line for each line", do="run it by hand")
        said = orjson.loads(text)
        if said["labels"] is None:
            raise UserError(f"{self._program}: {'; '.join(said['errors'])}")
        return Answer(said["labels"], tuple(said["errors"]))

    async def _exchange(self, line: bytes) -> bytes:
        """One line there and one back; nothing where the process has died."""
        process = self._process
        try:
            if process is None or process.returncode is not None:
                process = self._process = await self._start()
            if process.stdin is None or process.stdout is None:
                return b""
            process.stdin.write(line)
            await process.stdin.drain()
            text = await process.stdout.readline()
        except (BrokenPipeError, ConnectionResetError):
            text = b""
        except BaseException:
            # Cancelled between question and answer: the next one would read this one's answer.
            await self._end()
            raise
        if not text.endswith(b"\n"):
            await self._end()
            return b""
        return text

    async def _start(self) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                self._program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=LONGEST
            )
        except OSError as error:
            raise UserError(f"cannot start {self._program}: {error.strerror}") from error

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def close(self) -> None:
        """End the process."""
        async with self._lock:
            await self._end()
