"""What benchmarks, soak and fault campaign share."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

import pytest

from controllers.runtime.errors import RuntimeFault
from reliability.kit import command, machine, process, report
from reliability.kit.actors import retry
from reliability.kit.progress import for_each
from tools.errors import UserError


class Refusing:
    """A request that is refused so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    async def __call__(self) -> str:
        if self.left:
            self.left -= 1
            raise RuntimeFault(f"{self.left} left")
        return "taken"


async def test_a_refused_request_is_repeated_until_it_is_taken() -> None:
    assert await retry(Refusing(3), 60.0, every=0.0) == "taken"


async def test_the_last_refusal_is_raised() -> None:
    with pytest.raises(RuntimeFault, match="8 left"):
        await retry(Refusing(9), -1.0)


async def test_what_is_no_refusal_is_not_repeated() -> None:
    async def wrong() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        await retry(wrong, 60.0)


async def test_so_many_are_done_at_once_and_no_more() -> None:
    working, most, done = 0, 0, list[int]()

    async def work(item: int) -> None:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await asyncio.sleep(0)
        working -= 1
        done.append(item)

    await for_each(range(10), work, at_once=3)
    assert (most, sorted(done)) == (3, list(range(10)))


def test_results_are_written_whole_with_when_they_began(tmp_path: Path) -> None:
    found = report.results(0.0, machine={"cores": 2}, raw={1.5})
    text = report.write_json(tmp_path / "new" / "bench.json", found, default=list)
    assert json.loads(text) == json.loads((tmp_path / "new" / "bench.json").read_text())
    assert json.loads(text) == {**found, "at": "1970-01-01T00:00:00Z", "raw": [1.5]}


def test_every_verdict_has_a_colour() -> None:
    assert report.verdict("missed") == "[red]missed[/]"
    with pytest.raises(KeyError):
        report.verdict("fine")


def test_metrics_are_read_by_name_with_labels() -> None:
    found = process.parse_metrics('# HELP a b\na{kind="x y"} 1\na{kind="z"} 2.5\nab 7\n')
    assert (process.total(found, "a"), process.total(found, "ab")) == (3.5, 7)
    assert process.by_kind(found, "a") == {"x y": 1, "z": 2}


def test_cpu_time_grows() -> None:
    before, until = process.cpu_seconds(os.getpid()), time.process_time() + 0.05
    while time.process_time() < until:
        pass
    assert process.cpu_seconds(os.getpid()) > before


def test_the_machine_is_told_without_its_name() -> None:
    found = machine.facts()
    assert os.uname().nodename not in json.dumps(found)
    assert report.hardware(found).startswith(f"{found['cores']} cores of ")


@pytest.mark.parametrize(("raised", "status"), [(UserError("a mistake"), 1), (KeyboardInterrupt(), 130)])
def test_a_mistake_is_a_sentence(raised: BaseException, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> int:
        raise raised

    assert command.run(fails) == status
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("text", ["-1", "many", "1.5", ""])
def test_a_count_is_a_whole_number(text: str) -> None:
    with pytest.raises(Exception, match="0 or more"):
        command.count(text)
