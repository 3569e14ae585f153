"""Reading the driver through a library that any program could load, and a driver that misbehaves."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controllers.domain.catalogue import canonical_profile
from nodeagent.discover.feature import confirm, report
from nodeagent.host import child as child_module
from nodeagent.host import driver_probe, sysfs
from nodeagent.host.child import DriverUnavailable
from nodeagent.host.driver_probe import DriverAnswer, DriverProbe, Timing, decode
from nodeagent.host.facts.nvlink import Links, peers
from nodeagent.host.facts.profiles import by_size, profile_in
from nodeagent.host.facts.records import Driver, DriverCard
from sim.hardware import load
from sim.nvml import Config, build, environment
from tests.kit.waiting import PATIENCE
from tests.nodeagent.discover.machine import Machine

ROOT = Path(__file__).resolve().parents[3]
FIRST, SECOND = "0000:19:00.0", "0000:3b:00.0"
VERSION = "580.105.08"


@pytest.fixture(scope="session")
def library() -> Path:
    return build()


@pytest.fixture
def file(tmp_path: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says what the driver is like, for every program that the test starts."""
    for name, value in environment(library, tmp_path / "driver").items():
        monkeypatch.setenv(name, value)
    return tmp_path / "driver"


def shape(name: str = "h100-sxm-8") -> Config:
    return Config.of(load().shape(name))


def reading(*flags: str) -> Driver:
    command = [sys.executable, "-m", "nodeagent.host.nvml", *flags]
    done = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE, cwd=ROOT)
    return decode(done.stdout)


def test_every_value_of_every_card(file: Path) -> None:
    shape().write(file)
    driver = reading()
    cards = list(load().shape("h100-sxm-8").cards)
    assert (driver.version, driver.cuda_version, driver.source, driver.failed) == (VERSION, "13.0", "nvml", ())
    assert sorted(driver.cards) == [card.address for card in cards]
    card = driver.cards[FIRST]
    assert card.uuid.startswith("GPU-")
    assert card == DriverCard(
        FIRST, uuid=card.uuid, product="NVIDIA H100 80GB HBM3", memory_mib=81559, compute=(9, 0), mig_capable=True,
        mig_enabled=False, persistence=True, fabric="completed",
        mig_profiles=("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),
        nvlink_peers=tuple(other.address for other in cards[1:]),
        nvlink_links=(18,) * 7,
    )  # fmt: skip
    assert len({card.uuid for card in driver.cards.values()}) == 8


def test_a_card_that_cannot_be_split_says_so(file: Path) -> None:
    shape("t4-4").write(file)
    for card in reading().cards.values():
        assert (card.mig_capable, card.mig_enabled, card.mig_profiles, card.nvlink_peers) == (False, None, (), ())
        assert card.failed == ()


def test_instances_are_counted_by_profile(file: Path) -> None:
    shape().partitioned(FIRST, ("3g.40gb", 0), ("1g.10gb", 4), ("1g.10gb", 5), ("1g.10gb+me", 6)).write(file)
    cards = reading().cards
    assert cards[FIRST].mig_enabled is True
    assert cards[FIRST].mig_instances == {"1g.10gb": 2, "1g.10gb+me": 1, "3g.40gb": 1}
    assert (cards[SECOND].mig_enabled, cards[SECOND].mig_instances) == (False, {})


def test_each_value_fails_alone(file: Path) -> None:
    config = shape().card(FIRST, "unknown nvmlDeviceGetUUID", "unknown nvmlDeviceGetMigMode")
    config.card(SECOND, "not_supported nvmlDeviceGetMemoryInfo", "no_permission nvmlDeviceGetMigMode").write(file)
    cards = reading().cards
    first, second = cards[FIRST], cards[SECOND]
    assert (first.uuid, first.product, first.memory_mib) == ("", "NVIDIA H100 80GB HBM3", 81559)
    assert set(first.failed) == {"uuid", "mig_capable", "mig_enabled", "mig_profiles", "mig_instances"}
    assert (second.memory_mib, second.mig_capable) == (None, None)
    assert set(second.failed) == {"mig_capable", "mig_enabled", "mig_profiles", "mig_instances"}
    assert second.uuid


def test_what_is_told_to_the_privileged_only_is_kept_in_the_report(tmp_path: Path, file: Path) -> None:
    bus = sysfs.scan(Machine(tmp_path / "machine", "h100-8").sys)
    split = shape().partitioned(FIRST, ("3g.40gb", 0), ("1g.10gb", 4))
    split.write(file)
    state = confirm.step(confirm.State(), report.observe(bus, reading(), None))
    before = state.cards[FIRST].values
    assert (before["memory_mib"], before["mig_instances"]) == ("81559", "1g.10gb=1,3g.40gb=1")
    split.also("unprivileged").write(file)
    driver = reading()
    card = driver.cards[FIRST]
    assert (card.memory_mib, card.failed, driver.cards[SECOND].failed) == (None, ("memory_mib",), ())
    told = report.observe(bus, driver, None)
    assert told.cards[FIRST].unknown_fields == {"memory_mib"}
    assert told.cards[FIRST].values == {key: value for key, value in before.items() if key != "memory_mib"}
    assert confirm.step(state, told).cards[FIRST].values == before


def test_a_lost_card_does_not_hide_its_neighbours(file: Path) -> None:
    shape().card(FIRST, "lost").write(file)
    cards = reading().cards
    assert FIRST not in cards or set(cards[FIRST].failed) > {"uuid", "memory_mib"}
    others = [card for address, card in cards.items() if address != FIRST]
    assert len(others) == 7
    for card in others:
        assert card.uuid
        assert card.memory_mib == 81559
        assert card.failed == ("nvlink_peers",)  # they may have lost a neighbour, or it is only silent


def test_a_card_that_the_driver_no_longer_lists_is_no_ones_neighbour(file: Path) -> None:
    shape().card(FIRST, "fallen_off_bus").write(file)
    cards = reading().cards
    assert len(cards) == 7
    for card in cards.values():
        assert FIRST not in card.nvlink_peers
        assert (len(card.nvlink_peers), card.failed) == (6, ())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("driver_not_loaded", "Driver Not Loaded"),
        ("version_mismatch", "RM has detected an NVML/RM version mismatch"),
        ("unknown nvmlInit", "Unknown Error"),
    ],
)
def test_a_driver_that_does_not_answer_is_told_as_silence(file: Path, line: str, says: str) -> None:
    shape().also(line).write(file)
    with pytest.raises(DriverUnavailable, match=says):
        reading()


