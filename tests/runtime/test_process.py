"""Whole processes of the operating system: leadership, orderly and disorderly ends, logs, health."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson
import pytest

from controllers.api.resources import LEASE
from controllers.runtime.errors import NotFound
from controllers.runtime.process import EXIT_CLOCK_JUMPED
from reliability.kit.fault_proxy import reads_of, writes_to
from tests.kit.pace import Stretch
from tests.kit.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from controllers.runtime.client import Client
    from reliability.kit.fault_proxy import Exchange, FaultProxy
    from tests.runtime.helpers import Space

ROOT = Path(__file__).parents[2]
RETRY = 0.4
LONG, SHORT = (60.0, 50.0), (8.0, 4.0)
"""Seconds: a lease's duration and the deadline of its holder. A long one is not lost on a busy machine, and nobody
waits until it runs out; between deadline and end of a short one a write that was on its way has four seconds."""
DURATION, DEADLINE = SHORT
LATE = 1.0
"""Seconds that starting a request, or ending, takes beside what is waited for."""
LEASES = writes_to("leases")
MOVABLE_CLOCK = ROOT / "reliability" / "kit" / "clock"


class Started:
    """A worker process."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, folder: Path) -> None:
        self.name, self.process, self.folder = name, process, folder

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    @property
    def logs(self) -> list[dict[str, Any]]:
        """Every line, each of which must be an object."""
        return [orjson.loads(line) for line in self.out.splitlines()]

    def said(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.logs if line["event"] == event]

    async def saying(self, event: str) -> dict[str, Any]:
        await until(lambda: self.said(event) or self.process.returncode is not None, f"{self.name} to say {event!r}")
        assert self.said(event), self.out + self.err
        return self.said(event)[0]

    async def ended(self) -> int:
        return await asyncio.wait_for(self.process.wait(), PATIENCE)

    async def ask(self, path: str) -> tuple[int, str]:
        at = (await self.saying("started"))["health"]
        async with aiohttp.ClientSession() as session, session.get(f"http://{at}{path}") as answer:
            return answer.status, await answer.text()

    def wrote(self, proxy: FaultProxy) -> list[Exchange]:
        """Its writes, other than of leases and events."""
        return [e for e in proxy.writes if e.agent == self.name]

    def renewed(self, proxy: FaultProxy) -> list[Exchange]:
        return [e for e in proxy.seen(LEASES) if e.agent == f"{self.name}/lease" and e.status in (200, 201)]


