"""Fills what the docs generate from the code: `python -m sim.docs [--check]`.

A block between `<!-- name:begin -->` and `<!-- name:end -->` is replaced; the rest of the file is
people's.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from controllers.domain import lifecycle, poolcycle

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/pools.md")


def blocks() -> dict[str, str]:
    """What each block is to contain, by name."""
    return {
        "lifecycle": f"```mermaid\n{lifecycle.diagram()}```",
        "poolcycle": f"```mermaid\n{poolcycle.diagram()}```\n\n{poolcycle.table()}".rstrip(),
    }


def filled(text: str) -> str:
    """The text with every known block as it should be."""
    for name, content in blocks().items():
        pattern = re.compile(f"(<!-- {name}:begin -->\n).*?(<!-- {name}:end -->)", re.DOTALL)
        if (found := pattern.search(text)) is not None:
            text = f"{text[: found.start()]}{found[1]}{content}\n{found[2]}{text[found.end() :]}"
    return text


def main(argv: list[str] | None = None) -> int:
    """Write or check the blocks of every page; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m sim.docs", description="Fill generated blocks of the docs.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a block is stale")
    args = parser.parse_args(argv)
    stale = [path for path in map(ROOT.joinpath, PAGES) if filled(path.read_text()) != path.read_text()]
    for path in stale:
        if args.check:
            print(f"{path.relative_to(ROOT)} is stale: run `make generate`", file=sys.stderr)
        else:
            path.write_text(filled(path.read_text()))
    return 1 if stale and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
