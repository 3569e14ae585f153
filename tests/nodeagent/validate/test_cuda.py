"""CUDA on the cards of simulated machines: real child processes, and a libcuda.so.1 that any program could load."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from controllers.api import validation
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.facts.records import CudaAnswer
from nodeagent.host.paths import HostPaths
from nodeagent.validate.checks import cuda, fabric, marks, report
from nodeagent.validate.cuda_trials import Trials
from nodeagent.validate.scanner import NodeScanner
from sim.nvml import build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.discover.test_nvml import children, command_of
from tests.nodeagent.validate.machine import Machine, machine

if TYPE_CHECKING:
    from pathlib import Path

    from nodeagent.validate.checks.facts import Facts

A100, T4 = "0000:d8:00.0", "0000:3b:00.0"
HOUR = 3600.0


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with an A100 and a T4, no fabric between them."""
    return driven(machine(tmp_path, shape="mixed-2"), monkeypatch)


def driven(made: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name, value in environment(build(), made.nvml).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FAKE_CUDA_LOG", str(made.folder / "contexts"))
    return made


def contexts(at: Machine) -> list[str]:
    """On which devices contexts have been made so far, by uuid."""
    log = at.folder / "contexts"
    return log.read_text().split() if log.exists() else []


class Validator:
    """Role container in this process: as `nodeagent validate container`, without a cluster."""

    def __init__(self, at: Machine, *, grace: float = HOUR, deadline: float = PATIENCE, pause: float = HOUR) -> None:
        timing, own = Timing(pause, deadline), (at.own,)
        places = HostPaths(at.sys, at.proc, at.root)
        self.looker = NodeScanner(
            validation.CONTAINER, places, DriverProbe(lambda: own, timing), at.own, {}, Trials(own, timing, None), grace
        )

    async def facts(self) -> Facts:
        try:
            return await self.looker.scan()
        finally:
            await self.looker.close()

    async def told(self) -> dict[str, str]:
        facts = await self.facts()
        found = report.attributes(validation.CONTAINER, facts, report.evaluate(validation.CONTAINER, facts))
        return {name.removeprefix("container."): value for name, value in found.items()}


async def test_a_context_and_a_copy_on_every_card(at: Machine) -> None:
    validator = Validator(at)
    found = await validator.told()
    assert (found["container"], found["cards"], found.get("checks_unknown")) == ("ok", "2", "cdi")
    assert len(found["cuda"].split(",")) == 2
    cards = (await validator.facts()).driver.cards
    assert sorted(contexts(at)) == sorted(card.uuid for card in cards.values())


async def test_what_passed_is_not_tried_again_in_the_same_boot(at: Machine) -> None:
    first = Validator(at)
    found = await first.told()
    made = contexts(at)
    assert await first.told() == found
    restarted = Validator(at)
    restarted.looker.recall({f"container.{key}": value for key, value in found.items()})
    assert await restarted.told() == found
    assert contexts(at) == made
    assert len(made) == 2


async def test_another_boot_and_another_driver_are_tried(at: Machine) -> None:
    validator = Validator(at)
    found = await validator.told()
    (at.proc / "sys" / "kernel" / "random" / "boot_id").write_text("11111111-1111-4222-8333-444455556666\n")
    booted = await validator.told()
    assert (booted["container"], len(contexts(at))) == ("ok", 4)
    assert not {*found["cuda"].split(",")} & {*booted["cuda"].split(",")}
    facts = await validator.facts()
    wanted = [
        marks.wanted(facts.driver.cards, [T4], facts.boot_id, module)[T4]
        for module in (facts.module, replace(facts.module, version="999.1"))
    ]
    assert wanted[0].mark != wanted[1].mark
    assert wanted[0].mark in booted["cuda"]


async def test_a_driver_that_is_loaded_anew_in_the_same_boot_is_asked_and_tried_again_at_once(at: Machine) -> None:
    validator = Validator(at)
    found = await validator.told()
    at.config.partitioned(A100, ("1g.5gb", 0)).write(at.nvml)
    at.load_anew()
    anew = await validator.told()
    assert (anew["container"], len(contexts(at))) == ("ok", 4)
    assert not {*found["cuda"].split(",")} & {*anew["cuda"].split(",")}
    assert [uuid[:4] for uuid in contexts(at)[2:]].count("MIG-") == 1, "NVML was asked though the pause is an hour"


@pytest.mark.parametrize(
    ("line", "reason", "says"),
    [
        ("cuda cuInit 802", "CudaError802", "cuInit answers 802 (CUDA_ERROR_SYSTEM_NOT_READY): the fabric of the NVSw"),
        ("cuda cuInit 803", "CudaError803", "cuInit answers 803 (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH): libcuda.so.1 is"),
        ("cuda cuInit 999", "CudaFailed", "CUDA does not work on any card: cuInit answers 999 (CUDA_ERROR_UNKNOWN)"),
        ("cuda cuInit 100", "CudaFailed", "cuInit answers 100 (CUDA_ERROR_NO_DEVICE)"),
        ("cuda cuInit 345", "CudaFailed", "cuInit answers 345 (an error that its library does not name)"),
        ("cuda cuMemcpyHtoD 999", "CudaFailed", "cuMemcpyHtoD_v2 answers 999"),
    ],
)
async def test_what_every_card_answers_is_the_nodes(at: Machine, line: str, reason: str, says: str) -> None:
    at.config.also(line).write(at.nvml)
    found = await Validator(at, grace=0).told()
    assert (found["container"], found["reason"], found["cards"]) == ("failed", reason, "0")
    assert says in found["message"]
    assert "cards_failed" not in found
    assert "cuda" not in found


async def test_802_says_what_to_look_at_and_waits_while_the_machine_starts(at: Machine) -> None:
    at.config.also("cuda cuInit 802").write(at.nvml)
    found = await Validator(at).told()
    assert (found["container"], found["reason"]) == ("unknown", "AwaitingFabric")
    assert "systemctl status nvidia-fabricmanager" in found["message"]


@pytest.mark.parametrize(
    ("line", "reason", "says"),
    [
        ("cuda cuCtxCreate 999", "CudaFailed", f"CUDA does not work on {T4}: cuCtxCreate_v2 answers 999"),
        ("cuda cuInit 100", "CardNotInCuda", f"CUDA shows 1 of 2 cards for which NVML answers, not {T4}"),
        ("cuda cuInit 803", "CudaError803", f"CUDA does not work on {T4}"),
        ("corrupts", "CudaCopyDiffers", "what was copied to its memory came back changed"),
    ],
)
async def test_what_one_card_answers_is_that_cards(at: Machine, line: str, reason: str, says: str) -> None:
    at.config.card(T4, line).write(at.nvml)
    found = await Validator(at).told()
    assert (found["container"], found["cards"], found["cards_failed"]) == ("ok", "1", T4)
    assert found["reason"] == reason
    assert says in found["message"]
    assert len(found["cuda"].split(",")) == 1, "the other one passed, and is noted"


async def test_a_call_that_hangs_is_ended_at_the_deadline(at: Machine) -> None:
    at.config.card(T4, "hang cuCtxCreate 600").write(at.nvml)
    found = await Validator(at, deadline=20).told()
    assert (found["container"], found["reason"], found["cards_failed"]) == ("ok", "CudaHangs", T4)
    assert "no answer in 20 s" in found["message"]
    assert not [child for child in children(os.getpid()) if b"nodeagent.host.cuda" in command_of(child)]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("used_mib 900",), "900 MiB of its memory are taken"),
        (("compute_mode 3", "used_mib 90"), "cuCtxCreate_v2 answers 46 (CUDA_ERROR_DEVICE_UNAVAILABLE)"),
        (("cuda cuMemAlloc 2",), "cuMemAlloc_v2 answers 2 (CUDA_ERROR_OUT_OF_MEMORY)"),
    ],
)
async def test_a_card_that_is_in_use_fails_nothing_and_is_not_noted(at: Machine, lines, says: str) -> None:
    at.config.card(T4, *lines).write(at.nvml)
    validator = Validator(at, pause=0.01)
    facts = await validator.facts()
    check = cuda.works(facts)
    assert (check.result, check.message) == ("ok", f"CUDA works on 1 of 2 cards; in use, so not tried: {T4} ({says})")
    found = await validator.told()
    assert (found["container"], found["cards"], len(found["cuda"].split(","))) == ("ok", "2", 1)
    at.config.write(at.nvml)
    assert len((await validator.told())["cuda"].split(",")) == 2, "it is tried again when its pod has gone"


