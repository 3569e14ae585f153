"""`python -m tools.dashboards [--check]`: writes monitoring/grafana-dashboards from their description."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tools.dashboards.boards import BOARDS

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "monitoring" / "grafana-dashboards" / "gpu"


def files() -> dict[Path, str]:
    """Every dashboard's text by its file."""
    return {FOLDER / f"{name}.json": json.dumps(made(), indent=2) + "\n" for name, made in BOARDS.items()}


def main(argv: list[str] | None = None) -> int:
    """Write or check the files; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.dashboards", description="Write the Grafana dashboards.")
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a file is stale")
    args = parser.parse_args(argv)
    wanted = files()
    stale = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    left = sorted(set(FOLDER.glob("*")) - set(wanted))
    for path in (*stale, *left):
        if args.check:
            print(f"{path.relative_to(ROOT)} is stale: run `make generate`", file=sys.stderr)
        elif path in wanted:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(wanted[path], encoding="utf-8")
        else:
            path.unlink()
    return 1 if args.check and (stale or left) else 0


if __name__ == "__main__":
    sys.exit(main())
