"""The tree of a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recipes.tree import Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """A fresh copy."""
    return Tree(tmp_path / "tree")
