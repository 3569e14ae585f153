"""The two programs: they look, write, and look again, until nothing is left to do or their time is over."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from contextlib import suppress
from itertools import groupby
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import CRD
from controllers.domain.wording import listed
from controllers.install import cleanup, definitions, leftovers
from controllers.install.cluster import Cluster
from controllers.runtime.errors import Busy, Conflict, Forbidden, NotFound, Retry, Unreachable
from controllers.runtime.events import Recorder
from controllers.runtime.executor import Executor
from controllers.runtime.plan import Apply, Delete, Merge, Ref

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from controllers.runtime.client import Client
    from controllers.runtime.plan import Action

PERIOD = 1.0
"""Seconds between two looks while somebody else is waited for."""
PASSING = (Busy, Conflict, Retry, Unreachable)
"""What may be otherwise in a moment: the API server may be on its way up, or somebody else wrote."""
RIGHTS = 10.0
"""Seconds for which Forbidden may pass, too: an API server learns of new roles by watch."""


def write_log(line: str) -> None:
    """Tell the person who reads the Job's log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


async def repeat(step: Callable[[], Awaitable[bool | str]], patience: float) -> bool:
    """Call `step` until it returns True or False; False too once the time is over. A sentence: why to call it again."""
    began, last = time.monotonic(), ""
    while True:
        try:
            found = await step()
        except PASSING as error:
            found = f"the API server: {error}"
        except Forbidden as error:
            if time.monotonic() - began > RIGHTS:
                raise
            found = f"the API server: {error}"
        if isinstance(found, bool):
            return found
        if found and found != last:
            write_log(f"waiting: {found}")
        last = found
        if time.monotonic() - began > patience:
            write_log(f"giving up after {patience:g} s; still waiting: {found}")
            return False
        await asyncio.sleep(PERIOD if found else 0)


def _executor(client: Client, manager: str) -> Executor:
    return Executor(client, manager, Recorder(client, manager, socket.gethostname()))


async def install(client: Client, patience: float, *, allow_downgrade: bool) -> bool:
    """Put the definitions in place; returns whether all are served."""
    cluster, executor, want = Cluster(client), _executor(client, names.MANAGER_CRDS), definitions.wanted()
    written: set[str] = set()

    async def step() -> bool | str:
        there = {name: await cluster.definition(name) for name in want}
        verdicts = {
            name: definitions.evaluate_definition(there[name], body, allow_downgrade=allow_downgrade)
            for name, body in want.items()
        }
        if refused := [verdict.reason for verdict in verdicts.values() if verdict.refused]:
            write_log("refused, and nothing was changed: " + " ".join(refused))
            return False
        if leaving := [verdict.reason for verdict in verdicts.values() if verdict.is_waiting]:
            return listed(leaving)
        for name, verdict in verdicts.items():
            if name in written:
                continue
            if verdict.write:
                await executor.execute((Apply(Ref(CRD, name), want[name]),))
                there[name] = await cluster.definition(name)
            write_log(f"{name}: {verdict.reason or 'applied'}")
            written.add(name)
        late = [name for name, found in there.items() if not definitions.is_established(found)]
        return f"{listed(late)} to be served" if late else True

    return await repeat(step, patience)


async def clean(client: Client, patience: float, *, keep_records: bool) -> bool:
    """Clean up; returns whether nothing is left to do."""
    cluster, executor = Cluster(client), _executor(client, names.MANAGER_CLEANUP)
    early: dict[str, None] = {}

    async def step() -> bool | str:
        seen = await cluster.observe()
        early.update(dict.fromkeys(leftovers.list_early_leftovers(seen)))
        found = cleanup.plan(seen, keep_records=keep_records)
        if found.done:
            for sentence in (*early, *found.left):
                write_log(f"left: {sentence}")
            write_log("done")
            return True
        done: list[Action] = []
        try:
            for action in found.actions:
                with suppress(NotFound):  # a pod, or another object, that somebody has deleted since we looked
                    await executor.execute((action,))
                    done.append(action)
        finally:
            for line in describe_actions(done):
                write_log(line)
        return listed(found.waiting_for) if not found.actions else ""

    return await repeat(step, patience)


def describe_actions(actions: Iterable[Action]) -> list[str]:
    """What was done, in words: one line for each kind of object."""
    done = [action for action in actions if isinstance(action, (Delete, Merge))]
    return [
        f"{verb} {kind}: {listed(_called(action) for action in group)}"
        for (verb, kind), group in groupby(done, key=_what)
    ]


def _called(action: Delete | Merge) -> str:
    """An object's name, with its namespace where that is not the module's."""
    ref = action.ref
    return ref.name if ref.namespace in (None, names.NAMESPACE) else f"{ref.namespace}/{ref.name}"


def _what(action: Delete | Merge) -> tuple[str, str]:
    return "deleted" if isinstance(action, Delete) else "took our marks off", action.ref.resource.kind
