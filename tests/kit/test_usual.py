"""The usual times are hints, and are of use while they know most files and the planes that these ask for."""

from __future__ import annotations

from tests.kit.usual import ROOT, usual

OF_OTHER_VERBS = ("tests/e2e/", "tests/faults/test_smoke.py", "tests/images/test_images.py")
MOST = 0.1
"""Files that came since the times were measured, of all: each may cost a plane that is brought up for it alone."""


def test_most_files_are_known() -> None:
    found = (str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py"))
    files = {path for path in found if not path.startswith(OF_OTHER_VERBS)}
    unknown = files - usual().keys()
    assert len(unknown) <= MOST * len(files), f"`make test`, then `python -m tests.kit.usual`: {sorted(unknown)}"
