"""Fills what the docs get from the code; `python -m sim.recording` writes what their commands print.

python -m tools.docs              blocks of the pages, crds/doc-ru-*.yaml, openapi/doc-ru-config-values.yaml
python -m tools.docs --check      change nothing; fail where one of these is stale
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.docs import blocks, russian
from tools.errors import UserError

ROOT = Path(__file__).resolve().parents[2]


def main(argv: list[str] | None = None) -> int:
    """Write or check; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description="Fill what the docs get from the code.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when something is stale")
    args = parser.parse_args(argv)
    try:
        wanted = blocks.pages(ROOT) | russian.pages(ROOT)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if args.check:
            print(f"{path.relative_to(ROOT)} is stale: run `make generate`", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if stale and args.check else 0


if __name__ == "__main__":
    sys.exit(main())
