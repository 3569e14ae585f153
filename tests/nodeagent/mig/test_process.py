"""The real manager as a process: one apply a node, deaths, hangs, and the command line."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.domain.mig import DISABLED, CardLayout
from tests.nodeagent.command import run

if TYPE_CHECKING:
    from tests.nodeagent.mig.drivers import Real

cluster = pytest.mark.cluster
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
clusters: [{name: it, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: it, user: {token: t}}]
contexts: [{name: it, context: {cluster: it, user: it}}]
"""
PASSES = 'gpu_reconciles_total{controller="mig-manager"'
SEVEN, THREE = CardLayout(True, {"1g.5gb": 7}), CardLayout(True, {"2g.10gb": 3})


async def ends(real: Real, version: str, phase: str, number: int = 0) -> None:
    try:
        await real.ground.world.until(lambda: real.ground.phase(number), (version, phase))
    except AssertionError as error:
        raise AssertionError(f"{error}\n{real.log}") from None


@cluster
async def test_managers_of_two_pools_make_one_apply(real: Real) -> None:
    world = real.ground.world
    real.cards.change(in_use=[world.addresses[2]])
    first, second = await real.ground.want(SEVEN, 0), await real.ground.want(THREE, 1)
    await real.start("alpha")
    await real.start("beta")
    await ends(real, first, "Done", 0)
    await ends(real, second, "Done", 1)
    for agent in real.agents.values():
        await agent.until(agent.ready, "both to be ready")
    state = real.cards.read()
    cards = [world.addresses[0], world.addresses[1]]
    assert [entry for entry in state["log"] if entry[0] == "apply"] == [["apply", True, cards], ["apply", False, cards]]
    assert state["touched"] == []


@cluster
async def test_at_rest_nothing_is_written_or_asked(real: Real) -> None:
    await real.start("alpha")
    await ends(real, await real.ground.want(SEVEN), "Done")
    agent = real.agents["alpha"]
    readings, writes = await agent.metric("gpu_nodeagent_driver_readings_total"), await agent.writes()
    assert writes == 3
    assert peak_mib(agent.process.pid) < 100
    passes = await agent.metric(PASSES)
    await real.ground.world.status(names.BOOTSTRAP, 0, {"health": {"temperatureC": 40}})

    async def woken() -> bool:
        return await agent.metric(PASSES) > passes

    await agent.until(woken, "the change to be seen")
    assert await agent.metric("gpu_nodeagent_driver_readings_total") == readings
    assert await agent.writes() == writes


@cluster
async def test_a_driver_that_is_loaded_anew_is_noticed_by_the_manager_that_runs_on(real: Real) -> None:
    await real.start("alpha")
    version = await real.ground.want(SEVEN)
    await ends(real, version, "Done")
    first = await real.ground.said()
    await real.load_driver()  # nobody writes to the card
    await ends(real, version, "Lost")
    lost = await real.ground.said()
    assert first is not None
    assert lost is not None
    assert first.boot_id == lost.boot_id != ""
    assert first.driver_load != lost.driver_load


@cluster
async def test_killed_in_the_middle_while_its_program_lives_on(real: Real) -> None:
    """The next manager keeps out until the program that it left behind has ended, and then goes on."""
    hangs = f"hang:create:{real.ground.world.addresses[0]}:1g.5gb"
    real.cards.change(faults=[hangs])
    version = await real.ground.want(SEVEN)
    await real.start("alpha")
    await real.agents["alpha"].until(lambda: dividing(real), "the instances to be begun")
    left = real.at_the_cards()
    assert len(left) == 1
    await real.crash()
    agent = real.agents["alpha"]

    async def kept_out() -> bool:
        return await agent.metric(PASSES) >= 3

    await agent.until(kept_out, "the next manager to find the lock taken again and again")
    assert real.at_the_cards() == left, "a second program came to the cards"
    assert (await real.ground.phase())[1] == "Applying"
    os.kill(left[0], signal.SIGKILL)
    real.cards.change(faults=[])
    await ends(real, version, "Done")
    assert await real.divided() == SEVEN


@cluster
async def test_a_program_that_hangs_is_killed_and_the_card_put_back(real: Real) -> None:
    real.flags = ("--program-deadline=10",)
    real.cards.change(faults=[f"hang:create:{real.ground.world.addresses[0]}:1g.5gb"])
    await real.start("alpha")
    await ends(real, await real.ground.want(SEVEN), "Failed")
    said = await real.ground.said()
    assert said is not None
    assert "did not end in 10 s" in (said.reason or "")
    assert real.at_the_cards() == []
    assert await real.divided() == DISABLED


@cluster
async def test_told_to_end_it_finishes_the_work(real: Real) -> None:
    address = real.ground.world.addresses[0]
    real.cards.change(faults=[f"hang:create:{address}:1g.5gb"])
    real.flags = ("--program-deadline=10",)
    version = await real.ground.want(SEVEN)
    await real.start("alpha")
    agent = real.agents.pop("alpha")
    await agent.until(lambda: dividing(real), "the instances to be begun")
    assert await asyncio.to_thread(agent.end) == 0
    assert await real.ground.phase() == (version, "Failed"), "the end of the work was told before the process's"
    assert await real.divided() == DISABLED


@cluster
async def test_an_open_gate_keeps_a_reset_waiting(real: Real) -> None:
    """No pod is there at the moment, and bootstrap has not closed its gate: one may come any time."""
    await real.ground.gate("dcgm", opened=True)
    await real.start("alpha")
    version = await real.ground.want(SEVEN)
    await ends(real, version, "Waiting")
    as_it_is = await real.ground.want(DISABLED, 1)
    await ends(real, as_it_is, "Done", 1)
    assert await real.ground.phase() == (version, "Waiting")
    await real.ground.gate("dcgm", opened=False)
    await ends(real, version, "Done")


def peak_mib(pid: int) -> float:
    """Peak memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


async def dividing(real: Real) -> bool:
    """Whether the second apply, that of the instances, is under way."""
    return ["apply", False, [real.ground.world.addresses[0]]] in real.cards.read()["log"]


def test_help_tells_flags_and_exit_statuses() -> None:
    status, text = run("mig-manager", "--help")
    assert status == 0
    for flag in ("--pool", "--state-dir", "--mig-parted", "--nvidia-smi", "--clients-deadline", "--program-deadline"):
        assert flag in text
    assert "Ends with status 0" in text


@pytest.mark.parametrize(
    ("flags", "why"),
    [((), "--pool"), (("--pool", "a/b"), "invalid pool value"), (("--pool=p", "--program-deadline=0"), "invalid")],
)
def test_wrong_flags(flags: tuple[str, ...], why: str) -> None:
    status, text = run("mig-manager", *flags)
    assert status == 2
    assert why in text


def test_what_it_cannot_work_with(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(KUBECONFIG)
    status, text = run("mig-manager", "--pool=p", f"--kubeconfig={config}", "--health-port=0")
    assert (status, "which node" in text) == (2, True), text
    folder = config / "under-a-file"
    status, text = run(
        "mig-manager", "--pool=p", f"--kubeconfig={config}", "--health-port=0", f"--state-dir={folder}", NODE_NAME="n"
    )
    assert (status, "--state-dir" in text) == (2, True), text
