"""What waits and what is judged by time in the other tests: it ends well, fails and refuses where it should."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from contextlib import ExitStack

import pytest

from tests.kit import pace, waiting
from tests.kit.pace import Stretch
from tests.kit.waiting import at_rest, eventually, until


def stretch(delay: float | None, seconds: float = 10.0) -> Stretch:
    """One on a machine for which something waited so long."""
    readings = iter((None, None) if delay is None else (100.0, 100.0 + delay))
    with Stretch(lambda: next(readings)) as made:
        made._began -= seconds
    return made


@pytest.mark.parametrize("delay", [0.0, 9.0, None])
def test_what_is_quick_enough_passes_on_any_machine(delay: float | None) -> None:
    stretch(delay).judge("the answer", 2.0, limit=2.0)


@pytest.mark.parametrize("delay", [0.0, 2.9])
def test_what_is_slow_by_more_than_the_machine_explains_fails(delay: float) -> None:
    with pytest.raises(AssertionError, match=r"the answer took 5 s, and 2 s are allowed; the machine is no excuse"):
        stretch(delay).judge("the answer", 5.0, limit=2.0)


@pytest.mark.parametrize("delay", [3.1, 9.0, None])
def test_what_the_machine_may_have_made_slow_is_not_judged(delay: float | None) -> None:
    with pytest.raises(pytest.skip.Exception, match=r"not judged: the machine is busy: the answer took 5 s"):
        stretch(delay).judge("the answer", 5.0, limit=2.0)


@pytest.mark.skipif(pace.waited() is None, reason="this kernel does not count for how long processes wait for it")
def test_a_machine_that_has_more_to_do_than_processors_is_seen_to_be_busy() -> None:
    with ExitStack() as stack, Stretch() as seen:
        for _ in range(2 * (os.cpu_count() or 1)):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        before = pace.waited() or 0.0
        eventually(lambda: (pace.waited() or 0.0) > before + 0.5, "something to have waited for half a second")
    assert seen.delay > 0.4


async def test_waits_give_what_they_found_and_say_what_did_not_come() -> None:
    answers = iter([0, None, "", "found", 0, "found"])

    async def ask() -> object:
        return next(answers)

    assert await until(ask, "an answer", every=0) == "found"
    assert eventually(lambda: next(answers), "an answer", every=0) == "found"
    with pytest.raises(AssertionError, match=r"waited 0 s for 3 answers of 4"):
        await until(lambda: False, lambda: "3 answers of 4", seconds=0)
    with pytest.raises(AssertionError, match=r"waited 0 s for all answers"):
        eventually(lambda: False, "all answers", seconds=0)


async def test_what_changes_for_a_while_comes_to_rest_and_what_changes_for_ever_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = itertools.chain([1, 2], itertools.repeat(3))

    async def read() -> int:
        return next(values)

    assert await at_rest(read, "a count", seconds=0.3) == 3
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    endless = itertools.count()

    async def more() -> int:
        return next(endless)

    with pytest.raises(AssertionError, match=r"for a count to rest, which is \d+"):
        await at_rest(more, "a count", seconds=0.3)