async def test_a_card_in_mig_mode_is_tried_by_an_instance(at: Machine) -> None:
    at.config.partitioned(A100, ("1g.5gb", 0), ("1g.5gb", 1)).write(at.nvml)
    validator = Validator(at)
    assert (await validator.told())["container"] == "ok"
    assert sorted(uuid[:4] for uuid in contexts(at)) == ["GPU-", "MIG-"]


async def test_a_card_in_mig_mode_without_an_instance_cannot_be_tried(at: Machine) -> None:
    at.config.partitioned(A100).write(at.nvml)
    facts = await Validator(at).facts()
    check = cuda.works(facts)
    assert (check.result, facts.tried) == ("ok", (T4,))
    assert f"nothing to be tried on {A100} (MIG without an instance)" in check.message


async def test_what_failed_is_tried_again_after_pauses_and_at_once_where_something_changed(at: Machine) -> None:
    at.config.also("cuda cuInit 999").write(at.nvml)
    validator = Validator(at)
    assert (await validator.told())["reason"] == "CudaFailed"
    at.config.write(at.nvml)
    assert (await validator.told())["reason"] == "CudaFailed"
    assert contexts(at) == [], "the pause is an hour"
    at.device("nvidia-uvm-tools")
    assert (await validator.told())["container"] == "ok"
    quick = Validator(at, pause=0.01)
    at.config.also("cuda cuInit 999").write(at.nvml)
    assert (await quick.told())["reason"] == "CudaFailed"
    assert {known.pause for known in quick.looker.trials._tries.values()} == {0.01}
    await quick.told()
    assert {known.pause for known in quick.looker.trials._tries.values()} == {0.02}
    at.config.write(at.nvml)
    assert (await quick.told())["container"] == "ok"