def test_the_hosts_library_is_loaded_where_the_container_has_none(
    tmp_path: Path, file: Path, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH")
    shape().write(file)
    with pytest.raises(DriverUnavailable, match="no library: libnvidia-ml"):
        reading(f"--root={tmp_path}/root")
    folder = tmp_path / "root/usr/lib/x86_64-linux-gnu"
    folder.mkdir(parents=True)
    (folder / "libnvidia-ml.so.580.105.08").write_bytes(library.read_bytes())
    (folder / "libnvidia-ml.so.1").symlink_to("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.105.08")
    assert len(reading(f"--root={tmp_path}/root", f"--version={VERSION}").cards) == 8


async def test_the_driver_is_asked_when_something_changed_and_rarely_else(file: Path) -> None:
    shape().write(file)
    asker = DriverProbe(tuple, Timing(period=1000, deadline=PATIENCE))
    first = (await asker.answer(VERSION, "a")).driver
    assert first is not None
    assert len(first.cards) == 8
    shape().without(FIRST).write(file)
    assert (await asker.answer(VERSION, "a")).driver == first
    second = await settled(asker, "b")
    assert second.driver is not None
    assert FIRST not in second.driver.cards


async def test_an_answer_that_is_not_whole_is_asked_for_again_three_times(file: Path) -> None:
    asker = DriverProbe(tuple, Timing(period=1000, deadline=PATIENCE))
    shape().card(FIRST, "lost").write(file)
    await asker.answer(VERSION, "a")
    for _ in range(driver_probe.QUICK_TRIES - 1):
        assert asker._due((VERSION, "", "a"))
        await settled(asker, "a")
    assert not asker._due((VERSION, "", "a"))
    shape().write(file)
    answer = await settled(asker, "b")
    assert answer.driver is not None
    assert answer.driver.cards[FIRST].failed == ()
    assert answer.reason == ""


async def settled(asker: DriverProbe, about: str, version: str = VERSION) -> DriverAnswer:
    async with asyncio.timeout(PATIENCE):
        while (answer := await asker.answer(version, about)).pending:
            pass
    return answer


async def test_a_driver_that_hangs_costs_its_answer_and_nothing_else(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_probe, "PATIENCE", 0.05)
    shape().write(file)
    asker = DriverProbe(tuple, Timing(period=1000, deadline=PATIENCE))
    good = await asker.answer(VERSION, "a")
    shape().card(FIRST, "hang nvmlDeviceGetName 600").write(file)
    asker._timing = Timing(period=1000, deadline=10)
    waiting = await asker.answer(VERSION, "b")
    assert waiting == DriverAnswer(good.driver, pending=True), "told before the deadline, at which nothing is pending"
    child = await child_of(os.getpid())
    answer = await settled(asker, "b")
    assert answer == DriverAnswer(None, reason="no answer in 10 s")
    assert command_of(child) == b""
    shape().write(file)
    assert (await settled(asker, "c")).driver == good.driver


async def test_what_was_asked_under_an_earlier_loading_is_no_answer_about_this_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_probe, "PATIENCE", 0.05)
    shape().write(file)
    asker = DriverProbe(tuple, Timing(period=1000, deadline=PATIENCE))
    first = await asker.answer(VERSION, "a", "7")
    assert first.driver is not None
    shape().card(FIRST, "hang nvmlDeviceGetName 2").write(file)
    assert (await asker.answer(VERSION, "b", "7")).driver == first.driver, "the same loading: the last answer stands"
    assert await asker.answer(VERSION, "b", "8") == DriverAnswer(None, pending=True)
    assert asker._task is not None
    await asyncio.wait({asker._task}, timeout=PATIENCE)
    assert await asker.answer(VERSION, "b", "8") == DriverAnswer(None, pending=True), (
        "it came, and is about the other one"
    )
    shape().without(FIRST).write(file)
    async with asyncio.timeout(PATIENCE):
        while (answer := await asker.answer(VERSION, "b", "8")).pending:
            pass
    assert answer.driver is not None
    assert FIRST not in answer.driver.cards


