"""To add a component takes two files: tried in a copy of the tree, with what `make generate` makes of them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COPIED = (
    "controllers",
    "nodeagent",
    "webhook",
    "kubectl_gpu",
    "sim",
    "tools",
    "reliability",
    "docs",
    "openapi",
    "crds",
    "templates",
)
TABLE, POD = "controllers/api/components.py", "controllers/components/pods/gdrcopy_loader.py"
BEFORE = "    # Its container has every card, and asks NVML of each in turn.\n"
ROW = """    Component(
        "gdrcopy-loader",
        conditions.INFRA_DEGRADED,
        description="Loads GDRCopy's kernel module.",
        description_ru="Загрузка модуля ядра GDRCopy.",
        subject="GDRCopy's pod",
        image="registry.example.com/gdrcopy:v2.5",
        holds_gpu_open=True,
        own_env=("GDRCOPY_SOCKET",),
        consequence="pods have no GDRCopy",
    ),
"""
MODULE = '''"""GDRCopy. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.components import podspec
from controllers.components.builder import Builder

if TYPE_CHECKING:
    from controllers.components.builder import Inputs
    from controllers.components.podspec import Json


def pod(given: Inputs) -> Json:
    """Loads the module."""
    container = {"name": "gdrcopy", "image": given.image, "volumeMounts": podspec.mounts("sys")}
    return {"containers": [container], "volumes": podspec.volumes("sys")}


BUILDER: Final = Builder(pod, config={"gdrcopy.conf": "on"})
'''
CHECK = """
from typing import get_args

from controllers.api import conditions, names, reasons
from controllers.api.components import COMPONENTS, HOLDING_GPU_OPEN, OWN_ENV
from controllers.api.reasons.typed import Reason
from controllers.api.settings import Settings, parse_settings
from controllers.bootstrap.preparation import phases
from controllers.bootstrap.readiness.assess import GATES
from controllers.components import build
from nodeagent.mig import cluster

(component,) = (one for one in COMPONENTS if one.name == "gdrcopy-loader")
chosen = {"enabled": True, "version": "v2.6", "env": [{"name": "DEBUG", "value": "1"}]}
settings = parse_settings({"bootstrap": {"gdrcopyLoader": chosen}}).bootstrap

made = build.daemonsets(settings)["gpu-gdrcopy-loader"]
pod = made["spec"]["template"]["spec"]
(container,) = pod["containers"]
assert container["image"] == "registry.example.com/gdrcopy:v2.6"
assert container["env"] == [{"name": "DEBUG", "value": "1"}]
assert pod["nodeSelector"] == {"gpu.deckhouse.io/deploy.gdrcopy-loader": "true"}
assert build.configmaps(settings)["gpu-gdrcopy-loader"]["data"] == {"gdrcopy.conf": "on"}
off = parse_settings({"bootstrap": {"gdrcopyLoader": {"enabled": False}}}).bootstrap
assert "gpu-gdrcopy-loader" not in build.daemonsets(off)
try:
    parse_settings({"bootstrap": {"dcgm": {"env": [{"name": "GDRCOPY_SOCKET"}]}}})
except ValueError:
    pass
else:
    raise AssertionError("a variable of its own can be set")

for reason in (component.not_ready, component.overdue):
    assert reason in get_args(Reason), reason
    row = reasons.find("node", conditions.READY_FOR_POOLING, "False", reason)
    assert row is not None and "component=gdrcopy-loader" in row.spoken(node="n"), row
assert reasons.NODE_OWNERS[component.condition] == names.MANAGER_BOOTSTRAP

assert "gpu.deckhouse.io/deploy.gdrcopy-loader" in GATES
before = [one.name for one in COMPONENTS[: COMPONENTS.index(component)]]
step = phases.progress(phases.enabled(Settings().bootstrap), before, before)
assert step.blocking == component and "gdrcopy-loader" in step.gates
assert "gdrcopy-loader" in HOLDING_GPU_OPEN and "gdrcopy-loader" in cluster._PODS
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the tree, with the two files."""
    for name in COPIED:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    table = (tmp_path / TABLE).read_text("utf-8")
    assert table.count(BEFORE) == 1
    (tmp_path / TABLE).write_text(table.replace(BEFORE, ROW + BEFORE), "utf-8")
    (tmp_path / POD).write_text(MODULE, "utf-8")
    return tmp_path


def run(tree: Path, *command: str) -> None:
    done = subprocess.run([sys.executable, *command], cwd=tree, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_component_is_two_files(tree: Path) -> None:
    run(tree, "-m", "controllers.api.crdgen")
    run(tree, "-m", "tools.docs")
    run(tree, "-c", CHECK)

    copied = [path.relative_to(tree) for name in COPIED for path in (tree / name).rglob("*") if path.is_file()]
    tracked = [path for path in copied if "__pycache__" not in path.parts]
    changed = {
        str(path)
        for path in tracked
        if not (ROOT / path).exists() or (ROOT / path).read_bytes() != (tree / path).read_bytes()
    }
    assert changed == {
        *(TABLE, POD),
        # What is made of them.
        *("controllers/api/reasons/typed.py", "openapi/config-values.yaml", "openapi/doc-ru-config-values.yaml"),
        *("docs/bootstrap.md", "docs/conditions.md", "docs/dev/design.md"),
    }


def test_a_row_without_a_module_is_named(tree: Path) -> None:
    (tree / POD).unlink()
    check = "from controllers.api.settings import Settings; from controllers.components import build;"
    done = subprocess.run(
        [sys.executable, "-c", f"{check} build.daemonsets(Settings().bootstrap)"],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "No module named 'controllers.components.pods.gdrcopy_loader'" in done.stderr
