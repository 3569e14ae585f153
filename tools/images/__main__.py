"""`python -m tools.images [--base IMAGE|debian] [--save FOLDER]`: build the images and tell their sizes."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tools.errors import UserError
from tools.images.base import debian
from tools.images.build import TAGS, build
from tools.images.daemon import connected

if TYPE_CHECKING:
    import docker

DEBIAN: Final = "debian"


def main(argv: list[str] | None = None) -> int:
    """Build; 1 where a person has something to repair."""
    parser = argparse.ArgumentParser(prog="tools.images", description="build the module's container images")
    parser.add_argument("--base", default="", help=f"base image; {DEBIAN!r}: one made here of Debian's packages")
    parser.add_argument("--save", type=Path, help="folder for the images' archives, as `docker load` takes them")
    args = parser.parse_args(argv)
    try:
        with tempfile.TemporaryDirectory() as folder, connected(Path(folder)) as client:
            for built in build(client, debian(client) if args.base == DEBIAN else args.base):
                sys.stdout.write(f"{built.tag}\t{built.size / 1e6:.0f} MB\n")
            if args.save:
                save(client, args.save)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def save(client: docker.DockerClient, folder: Path) -> None:
    """Write the archive of each image: a daemon of our own, and what it holds, ends with us."""
    folder.mkdir(parents=True, exist_ok=True)
    for image, tag in TAGS.items():
        with (folder / f"{image}.tar").open("wb") as file:
            file.writelines(client.images.get(tag).save(named=True))


if __name__ == "__main__":
    sys.exit(main())