async def test_a_question_ends_with_the_agent(file: Path) -> None:
    shape().also("hang nvmlInit 600").write(file)
    asker = DriverProbe(tuple, Timing())
    waiting = asyncio.create_task(asker.answer(VERSION, "a"))
    child = await child_of(os.getpid())
    await asker.close()
    assert command_of(child) == b""
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def child_of(pid: int) -> int:
    """The reader that a process has started."""
    async with asyncio.timeout(PATIENCE):
        while True:
            for child in children(pid):
                if b"nodeagent.host.nvml" in command_of(child):
                    return child
            await asyncio.sleep(0.01)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def command_of(pid: int) -> bytes:
    """The command line of a process; empty for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


async def test_while_a_killed_reader_lives_on_no_other_is_started(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shape().write(file)
    started = []

    class Unkillable:
        returncode = None

        def __init__(self) -> None:
            started.append(self)

            self.stdout, self.stderr = asyncio.StreamReader(), asyncio.StreamReader()

        async def wait(self) -> None:
            await asyncio.sleep(600)

        def kill(self) -> None:
            """Nothing: the call never returns."""

    async def start(*_args: str, **_kwargs: object) -> Unkillable:
        return Unkillable()

    monkeypatch.setattr(child_module, "KILL_SECONDS", 0.05)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    asker = DriverProbe(tuple, Timing(period=1000, deadline=0.1))
    assert (await asker.answer(VERSION, "a")).driver is None
    answer = await asker.answer(VERSION, "b")
    assert answer.reason == "a call into it has not returned since it was last asked"
    assert len(started) == 1
    assert asyncio.all_tasks() == {asyncio.current_task()}
    await asker.close()


@pytest.mark.parametrize(
    "output",
    [b"", b"{}", b"[]", b"null", b'{"driver": 7}', b'{"driver": {"cards": {"a": {}}}}', b"\xff", b'{"driver":'],
)  # fmt: skip
def test_what_the_reader_prints_is_not_trusted(output: bytes) -> None:
    with pytest.raises(DriverUnavailable, match="cannot be read"):
        decode(output)


def test_a_library_that_prints_does_not_spoil_the_answer() -> None:
    line = json.dumps({"driver": {"version": "1", "cards": {}, "news": 1}}).encode()
    assert decode(b"NVRM: hello\n" + line + b"\n") == Driver("1")


async def test_a_reader_that_crashes_is_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    answer = await DriverProbe(tuple, Timing()).answer(VERSION, "a")
    assert answer == DriverAnswer(None, reason="its reader ended with status 1")


def reader(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a script in the reader's place."""
    made = folder / "reader"
    made.write_text(f"#!/bin/sh\n{script}\n")
    made.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(made))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo Traceback >&2; echo \"ModuleNotFoundError: No module named 'pynvml'\" >&2; exit 1",
         "its reader ended with status 1: ModuleNotFoundError: No module named 'pynvml'"),
        ("kill -SEGV $$", "its library ended the reader by signal 11"),
        ("yes x | head -c 300000 >&2; echo >&2; echo last >&2; exit 3", "its reader ended with status 3: last"),
        ("exec yes", f"its reader printed more than {child_module.OUTPUT_MAX} bytes"),
    ],
)  # fmt: skip
async def test_how_a_reader_ends_is_told_and_what_it_prints_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str
) -> None:
    reader(tmp_path, monkeypatch, script)
    assert await DriverProbe(tuple, Timing(deadline=PATIENCE)).answer(VERSION, "a") == DriverAnswer(None, reason=why)


