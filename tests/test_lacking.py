"""Why a test is skipped is one line that names the command."""

from __future__ import annotations

import pytest

from tests.tools import lacking as tool
from tools.errors import UserError


def test_what_is_not_there_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name in ("cc", "zsh") else f"/bin/{name}")
    told = "cc, zsh not found; on Debian: apt-get install gcc libc6-dev zsh"
    assert tool.lacking("cc", "bash", "zsh") == told
    assert tool.lacking("bash") == ""


def test_the_text_of_an_error_is_one_line() -> None:
    error = UserError("no daemon answers", do="run: make images-tools")
    assert tool.in_one_line(error) == "no daemon answers; what to do: run: make images-tools"
