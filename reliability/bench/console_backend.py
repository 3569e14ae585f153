"""The console's backend under measurement: `kubectl gpu console` under an administrator's kubeconfig."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reliability.bench.subject import LOG_LOOK, START_SECONDS, Subject
from sim.controlplane import ProcessSpec
from sim.controlplane.client import log_tail
from sim.controlplane.layout import Layout
from sim.controlplane.ports import free_ports
from sim.module.install import ROOT
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reliability.bench.environment import Environment

NAME = "console"
FRAGMENT = "/#token="


@dataclass(frozen=True, slots=True)
class Backend:
    """One that serves, and what its address and secret are."""

    subject: Subject
    url: str
    token: str


@asynccontextmanager
async def running_backend(environment: Environment) -> AsyncIterator[Backend]:
    """A backend until the end of the block; raises UserError."""
    (port,) = free_ports(1)
    kubeconfig = environment.plane.kubeconfig
    command = ("console", f"--kubeconfig={kubeconfig}", "--no-browser", f"--port={port}")
    spec = ProcessSpec(
        name=NAME,
        argv=(sys.executable, "-m", "kubectl_gpu", *command),
        env={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        ports={"health": port},
        stage=5,
    )
    subject = await asyncio.to_thread(Subject.start, environment.plane.dir, spec, wait=False)
    try:
        yield await _serving(subject)
    finally:
        await asyncio.to_thread(subject.stop)


async def _serving(subject: Subject) -> Backend:
    """Wait until it has printed its address."""
    log, limit = Layout.of(subject.folder).log(subject.name), time.monotonic() + START_SECONDS
    while True:
        lines = log.read_text().splitlines()
        found = next((line for line in lines if FRAGMENT in line), None)
        if found is not None:
            url, _, token = found.partition(FRAGMENT)
            return Backend(subject, url, token.strip())
        subject.check()
        if time.monotonic() > limit:
            tail = log_tail(Layout.of(subject.folder), subject.name)
            raise UserError(f"the console has not printed its address after {START_SECONDS:.0f} s:\n{tail}")
        await asyncio.sleep(LOG_LOOK)