async def test_a_machine_that_can_start_no_process_is_silence_and_ends_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_args: str, **_kwargs: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    shape().write(file)
    asker = DriverProbe(tuple, Timing(period=1000, deadline=PATIENCE))
    with monkeypatch.context() as patch:
        patch.setattr(asyncio, "create_subprocess_exec", refuse)
        answer = await asker.answer(VERSION, "a")
    assert answer == DriverAnswer(None, reason="its reader cannot be started: Resource temporarily unavailable")
    assert (await settled(asker, "a")).driver is not None


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("MIG 1g.10gb", "1g.10gb"), ("1g.5gb+me", "1g.5gb+me"), ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "1g.10gb"),
        ("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "3g.20gb"), ("MIG 1g.24gb+me.all", "1g.24gb+me.all"),
        ("MIG 1g.24gb-me", "1g.24gb-me"), ("MIG 2g.48gb+gfx", "2g.48gb+gfx"), ("NVIDIA H100 80GB HBM3", ""), ("", ""),
    ],
)  # fmt: skip
def test_profiles_are_found_in_the_drivers_words(text: str, profile: str) -> None:
    assert profile_in(text) == profile
    assert canonical_profile(profile) == (profile or None)  # the catalogue spells it so too


def test_profiles_stand_by_size() -> None:
    profiles = ["7g.80gb", "1g.20gb", "1g.10gb+me", "3g.40gb", "1g.10gb"]
    assert sorted(profiles, key=by_size) == ["1g.10gb", "1g.10gb+me", "1g.20gb", "3g.40gb", "7g.80gb"]


def test_links_between_cards_and_through_switches() -> None:
    a, b, c, d, switch = "0000:01:00.0", "0000:02:00.0", "0000:03:00.0", "0000:04:00.0", "0000:83:00.0"
    bridged = peers({a: Links({b: 4}), b: Links({a: 4}), c: Links()}, all_answer=True)
    assert dict(bridged.peers) == {a: {b: 4}, b: {a: 4}, c: {}}
    switched = peers({a: Links(switched=12), b: Links(switched=11), c: Links()}, all_answer=True)
    assert dict(switched.peers) == {a: {b: 11}, b: {a: 11}, c: {}}
    old = peers({x: Links(unknown={y: 2}) for x, y in ((a, b), (b, a), (c, switch), (d, switch))}, all_answer=True)
    assert dict(old.peers) == {a: {b: 2}, b: {a: 2}, c: {d: 2}, d: {c: 2}}
    assert old.failed == frozenset()
    assert peers({a: Links({b: 1}), c: Links()}, all_answer=False).failed == {a}
