"""To add a component takes two files: tried in a copy of the tree, with what `make generate` makes of them."""

from __future__ import annotations

from tests.recipes.tree import Tree

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


def with_component(tree: Tree) -> Tree:
    tree.insert(TABLE, BEFORE, ROW)
    tree.create(POD, MODULE)
    return tree


def test_a_component_is_two_files(tree: Tree) -> None:
    with_component(tree)
    tree.generate("crdgen")
    tree.generate("docs")
    tree.run("-c", CHECK)

    assert tree.changed == {TABLE, POD}
    assert tree.generated == {
        *("controllers/api/reasons/typed.py", "openapi/config-values.yaml", "openapi/doc-ru-config-values.yaml"),
        *("docs/bootstrap.md", "docs/conditions.md", "docs/dev/design.md"),
    }


def test_a_row_without_a_module_is_named(tree: Tree) -> None:
    tree.insert(TABLE, BEFORE, ROW)
    check = "from controllers.api.settings import Settings; from controllers.components import build;"
    error = tree.fails("-c", f"{check} build.daemonsets(Settings().bootstrap)")

    assert "No module named 'controllers.components.pods.gdrcopy_loader'" in error
