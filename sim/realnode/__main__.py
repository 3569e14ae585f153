"""`python -m sim.realnode`: build what a real node runs, with the progress shown; where none can run, say why."""

from __future__ import annotations

import sys

from sim.realnode import pinns
from sim.realnode.needs import missing
from tools.errors import UserError
from tools.images import archive
from tools.programs import NODE_PROGRAMS, PROGRAMS, RUNTIME_PROGRAMS, ensure, for_stream

IMAGE = "control-plane"


def main() -> int:
    """Print where each program and image is; 1 where a person has something to repair."""
    if reason := missing():
        sys.stderr.write(f"no real node here: {reason}\n")
        return 0
    progress = for_stream()
    try:
        paths = ensure((*PROGRAMS, *NODE_PROGRAMS, *RUNTIME_PROGRAMS), progress=progress)
        if reason := archive.lacking(IMAGE):
            sys.stderr.write(f"{reason}\n")
        else:
            paths[IMAGE] = archive.ensure(IMAGE, progress)
        paths[pinns.NAME] = pinns.build(progress)
    except UserError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.writelines(f"{name}\t{path}\n" for name, path in paths.items())
    return 0


if __name__ == "__main__":
    sys.exit(main())
