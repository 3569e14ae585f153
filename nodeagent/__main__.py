"""`python -m nodeagent ROLE …`: the image's one entry point; the role's own --help tells its flags."""

from __future__ import annotations

import sys
from importlib import import_module

ROLES = {
    "discover": "nodeagent.discover.__main__",
    "validate": "nodeagent.validate.__main__",
    "device-plugin": "nodeagent.deviceplugin.__main__",
    "mig-manager": "nodeagent.mig.__main__",
    "mps": "nodeagent.mps.__main__",
    "toolkit": "nodeagent.toolkit.__main__",
    "driver": "nodeagent.driver.__main__",
}
USAGE = f"usage: nodeagent {{{','.join(ROLES)}}} [flags]; nodeagent ROLE --help tells the flags of a role"


def run(argv: list[str]) -> int:
    """Start a role; returns its exit status."""
    if argv and argv[0] in ROLES:
        status: int = import_module(ROLES[argv[0]]).run(argv[1:])
        return status
    asked = argv[:1] in (["-h"], ["--help"])
    print(USAGE, file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
