"""Pictures of the console for the docs: UPDATE_PICTURES=1 writes them; without it they are made, and thrown away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.console.page.fleet import fed
from tests.console.page.serving import FixedAccess, served
from tests.kit.browser import Page

DOCS = Path(__file__).resolve().parents[3] / "docs"
PICTURES = {
    "console-fleet": ("#/fleet", False, (1280, 720)),
    "console-pool": ("#/pool?pool=training", False, (1280, 720)),
    "console-pod": ("#/pod?namespace=team-a&pod=big", True, (1280, 720)),
    "console-card": ("#/card?card=gpu-0001-0000-01-00-0", False, (1280, 720)),
    "console-confirm": ("#/confirm", False, (1280, 720)),
    "console-phone": ("#/fleet", True, (390, 844)),
}


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", PICTURES)
async def test_a_picture_can_be_made(page: Page, tmp_path: Path, name: str) -> None:
    where, dark, size = PICTURES[name]
    async with served(fed(24), FixedAccess(confirms=True)) as address:
        await page.window(*size, dark=dark)
        await page.open(address + where)
        await page.until("document.querySelector('main h1') && document.querySelector('.who')")
        folder = DOCS / "images" if os.environ.get("UPDATE_PICTURES") else tmp_path
        await page.picture(folder / f"{name}.png")
        assert (folder / f"{name}.png").stat().st_size > 10_000


def test_the_docs_show_each_picture() -> None:
    shown = (DOCS / "console.md").read_text()
    assert [name for name in PICTURES if f"images/{name}.png" not in shown] == []
    assert [name for name in PICTURES if not (DOCS / "images" / f"{name}.png").is_file()] == []
