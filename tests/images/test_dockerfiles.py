"""What the Dockerfiles say: a small image of pinned parts, without rights, with all that its programs import."""

import ast
import re
import shutil
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from nodeagent.__main__ import ROLES
from sim.module.processes import ENV, MODULES
from tests.images.dockerfile import sources, stages, target
from tests.test_architecture import parsed
from tools.images import lock
from tools.images.lock import IMAGES, ROOT

COMMANDS: dict[str, list[tuple[str, ...]]] = {
    "control-plane": [
        ("-m", module) for module in (*MODULES.values(), "controllers.inventory.coverage", "controllers.install")
    ],
    "node-agent": [("-m", "nodeagent", role) for role in ROLES],
}
DEVELOPERS = ("nodeagent/deviceplugin/wire/generate.py",)
"""Programs that write files of the repository; no process imports them."""


@pytest.fixture(params=sorted(IMAGES))
def image(request):
    return request.param


@pytest.fixture
def dockerfile(image):
    return (ROOT / "images" / image / "Dockerfile").read_text()


@pytest.fixture
def built(image, dockerfile, tmp_path):
    """The folder /app as the image has it."""
    app = tmp_path / "app"
    for copy in (copy for stage in stages(dockerfile) for copy in stage.of("COPY")):
        into = Path(target(copy))
        for source in sources(copy):
            if into.is_relative_to("/app"):
                place = tmp_path / into.relative_to("/")
                if (ROOT / source).is_dir():
                    shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    place.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / source, place)
    return app


def test_every_image_has_a_dockerfile_and_commands():
    assert {path.parent.name for path in (ROOT / "images").glob("*/Dockerfile")} == set(IMAGES) == set(COMMANDS)


def test_the_base_is_pinned_and_may_be_another(dockerfile):
    head, *_, build, _ = stages(dockerfile)
    assert build.base == "${BASE}"
    assert re.fullmatch(r"BASE=\S+/python:3\.11\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", head.of("ARG")[0])


def test_the_last_stage_holds_nothing_but_what_was_gathered(dockerfile):
    last = stages(dockerfile)[-1]
    assert last.base == "scratch"
    assert last.of("RUN") == []
    assert last.of("COPY") == ["--from=build /rootfs/ /"]


def test_the_user_is_a_number_that_is_not_root(dockerfile):
    # By number, or kubelet cannot tell that runAsNonRoot holds.
    assert stages(dockerfile)[-1].of("USER") == ["64535:64535"]


def test_nothing_is_added_or_fetched_but_by_pip_with_hashes(image, dockerfile):
    steps = [step for stage in stages(dockerfile) for step in stage.steps]
    assert not [text for name, text in steps if name == "ADD"]
    runs = [text for name, text in steps if name == "RUN"]
    assert not [run for run in runs if re.search(r"\b(curl|wget|apt-get|apk|git|gcc|make)\b|https?://", run)]
    installs = [run for run in runs if " install " in run and run != program(image, dockerfile)]
    assert len(installs) == 1
    assert {"--require-hashes", "--no-deps", "--only-binary=:all:"} <= set(installs[0].split())


@pytest.mark.parametrize("release", ["", "v0.12.1"])
def test_mig_parted_is_fetched_only_where_its_release_is_named(tmp_path, release):
    dockerfile = (ROOT / "images" / "node-agent" / "Dockerfile").read_text()
    go = tmp_path / "go"
    go.write_text(f'#!/bin/sh\necho "$GOBIN $*" >> {tmp_path}/asked\n')
    go.chmod(0o755)
    step = program("node-agent", dockerfile).replace("/out", f"{tmp_path}/out")
    subprocess.run(["sh", "-c", step], env={"PATH": f"{tmp_path}:/bin:/usr/bin", "MIG_PARTED": release}, check=True)
    asked = (tmp_path / "asked").read_text().split() if release else []
    assert (tmp_path / "asked").exists() == bool(release)
    package = f"github.com/NVIDIA/mig-parted/cmd/nvidia-mig-parted@{release}"
    assert asked[:2] + asked[-1:] == ([f"{tmp_path}/out", "install", package] if release else [])
    assert stages(dockerfile)[0].of("ARG")[1:] == ["MIG_PARTED=", "GO_BASE=${BASE}"], "nothing else unless asked for"


def program(image, dockerfile):
    """The step that makes the program beside Python's; empty where an image has none."""
    made = [stage for stage in stages(dockerfile) if stage.base == "${GO_BASE}"]
    assert bool(made) == (image == "node-agent")
    return made[0].of("RUN")[0] if made else ""


def test_simulated_processes_have_the_images_environment():
    """What is measured of them (`make soak`, `make bench`) is to be what an image does."""
    last = stages((ROOT / "images" / "control-plane" / "Dockerfile").read_text())[-1]
    (line,) = last.of("ENV")
    said = dict(pair.split("=", 1) for pair in line.split())
    told = {"PATH", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    assert {key: value for key, value in said.items() if key not in told} == {
        key: value for key, value in ENV.items() if key not in told
    }


def test_no_address_of_a_package_index_is_written_down(image):
    for path in (ROOT / "images" / image).iterdir():
        assert "://" not in path.read_text(), path


def test_whatever_is_copied_exists_and_reaches_the_build(dockerfile):
    allowed = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    for copy in (copy for stage in stages(dockerfile) for copy in stage.of("COPY")):
        for source in sources(copy):
            assert any(Path(source).match(rule) or source.startswith(f"{rule}/") for rule in allowed), source
            assert source.startswith(".run/") or (ROOT / source).exists(), source


def test_the_entry_point_is_python_on_the_path(dockerfile):
    last = stages(dockerfile)[-1]
    words = ast.literal_eval(last.of("ENTRYPOINT")[0])
    assert words in (["python3", "-m"], ["python3", "-m", "nodeagent"])
    assert re.search(r"(^| )PATH=/opt/venv/bin(:| )", last.of("ENV")[0])
    assert "PYTHONPATH=/app" in last.of("ENV")[0].split()


def test_labels_say_what_it_is(dockerfile):
    text = " ".join(stages(dockerfile)[-1].of("LABEL"))
    named = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", text))
    assert named == {"title", "description", "licenses", "version", "revision"}


def test_every_program_starts_from_what_is_copied_alone(image, built):
    for command in COMMANDS[image]:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", *command, "--help"],
            cwd=built.parent,
            env={"PYTHONPATH": str(built), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout.startswith("usage: "), command


def test_every_package_that_is_imported_is_locked(image, built):
    locked = set(lock.entries(lock.path_of(image).read_text()))
    known = packages_distributions()
    ours = {folder.name for folder in built.iterdir()} | {"__future__"}
    for path in built.rglob("*.py"):
        if str(path.relative_to(built)) in DEVELOPERS:
            continue
        for name in imported(parsed(path)) - ours - sys.stdlib_module_names:
            wanted = {canonicalize_name(distribution) for distribution in known[name]}
            assert wanted & locked, f"{path} imports {name}"


def imported(tree):
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
