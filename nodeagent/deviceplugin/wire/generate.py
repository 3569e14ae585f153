"""Writes the messages from the agent's .proto files: `python -m nodeagent.deviceplugin.wire.generate [--check]`.

For developers: it needs grpcio-tools, which no program of the module does. Exit status 1 of
`--check` says that a generated file differs from what would be written.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
FOLDERS = (HERE.relative_to(ROOT), Path("nodeagent/toolkit/wire"))


def made(folder: Path) -> dict[Path, bytes]:
    """What protoc makes of each file, by path from the repository's root."""
    sources = [str(path.relative_to(ROOT)) for each in FOLDERS for path in sorted((ROOT / each).glob("*.proto"))]
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={folder}", f"--pyi_out={folder}"]
    subprocess.run([*command, *sources], cwd=ROOT, check=True)
    files = (path for each in FOLDERS for path in sorted((folder / each).iterdir()))
    return {path.relative_to(folder): path.read_bytes() for path in files}


def main(argv: list[str] | None = None) -> int:
    """Write the files, or compare them."""
    parser = argparse.ArgumentParser(description="Write the messages of the protocols that the agent speaks.")
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 where a file is out of date")
    check = parser.parse_args(argv).check
    with tempfile.TemporaryDirectory() as folder:
        wanted = made(Path(folder))
    stale = [path for path, content in wanted.items() if not (ROOT / path).exists() or _read(path) != content]
    for path in stale:
        if check:
            print(f"{path} is not what its .proto file says: make generate", file=sys.stderr)  # noqa: T201
        else:
            (ROOT / path).write_bytes(wanted[path])
    return 1 if check and stale else 0


def _read(path: Path) -> bytes:
    return (ROOT / path).read_bytes()


if __name__ == "__main__":
    sys.exit(main())
