"""A client of the library in a process of its own, as pynvml loads one library for a process's life."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from sim.nvml import build, environment

PREAMBLE = """
import json, os, sys, threading, time
from pathlib import Path
import pynvml as n

config = Path(os.environ["FAKE_NVML_CONFIG"])

def ask(function, *args):
    '''What a function answers; the error's number where it fails.'''
    try:
        return function(*args)
    except n.NVMLError as error:
        return {"error": error.value}

def replace(text):
    '''Put another configuration in place, as an administrator's editor does.'''
    fresh = config.with_suffix(".new")
    fresh.write_text(text)
    fresh.rename(config)

def everywhere(function, *args):
    '''The answers of all devices.'''
    return [ask(function, n.nvmlDeviceGetHandleByIndex(i), *args) for i in range(n.nvmlDeviceGetCount())]

def fields(structure):
    return {name: (value.decode() if isinstance(value := getattr(structure, name), bytes) else value)
            for name, *_ in structure._fields_}

out = None
"""


def run(config: Path, code: str, *, init: bool = True, timeout: float = 180, check: bool = True) -> tuple[Any, str]:
    """Run a client's code; returns what it left in `out`, and what it wrote to standard error."""
    start = "n.nvmlInit()\n" if init else ""
    script = f"{PREAMBLE}{start}{textwrap.dedent(code)}\nprint(json.dumps(out, default=bytes.decode))\n"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment(build(), config)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None, done.stderr