@pytest.fixture
async def start(space: Space, through_proxy: Path, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Start workers; those that are left at the end are killed."""
    started: list[Started] = []

    async def begin(
        name: str,
        *flags: str,
        kubeconfig: Path = through_proxy,
        lease: bool = True,
        times: tuple[float, float] = LONG,
        clock: Path | None = None,
    ) -> Started:
        folder = tmp_path / name
        folder.mkdir()
        argv = [f"--kubeconfig={kubeconfig}", f"--namespace={space.name}", "--health-port=0", *flags]
        argv += [f"--lease-duration={times[0]}", f"--renew-deadline={times[1]}", f"--retry-period={RETRY}"]
        argv += ["--lease=leader"] if lease else []
        env = {**os.environ, "PYTHONPATH": str(MOVABLE_CLOCK), "FAULTS_CLOCK": str(clock)} if clock else None
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.runtime.worker", name, *argv, stdout=out, stderr=err, cwd=ROOT, env=env
            )
        started.append(Started(name, process, folder))
        return started[-1]

    yield begin
    for one in started:
        with suppress(ProcessLookupError):
            one.process.kill()
        await one.process.wait()


async def leading(one: Started, proxy: FaultProxy) -> None:
    """Wait until it leads and writes."""
    await one.saying("leading")
    await until(lambda: one.wrote(proxy), f"a write of {one.name}")


async def holder(admin: Client, space: Space) -> str | None:
    with suppress(NotFound):
        spec = orjson.loads(await admin.get(LEASE, "leader", space.name))["spec"]
        return str(spec.get("holderIdentity", ""))
    return None


def holder_in(write: Exchange) -> str:
    """Who holds a lease by the request that writes it."""
    return str(orjson.loads(write.body)["spec"]["holderIdentity"])


def only_one_writer(proxy: FaultProxy, first: Started, second: Started) -> None:
    """Everything that the first wrote came before anything of the second."""
    assert max(e.at for e in first.wrote(proxy)) < min(e.at for e in second.wrote(proxy))


# --- leadership -----------------------------------------------------------------------------


async def test_a_killed_leader_is_succeeded_in_time(start: Any, proxy: FaultProxy) -> None:
    first = await start("first", "--beat", times=SHORT)
    await leading(first, proxy)
    second = await start("second", "--beat", times=SHORT)
    await second.saying("caches are filled")
    with Stretch() as machine:
        first.process.kill()
        killed = time.monotonic()
        await until(lambda: second.wrote(proxy), "the successor to write")
    last = first.renewed(proxy)[-1].at
    assert second.wrote(proxy)[0].at - last > DURATION
    only_one_writer(proxy, first, second)
    machine.judge("the succession", second.wrote(proxy)[0].at - killed, DURATION + 1.2 * RETRY + LATE)


@pytest.mark.parametrize("successor", [True, False])
async def test_a_stopped_leader_writes_nothing_when_it_goes_on(start: Any, proxy: FaultProxy, successor: bool) -> None:
    """Also where nobody has taken the lease over: what it knows is from another time."""
    first = await start("first", "--beat", times=SHORT)
    await leading(first, proxy)
    if successor:
        second = await start("second", "--beat", times=SHORT)
        await second.saying("caches are filled")
    os.kill(first.process.pid, signal.SIGSTOP)
    stopped = time.monotonic()
    if successor:
        await until(lambda: second.wrote(proxy), "the successor to write")
    else:
        await until(lambda: time.monotonic() - stopped > DURATION, "the lease to run out")
    went_on = time.monotonic()
    os.kill(first.process.pid, signal.SIGCONT)
    assert await first.ended() == 3
    assert not [e for e in first.wrote(proxy) if e.at > went_on]
    assert not [e for e in first.renewed(proxy) if e.at > went_on]
    assert first.err == ""
    if successor:
        only_one_writer(proxy, first, second)


@pytest.mark.parametrize("how", ["refuses", "hangs"])
async def test_a_leader_that_cannot_renew_steps_down(start: Any, proxy: FaultProxy, how: str) -> None:
    one = await start("one", "--beat", times=SHORT)
    await leading(one, proxy)
    match = lambda e: e.resource == "leases"  # noqa: E731
    with Stretch() as machine:
        gate = proxy.gate(match) if how == "hangs" else proxy.fail(match, 500)
        assert await one.ended() == 3
    ended, last = time.monotonic(), one.renewed(proxy)[-1].at
    if isinstance(gate, asyncio.Event):
        gate.set()
    wrote = max(e.at for e in one.wrote(proxy))
    # Another may write when the lease has run out; what the machine held up is not the process's.
    assert wrote - last - machine.delay < DURATION
    machine.judge("the last write, counted from the last renewal,", wrote - last, DEADLINE + 0.1)
    machine.judge("its end, counted from there,", ended - last, DURATION + LATE)


async def test_a_lease_deleted_by_hand_is_made_anew_by_its_holder(
    start: Any, proxy: FaultProxy, admin: Client, space: Space
) -> None:
    first = await start("first", "--beat")
    await leading(first, proxy)
    before = await holder(admin, space)
    second = await start("second", "--beat")
    await second.saying("caches are filled")
    # Its second look is sent when the first is answered. One that never saw the holder's record may take
    # a lease that is gone.
    looks = lambda: len(proxy.seen(lambda e: e.agent == "second/lease"))  # noqa: E731
    await until(lambda: looks() > 1, "the second to have seen the lease")
    count = len(first.renewed(proxy))
    await admin.request("DELETE", LEASE.path(space.name, "leader"))
    await until(lambda: len(first.renewed(proxy)) > count + 3, "renewals of the first")
    assert await holder(admin, space) == before
    assert second.wrote(proxy) == []
    assert first.process.returncode is None


async def test_work_that_raises_ends_the_process_and_gives_the_lease_back(
    start: Any, proxy: FaultProxy, admin: Client, space: Space
) -> None:
    first = await start("first", "--beat")
    await leading(first, proxy)
    second = await start("second", "--beat")
    await second.saying("caches are filled")
    await space.put("boom")
    assert await first.ended() == 1
    await second.saying("leading")
    assert holder_in(first.renewed(proxy)[-1]) == "", "it was given back, and had not to run out"
    assert "ZeroDivisionError: boom" in first.said("ended by an error")[0]["exception"]
    assert first.err == ""


async def test_an_api_server_away_for_longer_than_the_lease(start: Any, proxy: FaultProxy, space: Space) -> None:
    """The leader ends, since it cannot know; a process without a lease waits, and goes on."""
    leader = await start("leader", "--beat", times=SHORT)
    other = await start("other", lease=False)
    await leading(leader, proxy)
    await other.saying("caches are filled")
    await proxy.down()
    assert await leader.ended() == 3
    await space.put("in-a", v="1")
    await proxy.up()
    await until(lambda: len(other.wrote(proxy)) == 2, "the other to go on")
    assert other.process.returncode is None


# --- orderly ends ---------------------------------------------------------------------------


async def test_sigterm_finishes_what_is_in_hand_and_hands_over_at_once(
    start: Any, proxy: FaultProxy, admin: Client, space: Space
) -> None:
    halves = proxy.gate(lambda e: writes_to("configmaps")(e) and e.agent == "first" and b'"2"' in e.body)
    first = await start("first")
    await first.saying("leading")
    second = await start("second")
    await second.saying("caches are filled")
    assert await first.ask("/readyz") == (200, "ok\n")
    await space.put("in-a", v="1")
    await space.put("in-b", v="1")
    await space.put("in-c", v="1")
    await until(lambda: len(first.wrote(proxy)) == 4, "two reconciliations to be half done")
    first.process.terminate()
    await first.saying("stopping")
    assert await first.ask("/readyz") == (503, "not ready: not stopping\n")
    assert (await first.ask("/healthz"))[0] == 200
    halves.set()
    assert await first.ended() == 0
    assert len(first.wrote(proxy)) == 4, "both were finished, and the third was not begun"
    await second.saying("leading")
    assert holder_in(first.renewed(proxy)[-1]) == "", "it was given back, and had not to run out"
    await until(lambda: len(second.wrote(proxy)) >= 2, "the successor to go on")
    notes = proxy.seen(lambda e: e.resource == "events" and e.agent == "first")
    assert len(notes) == 2, "events are sent before the lease is given back"
    only_one_writer(proxy, first, second)
    assert first.err == second.err == ""


async def test_a_lease_is_given_back_though_the_api_server_takes_its_time(
    start: Any, proxy: FaultProxy, admin: Client, space: Space
) -> None:
    one = await start("one", "--beat")
    await leading(one, proxy)
    gate = proxy.gate(reads_of("leases", "get"))
    one.process.terminate()
    await one.saying("stopping")
    await asyncio.sleep(3 * RETRY)  # longer than it waits between two renewals, and shorter than for one
    gate.set()
    assert await one.ended() == 0
    assert await holder(admin, space) == ""


@pytest.mark.parametrize("by", [600, -600])
async def test_a_wall_clock_that_jumps_ends_the_process_in_order(
    start: Any, proxy: FaultProxy, admin: Client, space: Space, tmp_path: Path, by: int
) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0")
    one = await start("one", "--beat", clock=clock)
    await leading(one, proxy)
    clock.write_text(str(by))
    assert await one.ended() == EXIT_CLOCK_JUMPED
    (line,) = one.said("ending, so that a fresh start notes all times anew")
    assert f"{by:+d} s" in line["error"]
    assert await holder(admin, space) == ""
    assert one.err == ""


async def test_a_clock_that_is_steered_ends_nothing(start: Any, proxy: FaultProxy, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("0")
    one = await start("one", "--beat", clock=clock)
    await leading(one, proxy)
    for off in range(1, 4):  # within more than one look of the watcher each, together less than a jump
        clock.write_text(str(off))
        known = len(one.wrote(proxy))
        await until(lambda known=known: len(one.wrote(proxy)) > known + 20, "it to go on writing")
    assert one.process.returncode is None


async def test_sigterm_while_another_leads_or_while_starting(start: Any, proxy: FaultProxy) -> None:
    gate = proxy.gate(reads_of("configmaps", "list"))
    syncing = await start("syncing")
    await syncing.saying("started")
    assert (await syncing.ask("/readyz"))[0] == 503
    syncing.process.terminate()
    assert await syncing.ended() == 0
    gate.set()
    first = await start("first", "--beat")
    await leading(first, proxy)
    waiting = await start("waiting")
    await waiting.saying("caches are filled")
    assert (await waiting.ask("/readyz"))[0] == 200
    waiting.process.terminate()
    assert await waiting.ended() == 0
    assert waiting.wrote(proxy) == []


# --- what a person sees ---------------------------------------------------------------------


def wrong_kubeconfig(path: Path, case: str, good: Path) -> Path:
    texts = {
        "garbage": "{{{",
        "empty": "",
        "a list": "[1, 2]",
        "no such certificate": good.read_text().replace("ca.crt", "no-such.crt"),
    }
    if case == "a folder":
        path.mkdir()
    elif case in texts:
        path.write_text(texts[case])
    return path


@pytest.mark.parametrize("case", ["missing", "garbage", "empty", "a list", "no such certificate", "a folder"])
async def test_a_wrong_kubeconfig_is_one_sentence(start: Any, tmp_path: Path, case: str, through_proxy: Path) -> None:
    path = wrong_kubeconfig(tmp_path / "kubeconfig", case, through_proxy)
    one = await start("one", kubeconfig=path)
    assert await one.ended() == 2
    assert one.err.startswith(f"one: cannot use {path}: ")
    assert one.err.count("\n") == 1
    assert "Traceback" not in one.err + one.out


async def test_a_port_in_use_is_one_sentence(start: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        one = await start("one", f"--health-port={port}")
        assert await one.ended() == 2
    assert one.err.startswith(f"one: cannot listen on 127.0.0.1:{port}: ")
    assert one.err.count("\n") == 1
    assert "Traceback" not in one.err + one.out


async def test_logs_are_one_object_a_line_with_the_key_bound(start: Any, space: Space, proxy: FaultProxy) -> None:
    one = await start("one", lease=False)
    await space.put("in-a", v="1")
    line = await one.saying("copying")
    assert line["process"] == "one"
    assert line["controller"] == "copy"
    assert line["key"] == f"{space.name}/in-a"
    assert line["level"] == "info"
    assert len(line["reconcile"]) == 8
    proxy.fail(writes_to("configmaps"), 500, times=1)
    await space.put("in-a", v="2")
    failed = await one.saying("the API server refused or did not answer")
    assert (failed["key"], failed["level"]) == (f"{space.name}/in-a", "warning")
    assert "key" not in (await one.saying("started"))
    assert one.logs  # all lines parse
    assert one.err == ""


async def test_health_and_metrics(start: Any, space: Space, proxy: FaultProxy) -> None:
    gate = proxy.gate(reads_of("configmaps", "list"), times=1)
    one = await start("one", "--beat")
    assert await one.ask("/healthz") == (200, "ok\n")
    assert await one.ask("/readyz") == (503, "not ready: cache of configmaps\n")
    gate.set()
    await leading(one, proxy)
    assert await one.ask("/readyz") == (200, "ok\n")
    await space.put("in-a", v="1")
    await space.put("block")
    text, worst, deadline = "", 0.0, time.monotonic() + PATIENCE
    while worst < 0.25 or 'gpu_reconciles_total{controller="copy",result="ok"}' not in text:
        assert time.monotonic() < deadline, text
        text = (await one.ask("/metrics"))[1]
        worst = max(worst, _value(text, STALL))
    assert _value(text, 'gpu_leader{lease="leader"}') == 1
    assert _value(text, 'gpu_cached_objects{kind="ConfigMap"}') >= 1
    assert _value(text, 'gpu_writes_total{kind="ConfigMap",verb="apply"}') >= 2
    assert _value(text, 'gpu_lists_total{kind="ConfigMap"}') == 1
    assert _value(text, "gpu_event_loop_tasks") >= 5, "work, signals, events, health, and this answer"

    async def calm() -> bool:
        return _value((await one.ask("/metrics"))[1], STALL) < 0.25

    await until(calm, "a scrape that tells of no stall: each tells what was since the last")


STALL = "gpu_event_loop_stall_seconds"


def _value(text: str, name: str) -> float:
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + " "))


async def test_an_idle_process_asks_for_nothing_but_its_lease(start: Any, space: Space, proxy: FaultProxy) -> None:
    await space.put("in-a", v="1")
    one = await start("one")
    await until(lambda: len(one.wrote(proxy)) == 2, "the work to be done")
    await until(lambda: proxy.seen(lambda e: e.resource == "events" and e.status == 201), "its event to be sent")
    # Our own writes come back as events of the watch, which must not lead to others.
    count, renewed = len(proxy.trace), len(one.renewed(proxy))
    await until(lambda: len(one.renewed(proxy)) >= renewed + 6, "six renewals")
    assert {e.resource for e in proxy.trace[count:]} == {"leases"}
    assert len(proxy.streams(reads_of("configmaps"))) == 1
