"""One way to bring a control plane up."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UP = re.compile(r"\bcontrolplane\.up\(|(?<![.\w])up\((tmp_path|folder|plane)|\bbring_up[(,]")
WITH_A_LIFE_OF_ITS_OWN = {
    "tests/kit/planes.py": "the way",
    "tests/e2e/bed.py": "stays up where a test fails and a person asked for that; a real node stands on it",
    "tests/e2e/driverbed.py": "stays up as a real node's does, without the module",
    "tests/e2e/release.py": "stays up as a real node's does, without the module",
    "tests/sim/test_controlplane.py": "about coming up itself",
    "tests/sim/test_containers.py": "about coming up in containers",
}


def test_nobody_else_brings_a_control_plane_up() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if UP.search(path.read_text()) and path != Path(__file__)
    }
    assert found == set(WITH_A_LIFE_OF_ITS_OWN)