async def test_a_container_without_libcuda_is_told_of_its_capabilities(at: Machine, monkeypatch) -> None:
    alone = at.folder / "alone"
    alone.mkdir()
    shutil.copy(build(), alone)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(alone))
    found = await Validator(at).told()
    assert (found["container"], found["reason"]) == ("failed", "LibraryMissing")
    assert "NVIDIA_DRIVER_CAPABILITIES of the container must have compute" in found["message"]


async def test_a_look_does_not_wait_for_cuda_and_says_what_is_awaited(at: Machine, monkeypatch) -> None:
    at.config.also("hang cuInit 600").write(at.nvml)
    validator = Validator(at)
    validator.looker.trials._patience = 0.05
    facts = await validator.looker.scan()
    assert cuda.works(facts).reason == "AwaitingCuda"
    assert report.evaluate(validation.CONTAINER, facts).result == "unknown"
    assert (facts.cuda, facts.cuda_marks) == ({}, "")
    await validator.looker.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_try_that_no_memory_was_left_for_says_nothing_of_the_card(at: Machine) -> None:
    facts = replace(
        await Validator(at).facts(), cuda={T4: CudaAnswer(unavailable_reason="its library ended … by signal 9")}
    )
    check = cuda.works(facts)
    assert (check.result, check.reason) == ("unknown", "CudaNotTried")
    assert "bootstrap.validator.resources" in check.message


