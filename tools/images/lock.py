"""What each image installs, cut out of requirements.lock: `python -m tools.images.lock [--check]`.

requirements.lock is the one source of versions and hashes and holds a developer's tools too. An image gets the
requirements of `pyproject.toml` that its program imports and what these require, each entry as it stands there.
Reads the metadata of installed packages, so it runs in the virtual environment that was made from that lock.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT: Final = Path(__file__).resolve().parents[2]
IMAGES: Final = {
    "control-plane": frozenset({"argcomplete", "grpcio", "nvidia-ml-py", "protobuf"}),
    "node-agent": frozenset({"argcomplete"}),
}
"""The images, and the requirements of `pyproject.toml` that their programs do not import."""
_HEAD: Final = "# Cut out of requirements.lock by `python -m tools.images.lock`; `make lock` does it too.\n"
_PLATFORM: Final = {"sys_platform": "linux", "platform_system": "Linux", "python_version": "3.11"}
"""What an image is, wherever this runs; the rest of the environment of markers is this interpreter's."""


def entries(lock: str) -> dict[str, str]:
    """The entries of a lock file by canonical name, each with its hashes."""
    found = re.findall(r"^[A-Za-z0-9].*(?:\n[ \t].*)*", lock, re.MULTILINE)
    return {canonicalize_name(re.split(r"[=\s]", entry, maxsplit=1)[0]): f"{entry}\n" for entry in found}


def closure(names: Iterable[str]) -> set[str]:
    """These packages and all that they require on Linux, without extras."""
    environment = {key: str(value) for key, value in default_environment().items()} | _PLATFORM | {"extra": ""}
    found: set[str] = set()
    left = [canonicalize_name(name) for name in names]
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        wanted = (Requirement(text) for text in requires(name) or ())
        left += [canonicalize_name(r.name) for r in wanted if r.marker is None or r.marker.evaluate(environment)]
    return found


def lock_of(image: str) -> str:
    """The text of an image's lock file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    known = entries((ROOT / "requirements.lock").read_text())
    return _HEAD + "".join(known[name] for name in sorted(closure(named - IMAGES[image])))


def path_of(image: str) -> Path:
    """Where an image's lock file is."""
    return ROOT / "images" / image / "requirements.lock"


def main(argv: list[str] | None = None) -> int:
    """Write the files, or with --check tell which are not as they would be written; 1 where there are such."""
    parser = argparse.ArgumentParser(
        prog="tools.images.lock", description="cut the images' locks out of requirements.lock"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    check = parser.parse_args(argv).check
    stale = []
    for image in IMAGES:
        path, text = path_of(image), lock_of(image)
        if not path.exists() or path.read_text() != text:
            stale.append(path)
            if not check:
                path.write_text(text)
    for path in stale if check else ():
        sys.stderr.write(f"{path.relative_to(ROOT)} is not what requirements.lock says; run: make lock\n")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
