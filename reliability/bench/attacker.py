"""`python -m reliability.bench.attacker SPEC`: an attacker as a process of its own, until SIGTERM; then prints counts.

SPEC is a JSON object. For each of `urls` it posts `body` in `at_once` loops; to each of `ports` it holds `at_once`
TLS connections open and says nothing on them, and opens those that are ended anew. It begins back to back, or
`a_second` of all that together. The last line on its output counts the answers by status, or the connections.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from sim.controlplane import ProcessSpec, Ready
from sim.module.install import ROOT
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Work = Callable[[], Coroutine[Any, Any, None]]

NAME = "attacker"
HOST = "127.0.0.1"
JSON = {"Content-Type": "application/json"}


@dataclass(frozen=True, slots=True)
class Attack:
    """What one process does."""

    began: str
    """A file that is made when each of its loops has done its work once."""
    at_once: int
    a_second: float
    """0: back to back."""
    urls: tuple[str, ...] = ()
    headers: dict[str, str] = field(default_factory=dict)
    body: str = ""
    """A file."""
    ports: tuple[int, ...] = ()


def process(attack: Attack) -> ProcessSpec:
    """How it is started."""
    argv = (sys.executable, "-m", "reliability.bench.attacker", json.dumps(asdict(attack)))
    ready = Ready(files=(attack.began,))
    return ProcessSpec(name=NAME, argv=argv, env={"PYTHONPATH": str(ROOT)}, ready=ready, restart="never", stage=5)


def did(log: Path) -> dict[str, int]:
    """What it says at its end; raises UserError where it said nothing."""
    lines = log.read_text().splitlines()
    try:
        found: dict[str, int] = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        raise UserError(f"the attacker ended before it was told to:\n{''.join(lines[-5:])}") from error
    return found


async def _posts(attack: Attack, done: Counter[str]) -> None:
    body = await asyncio.to_thread(Path(attack.body).read_bytes)
    connector = aiohttp.TCPConnector(ssl=_anybody(), limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:

        async def one(url: str) -> None:
            async with session.post(url, data=body, headers=attack.headers) as answer:
                await answer.read()
            _count(attack, done, str(answer.status))

        await _loops([partial(one, url) for url in attack.urls], attack, done)


async def _connections(attack: Attack, done: Counter[str]) -> None:
    tls = _anybody()

    async def one(port: int) -> None:
        reader, writer = await asyncio.open_connection(HOST, port, ssl=tls)
        _count(attack, done, "opened")
        try:
            await reader.read()
        finally:
            writer.close()

    await _loops([partial(one, port) for port in attack.ports], attack, done)


def _count(attack: Attack, done: Counter[str], what: str) -> None:
    done[what] += 1
    if done.total() == attack.at_once * (len(attack.urls) + len(attack.ports)):
        Path(attack.began).touch()


async def _loops(works: list[Work], attack: Attack, done: Counter[str]) -> None:
    """Do each again and again, all together no more often than `a_second`."""
    loop, gap = asyncio.get_running_loop(), 1 / attack.a_second if attack.a_second else 0.0
    due = loop.time()

    async def again(work: Work) -> None:
        nonlocal due
        while True:
            due = max(due + gap, loop.time())
            await asyncio.sleep(due - loop.time())
            try:
                await work()
            except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
                _count(attack, done, type(error).__name__)

    await asyncio.gather(*(again(work) for work in works for _ in range(attack.at_once)))


def _anybody() -> ssl.SSLContext:
    """Trusts whoever answers: it wants nothing of them."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


def _last() -> None:
    """Take what the others leave of the machine: a real attacker has a machine of its own."""
    os.nice(19)
    with suppress(OSError):  # a kernel that shares the machine by sessions first (sched_autogroup)
        Path("/proc/self/autogroup").write_text("19")


async def _run(attack: Attack) -> None:
    done = Counter[str]()
    work = asyncio.create_task(_posts(attack, done) if attack.urls else _connections(attack, done))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        print(json.dumps(done), flush=True)


if __name__ == "__main__":
    _last()
    asyncio.run(_run(Attack(**json.loads(sys.argv[1]))))
