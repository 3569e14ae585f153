"""`python -m tools.vendored`: whether vendored files are what `packages.toml` says; `--fetch` writes them anew.

Fetching asks npm for each package, and takes a file only out of an archive whose hash is the one that is written down.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = Path(__file__).with_name("packages.toml")


def packages(path: Path = PACKAGES) -> dict[str, Any]:
    """What is vendored, by the package's name: `version`, `integrity`, `files` {path here: {path, sha256}}."""
    return tomllib.loads(path.read_text())


def differences(known: dict[str, Any], root: Path = ROOT) -> list[str]:
    """Sentences about files that are not as they were published."""
    found = []
    for name, package in known.items():
        for here, file in package["files"].items():
            path = root / here
            if not path.is_file():
                found.append(f"{here} of {name} is missing")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != file["sha256"]:
                found.append(f"{here} is not the file of {name} {package['version']}")
    return found


def unpacked(archive: bytes, package: dict[str, Any]) -> dict[str, bytes]:
    """The files of a package's archive, by their path here; raises ValueError where the archive is another one."""
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
    if integrity != package["integrity"]:
        msg = f"the archive's hash is {integrity}, expected is {package['integrity']}"
        raise ValueError(msg)
    with tempfile.TemporaryFile() as held:
        held.write(archive)
        held.seek(0)
        with tarfile.open(fileobj=held) as opened:
            made = {}
            for here, file in package["files"].items():
                member = opened.extractfile(f"package/{file['path']}")
                if member is None:
                    msg = f"{file['path']} is no file"
                    raise ValueError(msg)
                made[here] = member.read()
    return made


def fetch(known: dict[str, Any], root: Path = ROOT) -> None:
    """Write every file anew, out of what npm has."""
    for name, package in known.items():
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "pack", "--silent", f"{name}@{package['version']}"], cwd=folder, check=True)
            (archive,) = Path(folder).iterdir()
            for here, data in unpacked(archive.read_bytes(), package).items():
                (root / here).parent.mkdir(parents=True, exist_ok=True)
                (root / here).write_bytes(data)
        print(f"{name} {package['version']}: {len(package['files'])} files")


def main(argv: list[str] | None = None) -> int:
    """Compare, or fetch and compare; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.vendored", description=__doc__)
    parser.add_argument("--fetch", action="store_true", help="write the files anew, out of what npm has")
    known = packages()
    if parser.parse_args(argv).fetch:
        fetch(known)
    found = differences(known)
    for each in found:
        print(f"error: {each}; python -m tools.vendored --fetch writes it anew", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
