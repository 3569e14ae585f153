"""The layers and the purity of what decides (docs/dev/design.md, Layers), and the shape of the code base."""

from __future__ import annotations

import ast
import gc
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOT_SHIPPED = ("sim", "tools", "reliability")
PACKAGES = ("controllers", "webhook", "nodeagent", "kubectl_gpu", "console", *NOT_SHIPPED)
SOURCES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PURE_MODULES = next(
    contract["source_modules"]
    for contract in PYPROJECT["tool"]["importlinter"]["contracts"]
    if contract["name"] == "What decides is pure"
)
NOT_PURE = {
    "controllers.bootstrap": {"__main__", "loops", "metrics", "telemetry", "world"},
    "controllers.driver": {"__main__", "loops", "metrics", "world", "observe", "caches", "decisions", "proofs"},
    "controllers.gpupool": {"__main__", "loops", "metrics", "collectors", "queue_collector", "world", "caches"},
    "controllers.inventory": {"__main__", "loops", "metrics", "world", "coverage"},
    "webhook": {"__main__", "api_server_probe", "caches", "certificate_controller", "certificate_stores", "handlers"}
    | {"metrics", "reservations", "server", "serving_certificate"},
}
"""By process, what may know clocks, caches, the network and metrics; of `coverage`, `comparison` is pure."""


def sources_of(module: str) -> list[Path]:
    path = ROOT / module.replace(".", "/")
    return sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


PURE = [path for module in PURE_MODULES for path in sources_of(module)]


def parsed(path: Path) -> ast.Module:
    """The file's syntax tree, made without the garbage collector.

    CPython 3.11 counts the depth of a tree in one place: a finalizer that runs meanwhile and
    parses too (printing a traceback does) spoils the count, and the parser raises SystemError.
    """
    gc.disable()
    try:
        return ast.parse(path.read_text())
    finally:
        gc.enable()


def test_the_layers_and_the_purity_contracts_are_kept() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_a_broken_layer_is_found(tmp_path: Path) -> None:
    """The linter's configuration is not a formality: an import upwards breaks it."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (tmp_path / "controllers/domain/broken.py").write_text("import asyncio\n\nfrom controllers.runtime import store\n")

    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "controllers.domain.broken" in done.stdout


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_decision_looks_at_a_clock(path: Path) -> None:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not {"time", "random", "secrets", "uuid"} & modules, f"{path}:{node.lineno}"


def test_whatever_calls_itself_pure_is_held_to_it() -> None:
    shipped = [path for path in SOURCES if path.relative_to(ROOT).parts[0] not in NOT_SHIPPED]
    calls_itself = [path for path in shipped if "Pure." in (ast.get_docstring(parsed(path)) or "")]

    assert calls_itself
    assert [str(path.relative_to(ROOT)) for path in calls_itself if path not in PURE] == []


@pytest.mark.parametrize("process", NOT_PURE)
def test_all_of_a_process_is_pure_but_for_the_rooms_that_are_named(process: str) -> None:
    """A room or a module that is new is held to purity at once, or named here."""
    folder = ROOT / process.replace(".", "/")
    rooms = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    pure = {module.removeprefix(f"{process}.") for module in PURE_MODULES}

    assert rooms - pure - {"__init__"} == NOT_PURE[process]


def test_no_file_is_a_giant() -> None:
    long = {str(path.relative_to(ROOT)): n for path in SOURCES if (n := len(path.read_text().splitlines())) > 500}

    assert long == {}


def test_one_module_imports_kubernetes_asyncio_and_not_its_models() -> None:
    found = [str(path.relative_to(ROOT)) for path in SOURCES if "kubernetes_asyncio" in path.read_text()]
    assert found == ["controllers/runtime/library.py"]

    script = "import sys, controllers.runtime.client; print(*(m for m in sys.modules if 'kubernetes_asyncio' in m))"
    loaded = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert len(loaded.split()) < 20
