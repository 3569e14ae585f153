"""The images as they are built: every program starts in them, as its pod starts it, and little else is there."""

import io
import tarfile

import docker.errors
import pytest

from nodeagent.__main__ import ROLES
from tests.images.test_dockerfiles import COMMANDS
from tests.tools.lacking import in_one_line
from tools.errors import UserError
from tools.images import base
from tools.images.build import TAGS, build, build_one
from tools.images.daemon import connected

FOREIGN = (
    "sh",
    "bash",
    "dash",
    "busybox",
    "pip",
    "pip3",
    "gcc",
    "cc",
    "ld",
    "as",
    "make",
    "apt-get",
    "dpkg",
    "perl",
    "su",
)
pytestmark = pytest.mark.more("builds images, with Docker")
LARGEST = 130e6
"""Bytes of an image, unpacked: a quarter above what they have."""


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    try:
        with connected(tmp_path_factory.mktemp("docker")) as found:
            yield found
    except UserError as error:
        pytest.skip(in_one_line(error))


@pytest.fixture(scope="module")
def images(client):
    """Both images, built on a base of Debian's packages, by name."""
    if not base.has(client, base.TAG) and (why := base.lacking()):
        pytest.skip(f"no base image can be made here: {why}; run: make images-tools")
    return {built.image: built for built in build(client, base.debian(client))}


@pytest.fixture
def run(client):
    """Run a container as the strictest of the pods does."""

    def run(image, words, entrypoint=None):
        return client.containers.run(
            TAGS[image],
            list(words),
            entrypoint=entrypoint,
            user="64535:64535",
            read_only=True,
            network_mode="none",
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            remove=True,
            stderr=True,
        ).decode()

    return run


def files(client, image):
    """Every path in the image, with its mode."""
    container = client.containers.create(TAGS[image])
    try:
        content = io.BytesIO(b"".join(container.export()))
    finally:
        container.remove()
    with tarfile.open(fileobj=content) as tar:
        return {member.name.removeprefix("./"): member for member in tar}


@pytest.mark.parametrize(("image", "command"), [(i, c) for i, commands in COMMANDS.items() for c in commands])
def test_a_program_starts_on_a_read_only_root_without_rights(images, run, image, command):
    # As a pod's own `command` does it, which replaces the entry point.
    assert run(image, [*command[1:], "--help"], ["python3", "-m"]).startswith("usage: ")


@pytest.mark.parametrize("role", sorted(ROLES))
def test_the_node_agents_entry_point_takes_a_role(images, run, role):
    # As the pools' DaemonSets do it: arguments alone.
    assert run("node-agent", [role, "--help"]).startswith("usage: ")


@pytest.mark.parametrize(
    ("image", "code"),
    [
        (
            "control-plane",
            "import controllers.runtime.library, controllers.runtime.process, console.server, webhook.server,"
            " webhook.certs.pki",
        ),
        ("node-agent", "import controllers.runtime.library, grpc.aio, pynvml, nodeagent.deviceplugin.service"),
        (
            "node-agent",
            "import ctypes; ctypes.CDLL('libpthread.so.0'), ctypes.CDLL('librt.so.1'), ctypes.CDLL('libm.so.6')",
        ),
        ("node-agent", "import pwd, os; assert pwd.getpwuid(os.getuid()).pw_name == 'module'"),
        ("control-plane", "import ssl, certifi; ssl.create_default_context(cafile=certifi.where())"),
    ],
)
def test_what_programs_load_late_is_there(images, run, image, code):
    assert run(image, ["-c", code], ["python3"]) == ""


def test_a_thread_can_end(images, run):
    # glibc opens libgcc_s only then, and ends the process where it is absent.
    code = "import threading; t = threading.Thread(target=lambda: None); t.start(); t.join(); print('ended')"
    assert run("node-agent", ["-c", code], ["python3"]) == "ended\n"


def test_nothing_can_be_written(images, run):
    with pytest.raises(docker.errors.ContainerError, match=r"Read-only file system|Permission denied"):
        run("control-plane", ["-c", "open('/app/x', 'w')"], ["python3"])


@pytest.mark.parametrize("image", sorted(TAGS))
def test_no_shell_no_compiler_no_package_manager(images, client, image):
    found = files(client, image)
    programs = {path.rpartition("/")[2]: path for path, entry in found.items() if entry.isfile() and entry.mode & 0o111}
    assert {name: path for name, path in programs.items() if name in FOREIGN} == {}
    assert not [path for path in found if "/site-packages/pip" in path or path.endswith("ensurepip")]
    assert not [path for path, entry in found.items() if entry.mode & 0o6000], "setuid or setgid"


@pytest.fixture
def fake_go(client, images):
    """A base whose `go install` brings some linked program under the name of the package."""
    script = "for p; do :; done; p=${p##*/}; cp /usr/bin/env $GOBIN/${p%%@*}"
    text = f"FROM {base.TAG}\nRUN printf '#!/bin/sh\\n{script}\\n' > /usr/local/bin/go && chmod 755 /usr/local/bin/go\n"
    tag = "registry.local/gpu-control-plane/fake-go:test"
    client.images.build(fileobj=io.BytesIO(text.encode()), tag=tag, network_mode="none", rm=True, forcerm=True)
    return tag


def test_a_release_of_mig_parted_that_is_named_is_in_the_image_with_its_libraries(images, client, run, fake_go):
    """Its module could not be fetched where this was written: go is played, all else is real."""
    assert "usr/bin/nvidia-mig-parted" not in files(client, "node-agent")
    try:
        build_one(client, "node-agent", base.TAG, {"MIG_PARTED": "v0.12.1", "GO_BASE": fake_go})
        assert "PYTHONPATH=/app" in run("node-agent", [], ["nvidia-mig-parted"])
    finally:
        build_one(client, "node-agent", base.TAG)  # the tag as other tests expect it; every step is remembered


@pytest.mark.parametrize("image", sorted(TAGS))
def test_an_image_is_small_and_says_what_it_is(images, client, image):
    assert images[image].size <= LARGEST
    config = client.images.get(TAGS[image]).attrs["Config"]
    assert config["User"] == "64535:64535"
    assert config["Labels"]["org.opencontainers.image.version"] != "dev"
    assert len(config["Labels"]["org.opencontainers.image.revision"]) == 40
