"""Counts retired words in identifiers and on pages. `python -m tests.tools.vocabulary --update` records them.

The record (`vocabulary.json`, beside) is what is still allowed: how often each word is used in each package or on each
page. A number may only fall.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

from tests.tools.retired import NAMES, PARTS, PHRASES

ROOT = Path(__file__).resolve().parents[2]
RECORD = Path(__file__).with_name("vocabulary.json")
PACKAGES = ("controllers", "webhook", "nodeagent", "kubectl_gpu", "console")
CONTRACT = "controllers/api"
"""Its fields are the users' words: they are spelled as the custom resources and settings have them."""
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

Uses: TypeAlias = dict[str, dict[str, int]]


def parts(name: str) -> list[str]:
    """The words of an identifier: `told_early` and `ToldEarly` are both `told`, `early`."""
    return [part.lower() for part in _PART.findall(name)]


def retired(name: str, where: str) -> set[str]:
    """The retired words in an identifier of a package."""
    words = parts(name)
    found = {word for word in words if word in PARTS}
    whole = NAMES[""] | NAMES.get(where, {})
    return found | ({words[0]} & whole.keys() if len(words) == 1 else set())


def identifiers(text: str, *, fields: bool) -> Iterator[str]:
    """Names of the classes and functions of a module and, with `fields`, of its classes' annotated attributes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        if isinstance(node, ast.ClassDef) and fields:
            declared = [line.target for line in node.body if isinstance(line, ast.AnnAssign)]
            yield from (target.id for target in declared if isinstance(target, ast.Name))


def package(path: Path) -> str:
    """The package a file counts for: `controllers/<process>`, or the first folder."""
    folders = path.parent.parts
    return "/".join(folders[: 2 if folders[0] == "controllers" else 1])


def in_code(root: Path = ROOT) -> Counter[tuple[str, str]]:
    """How often each retired word is part of an identifier, by word and package."""
    found: Counter[tuple[str, str]] = Counter()
    for top in PACKAGES:
        for path in sorted((root / top).rglob("*.py")):
            here, where = path.relative_to(root), package(path.relative_to(root))
            name = path.parent.name if path.name == "__init__.py" else path.stem
            names = identifiers(path.read_text("utf-8"), fields=not str(here).startswith(CONTRACT))
            found.update((word, where) for one in (name, *names) for word in retired(one, where))
    return found


def on_pages(root: Path = ROOT) -> Counter[tuple[str, str]]:
    """How often each retired phrase stands on a page, by phrase and page; decisions and CHANGELOG are history."""
    found: Counter[tuple[str, str]] = Counter()
    pages = [*(root / "docs").glob("*.md"), *(root / "docs" / "dev").glob("*.md")]
    for path in [root / "README.md", root / "CONTRIBUTING.md", *sorted(pages)]:
        if not path.name.endswith(".ru.md"):
            text = path.read_text("utf-8")
            for phrase in PHRASES:
                found[phrase, str(path.relative_to(root))] += len(re.findall(phrase, text, re.IGNORECASE))
    return +found


def counted(root: Path = ROOT) -> dict[str, Uses]:
    """All uses, as the record has them."""
    made: dict[str, Uses] = {}
    for name, found in (("identifiers", in_code(root)), ("phrases", on_pages(root))):
        uses: Uses = {}
        for (word, where), number in sorted(found.items()):
            uses.setdefault(word, {})[where] = number
        made[name] = uses
    return made


def recorded() -> dict[str, Uses]:
    """The uses that are still allowed."""
    read: dict[str, Uses] = json.loads(RECORD.read_text("utf-8"))
    return read


def main() -> None:
    """Prints the uses, or with `--update` records them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--update", action="store_true", help="record today's numbers as those that are allowed")
    text = json.dumps(counted(), indent=1, sort_keys=True) + "\n"
    if parser.parse_args().update:
        RECORD.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
