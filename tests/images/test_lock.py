"""The images' lock files are cut out of requirements.lock, entry by entry."""

import pytest

from tools.images import lock

LOCK = """\
one==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
Two.Words==2.0 ; sys_platform != 'win32' \\
    --hash=sha256:cc
"""


def test_an_entry_has_its_hashes():
    assert lock.entries(LOCK) == {
        "one": "one==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n",
        "two-words": "Two.Words==2.0 ; sys_platform != 'win32' \\\n    --hash=sha256:cc\n",
    }


def test_a_package_brings_what_it_requires_and_no_extras():
    found = lock.closure(["aiohttp"])
    assert {"aiohttp", "yarl", "multidict"} <= found
    assert "brotli" not in found


@pytest.mark.parametrize("image", sorted(lock.IMAGES))
def test_the_files_are_what_the_one_lock_says(image):
    assert lock.path_of(image).read_text() == lock.lock_of(image), "run: make lock"


@pytest.mark.parametrize("image", sorted(lock.IMAGES))
def test_no_developers_tool_is_in_an_image(image):
    found = set(lock.entries(lock.path_of(image).read_text()))
    assert not found & {
        "pytest",
        "mypy",
        "ruff",
        "uv",
        "docker",
        "testcontainers",
        "grpcio-tools",
        "setuptools",
        "rich",
    }
    assert not found & lock.IMAGES[image]


def test_a_stale_file_is_told_and_then_mended(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(lock, "ROOT", tmp_path)
    (tmp_path / "images" / "control-plane").mkdir(parents=True)
    (tmp_path / "images" / "node-agent").mkdir(parents=True)
    for name in ("pyproject.toml", "requirements.lock"):
        (tmp_path / name).write_text((lock.Path(__file__).parents[2] / name).read_text())
    assert lock.main(["--check"]) == 1
    assert "images/node-agent/requirements.lock is not what requirements.lock says" in capsys.readouterr().err
    assert not lock.path_of("node-agent").exists()
    assert lock.main([]) == 0
    assert lock.main(["--check"]) == 0
