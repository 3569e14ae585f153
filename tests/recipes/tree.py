"""A copy of the tree in which a recipe of CONTRIBUTING.md is followed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", ".*")
FOLDERS = (
    "controllers",
    "nodeagent",
    "webhook",
    "kubectl_gpu",
    "sim",
    "tools",
    "reliability",
    "templates",
    "docs",
    "crds",
    "openapi",
)
GENERATORS = re.compile(r"\$\(PY\) -m ([\w.]+)")


class Tree:
    """The product's folders and its generators; `changed` names the files that a person touched, `generated` others."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        for name in FOLDERS:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=IGNORED)
        for name in ("values.yaml", "Makefile", "pyproject.toml"):
            shutil.copy(ROOT / name, folder / name)
        self.changed: set[str] = set()

    def copy(self, *paths: str) -> None:
        """Have more of the repository there: files and folders with which the product is tried."""
        for path in paths:
            if (ROOT / path).is_dir():
                shutil.copytree(ROOT / path, self.root / path, ignore=IGNORED)
            else:
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / path, self.root / path)

    def insert(self, path: str, before: str, text: str) -> None:
        """Put a text into a file, before the first place at which `before` stands."""
        file = self.root / path
        head, mark, tail = file.read_text("utf-8").partition(before)
        assert mark, f"{path} has no {before!r}"
        file.write_text(f"{head}{text}{mark}{tail}", "utf-8")
        self.changed.add(path)

    @property
    def generated(self) -> set[str]:
        """Files that are not as in the repository, and which nobody touched."""
        here = [path for name in FOLDERS for path in (self.root / name).rglob("*") if path.is_file()]
        own = {str(path.relative_to(self.root)): path for path in here if "__pycache__" not in path.parts}
        same = {name for name, path in own.items() if _is_same(ROOT / name, path)}
        return own.keys() - same - self.changed

    def read(self, path: str) -> str:
        return (self.root / path).read_text("utf-8")

    def create(self, path: str, text: str) -> None:
        """Write a new file."""
        (self.root / path).write_text(text, "utf-8")
        self.changed.add(path)

    def run(self, *arguments: str) -> str:
        """What a Python program of the copy prints."""
        ran = self._ran(*arguments)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def fails(self, *arguments: str) -> str:
        """What a Python program of the copy prints that has to fail."""
        ran = self._ran(*arguments)
        assert ran.returncode != 0, ran.stdout
        return ran.stdout + ran.stderr

    def _ran(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], cwd=self.root, capture_output=True, text=True, check=False, timeout=300
        )

    def generate(self, about: str) -> None:
        """`make generate`, so far as the program whose name ends so is concerned."""
        target = self.read("Makefile").partition("\ngenerate:")[2].partition("\n\n")[0]
        programs = [name for name in GENERATORS.findall(target) if name.endswith(about)]
        assert programs, f"make generate runs no {about}"
        for name in programs:
            self.run("-m", name)


def _is_same(one: Path, other: Path) -> bool:
    return one.exists() and one.read_bytes() == other.read_bytes()
