"""Files of others are what was published, and one that somebody changed is found."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from tools.vendored.__main__ import differences, packages, unpacked


def archive(**files: bytes) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as opened:
        for name, data in files.items():
            about = tarfile.TarInfo(f"package/{name}")
            about.size = len(data)
            opened.addfile(about, io.BytesIO(data))
    return made.getvalue()


def package(made: bytes, data: bytes) -> dict:
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(made).digest()).decode()
    return {"version": "1", "integrity": integrity,
            "files": {"here.js": {"path": "there", "sha256": hashlib.sha256(data).hexdigest()}}}  # fmt: skip


def test_vendored_files_are_as_published() -> None:
    assert differences(packages()) == []


def test_a_changed_and_a_missing_file_are_found(tmp_path: Path) -> None:
    known = {"it": package(b"", b"published")}
    assert differences(known, tmp_path) == ["here.js of it is missing"]
    (tmp_path / "here.js").write_bytes(b"changed")
    assert differences(known, tmp_path) == ["here.js is not the file of it 1"]
    (tmp_path / "here.js").write_bytes(b"published")
    assert differences(known, tmp_path) == []


def test_a_file_comes_out_of_the_archive_that_is_written_down_alone() -> None:
    made = archive(there=b"published")
    assert unpacked(made, package(made, b"published")) == {"here.js": b"published"}
    with pytest.raises(ValueError, match="expected is sha512-"):
        unpacked(archive(there=b"another"), package(made, b"published"))
