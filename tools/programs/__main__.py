"""``python -m tools.programs [NAME…]``: make the programs and print where each is."""

from __future__ import annotations

import sys

from tools.errors import UserError
from tools.programs import PROGRAMS, ensure, for_stream


def main(names: list[str]) -> int:
    """Resolve ``names``, or all of them; 1 where a person has something to repair."""
    try:
        paths = ensure(names or PROGRAMS, progress=for_stream())
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.writelines(f"{name}\t{path}\n" for name, path in paths.items())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