NO_MEMORY = CudaAnswer(unavailable_reason="its library ended the reader by signal 9")
UNREADY = CudaAnswer("cuInit", 802, "CUDA_ERROR_SYSTEM_NOT_READY")
REFUSED = CudaAnswer("cuCtxCreate_v2", 999, "CUDA_ERROR_UNKNOWN")


@pytest.mark.parametrize(
    ("unknown", "reason", "says"),
    [(NO_MEMORY, "CudaNotTried", "by signal 9"), (UNREADY, "AwaitingFabric", "cuInit answers 802")],
)
async def test_a_card_of_which_nothing_is_known_hides_no_failure_of_another(
    at: Machine, unknown: CudaAnswer, reason: str, says: str
) -> None:
    facts = replace(await Validator(at).facts(), cuda={T4: unknown, A100: REFUSED})
    judged = report.evaluate(validation.CONTAINER, facts)
    found = report.attributes(validation.CONTAINER, facts, judged)
    assert (found["container"], found["container.cards_failed"]) == ("unknown", A100)
    assert found["container.reason"] == reason
    assert f"CUDA does not work on {A100}: cuCtxCreate_v2 answers 999" in found["container.message"]
    assert f"CUDA does not work on {T4}" in found["container.message"]
    assert says in found["container.message"]
    assert ("cuda" in found["container.checks_failed"], "cuda" in found["container.checks_unknown"]) == (True, True)
    last = passed(facts, "2")
    bridged, silent = report.debounce(validation.CONTAINER, last, found, 0)
    assert (bridged["container"], bridged["container.cards_failed"], silent) == ("ok", A100, 1), "it is out at once"
    assert (bridged["container.cards"], bridged["container.message"]) == ("1", found["container.message"])
    again, silent = report.debounce(validation.CONTAINER, bridged, found, silent)
    assert (again, silent) == (bridged, 2)
    assert report.debounce(validation.CONTAINER, again, found, silent)[0] == found, "the third look that cannot tell"
    alone = passed(facts, "1")
    assert report.debounce(validation.CONTAINER, alone, found, 0)[0] == found, "no other card is left"
    for spoiled in ("x", "-3", "9" * 5000):  # others can write there, and a process that starts anew reads it
        assert report.debounce(validation.CONTAINER, alone | {"container.cards": spoiled}, found, 0)[0] == found


def passed(facts: Facts, cards: str) -> dict[str, str]:
    about = {"boot_id": facts.boot_id, "version": facts.version, "load": facts.module.load if facts.module else ""}
    return {"container": "ok", "container.cards": cards} | {f"container.{name}": told for name, told in about.items()}


async def test_a_node_is_not_validated_while_cards_are_tried_beside_one_that_fails(at: Machine) -> None:
    facts = replace(await Validator(at).facts(), cuda={A100: REFUSED})
    found = report.attributes(validation.CONTAINER, facts, report.evaluate(validation.CONTAINER, facts))
    assert (found["container"], found["container.reason"]) == ("unknown", "AwaitingCuda")
    assert (found["container.cards_failed"], found["container.cards"]) == (A100, "0")
    assert f"CUDA does not work on {A100}" in found["container.message"]


async def test_what_another_loading_of_the_driver_passed_is_not_bridged(at: Machine) -> None:
    facts = replace(await Validator(at).facts(), cuda={})
    found = report.attributes(validation.CONTAINER, facts, report.evaluate(validation.CONTAINER, facts))
    last = passed(facts, "2")
    assert found["container.load"] == last["container.load"] != ""
    assert report.debounce(validation.CONTAINER, last, found, 0)[0] == last
    assert report.debounce(validation.CONTAINER, last | {"container.load": "another"}, found, 0)[0] == found
    del last["container.load"]  # an agent of a version that did not tell it
    assert report.debounce(validation.CONTAINER, last, found, 0)[0] == last


