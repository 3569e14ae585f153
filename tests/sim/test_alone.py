"""Commands that bring up a control plane of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import reliability.bench.run
import reliability.soak.run
from reliability.bench.rows import Sizes
from reliability.soak.run_loop import Length
from sim import controlplane
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("command", "below"),
    [
        (lambda folder: reliability.bench.run.measure(folder, Sizes(5)), "bench"),
        (lambda folder: reliability.soak.run.soak(folder, Length(180)), "soak"),
    ],
)
def test_one_that_runs_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[[Path], int], below: str
) -> None:
    asked: list[Path] = []

    def status(folder: Path) -> controlplane.Status:
        asked.append(folder)
        return controlplane.Status(folder, up=True)

    monkeypatch.setattr(controlplane, "status", status)
    with pytest.raises(UserError, match="is up in") as refused:
        command(tmp_path)
    assert f"--dir {tmp_path / below} down" in str(refused.value.do)
    assert asked == [tmp_path / below]
    assert list(tmp_path.iterdir()) == []
