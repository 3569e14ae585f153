"""What is written for people gives their terminal no orders."""

from __future__ import annotations

import pytest

from kubectl_gpu.terminal import print_lines, shown, warn


@pytest.mark.parametrize(("text", "seen"), [
    ("a\x1b[2Jb", "a�[2Jb"),
    ("a\x1b]0;title\x07b", "a�]0;title�b"),
    ("over\rwritten", "over�written"),
    ("turned \u202eround", "turned �round"),
    ("\x9b31m", "�31m"),
    ("\x1b[31mred\x1b[0m\ttab\nline, é, ✓, 卡", "\x1b[31mred\x1b[0m\ttab\nline, é, ✓, 卡"),
])  # fmt: skip
def test_only_colours_and_lines_are_left(text: str, seen: str) -> None:
    assert shown(text) == seen


def test_both_streams_are_written_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(["a\x1b[2J"])
    warn("b\x1b[2J")
    assert capsys.readouterr() == ("a�[2J\n", "b�[2J\n")