async def test_a_card_whose_program_cannot_be_ended_keeps_no_other_from_being_tried(at: Machine, monkeypatch) -> None:
    left: list[asyncio.subprocess.Process] = []

    async def stays(child: asyncio.subprocess.Process) -> None:
        if child.returncode is None:
            left.append(child)

    monkeypatch.setattr("nodeagent.host.child._end", stays)
    at.config.card(T4, "hang cuCtxCreate 600").card(A100, "cuda cuInit 999").write(at.nvml)
    validator = Validator(at, deadline=20, pause=0.01)
    try:
        found = await validator.told()
        assert (found["reason"], found["container"]) == ("CudaHangs", "failed"), "neither works"
        at.config.write(at.nvml)
        found = await validator.told()
        assert (found["container"], found["reason"], found["cards_failed"]) == ("ok", "CudaHangs", T4)
        assert "has not returned since it was last asked" in found["message"]
        assert len(left) == 1, "no second program is left on that card"
        assert len(found["cuda"].split(",")) == 1
    finally:
        for child in left:
            child.kill()
            await child.wait()
    assert (await validator.told())["container"] == "ok"


# --- the fabric ----------------------------------------------------------------------------


@pytest.fixture
def switched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Eight H100 behind NVSwitches."""
    return driven(machine(tmp_path), monkeypatch)


async def seen(at: Machine, *, grace: float = 0) -> Facts:
    """A look that tries no CUDA."""
    validator = Validator(at, grace=grace)
    validator.looker.trials = None
    return await validator.facts()


def everywhere(at: Machine, *lines: str) -> None:
    config = at.config
    for address in at.addresses:
        config = config.card(address, *lines)
    config.write(at.nvml)


async def test_a_machine_without_a_fabric_has_none_to_wait_for(at: Machine) -> None:
    assert fabric.ready(await seen(at)).message == "no card tells of a fabric of NVLink"


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("fabric 1",), "not ready for every card (not started)"),
        (("fabric 2",), "not ready for every card (in progress)"),
        (("fabric 3", "fabric_status 3"), "not ready for every card (completed: Not Supported)"),
    ],
)
async def test_a_fabric_that_is_not_ready_fails_the_node(switched: Machine, lines, says: str) -> None:
    assert fabric.ready(await seen(switched)).message == "NVLink's fabric is ready for 8 cards"
    everywhere(switched, *lines)
    check = fabric.ready(await seen(switched))
    assert (check.result, check.reason, check.cards, check.needed) == ("failed", "FabricIncomplete", (), True)
    assert says in check.message
    assert "systemctl status nvidia-fabricmanager" in check.message


async def test_a_fabric_has_time_to_come_up(switched: Machine) -> None:
    everywhere(switched, "fabric 2")
    facts = await seen(switched, grace=HOUR)
    assert (fabric.ready(facts).result, fabric.ready(facts).reason) == ("unknown", "AwaitingFabric")
    assert report.evaluate(validation.CONTAINER, facts).result == "unknown"


async def test_one_card_outside_the_fabric_is_that_cards_trouble(switched: Machine) -> None:
    out = switched.addresses[2]
    switched.config.card(out, "fabric 2").write(switched.nvml)
    facts = await seen(switched)
    check = fabric.ready(facts)
    assert (check.result, check.cards) == ("failed", (out,))
    # Where CUDA worked on it in that state, or somebody uses it, pods can use it: a remark.
    for answer in (CudaAnswer(), CudaAnswer(in_use="900 MiB")):
        check = fabric.ready(replace(facts, cuda={out: answer}))
        assert (check.result, check.needed) == ("failed", False)
    check = fabric.ready(replace(facts, cuda={out: CudaAnswer("cuInit", 802)}))
    assert check.needed


async def test_a_card_in_mig_mode_needs_no_fabric(switched: Machine) -> None:
    out = switched.addresses[2]
    switched.config.card(out, "fabric 2").partitioned(out, ("1g.10gb", 0)).write(switched.nvml)
    assert fabric.ready(await seen(switched)).result == "ok"
