"""The tests that failed in the last run, once more and alone: `make test AGAIN=1`.

Some 600 tests run real processes against real clusters, on machines where other things run as well. One that fails in
the whole run and passes alone is `unsteady`: it is named, and is a bug of the test or of the program like any other;
it does not hold up what has nothing to do with it. Failures in many files are no accident, and get no second run.
Files are counted, not tests: where a cluster of a whole file cannot be had once, each test of the file fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(".pytest_cache/v/cache/lastfailed")
MOST = 5
USAGE = (
    "usage: python -m tests.tools.again: run the tests again that failed in the last run of this folder, of at most"
    f" {MOST} files"
)


def failed(folder: Path) -> list[str]:
    """The ids of the tests that failed in the last run in that folder; none where nothing was recorded."""
    try:
        return sorted(json.loads((folder / CACHE).read_text()))
    except FileNotFoundError:
        return []


def again(folder: Path) -> int:
    """Run them; the exit status is 0 where all of them pass now."""
    tests = failed(folder)
    if not tests:
        sys.stderr.write("no test is recorded as failed: the run ended before its tests did\n")
        return 1
    files = {test.partition("::")[0] for test in tests}
    if len(files) > MOST:
        sys.stderr.write(f"tests of {len(files)} files failed, of at most {MOST} they get a second run\n")
        return 1
    sys.stderr.write(f"{len(tests)} tests failed in the whole run; they run once more, alone\n")
    status = subprocess.run([sys.executable, "-m", "pytest", "-m", "", *tests], cwd=folder, check=False).returncode
    if status == 0:
        told = "\n  ".join(["unsteady (failed in the whole run, passed alone), to be looked into:", *tests])
        sys.stderr.write(f"{told}\n")
    return status


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(USAGE)
    sys.exit(again(ROOT))
