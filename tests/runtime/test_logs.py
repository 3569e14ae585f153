"""Every line on standard output is one JSON object, whoever logs and whatever is in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson

PROGRAM = """
import asyncio, gc, logging, structlog
from controllers.runtime import logs

logs.configure("tested", "Info")
log = structlog.get_logger()
log.debug("not shown")
log.info("odd", text="line\\nline", number=2**80, surrogate="\\ud800", thing=object(), keys={1: 2})
logging.getLogger("library").warning('say "%s"', "it's\\n")
logging.getLogger("library").info("not shown")

async def forgotten():
    async def fail():
        raise ZeroDivisionError("nobody looks")
    task = asyncio.create_task(fail())
    await asyncio.sleep(0)
    await asyncio.sleep(0)

asyncio.run(forgotten())
gc.collect()
logs.configure("tested", "Error")
log.info("not shown")
"""


def test_one_object_a_line() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=False, cwd=Path(__file__).parents[2]
    )
    assert done.returncode == 0, done.stderr.decode()
    odd, library, forgotten = (orjson.loads(line) for line in done.stdout.splitlines())
    assert done.stderr == b""
    assert (odd["event"], odd["text"], odd["process"], odd["level"]) == ("odd", "line\nline", "tested", "info")
    assert (library["event"], library["logger"], library["level"]) == ('say "it\'s\n"', "library", "warning")
    assert "never retrieved" in forgotten["event"]
    assert "ZeroDivisionError: nobody looks" in forgotten["exception"]
