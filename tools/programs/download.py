"""Downloads published programs, and accepts only what a published checksum vouches for.

An offline machine must not wait: the small checksum file is asked for first, in a thread
(name resolution has no timeout of its own), with three seconds of patience for all silent
hosts together; a host that did not answer is not asked again in the same resolution.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from tools.programs.catalog import RELEASES, unit_of
from tools.programs.golang import host_platform
from tools.programs.progress import Progress

_REACH_SECONDS = 3.0
_LEAST_PATIENCE = 0.3
_READ_SECONDS = 15.0
_CHUNK = 1 << 20
_FAILURES = (OSError, ValueError, HTTPException)
_MAX_CHECKSUMS = 1 << 20


class UnavailableError(Exception):
    """No verified program can be had this way; the reason is for the person's eyes."""


class Downloader:
    """Downloads for one resolution; remembers which hosts were out of reach."""

    def __init__(self) -> None:
        """Know no host yet. ``GPU_CONTROL_PLANE_DOWNLOAD=0`` switches downloads off."""
        self._off = os.environ.get("GPU_CONTROL_PLANE_DOWNLOAD", "1") in {
            "0",
            "false",
            "no",
        }
        self._offline: set[str] = set()
        self._patience = _REACH_SECONDS

    def fetch(self, program: str, folder: Path, progress: Progress, title: str) -> None:
        """Put ``program`` into ``folder``, verified; raise UnavailableError where it cannot be."""
        release = RELEASES.get(program)
        if self._off or release is None:
            raise UnavailableError("downloads are off" if self._off else "no checksum is published")
        system, arch = host_platform()
        facts = {
            "base": os.environ.get(release.base_env, release.base).rstrip("/"),
            "version": unit_of(program).version,
            "os": system,
            "arch": arch,
        }
        url = release.file.format(**facts)
        wanted = self._checksum(release.checksums.format(**facts), url.rsplit("/", 1)[1])
        raw = folder / ".download"
        with progress.task(title) as task:
            try:
                got = _save(url, raw, lambda done, total: task.update(done, total, url))
            except _FAILURES as error:
                raise UnavailableError(f"{url}: {error}") from error
        if got != wanted:
            raw.unlink()
            progress.note(f"refused {url}: its sha256 is {got}, published is {wanted}")
            raise UnavailableError("the checksum does not match")
        if release.member:
            _extract(raw, release.member.format(**facts), folder / program)
            raw.unlink()
        else:
            raw.rename(folder / program)
        (folder / program).chmod(0o755)

    def _checksum(self, url: str, file: str) -> str:
        host = urlsplit(url).netloc
        if host in self._offline:
            raise UnavailableError(f"{host} is out of reach")
        answer: list[bytes] = []
        refused: list[str] = []

        def ask() -> None:
            try:
                with _open(url, _REACH_SECONDS) as response:
                    answer.append(response.read(_MAX_CHECKSUMS))
            except urllib.error.HTTPError as error:
                refused.append(f"{url}: {error.code}")
            except _FAILURES:
                pass

        thread = threading.Thread(target=ask, daemon=True)
        asked = time.monotonic()
        thread.start()
        thread.join(self._patience)
        if answer:
            return published_checksum(answer[0].decode(errors="replace"), file)
        if refused:
            raise UnavailableError(refused[0])
        self._offline.add(host)
        self._patience = max(_LEAST_PATIENCE, self._patience - (time.monotonic() - asked))
        raise UnavailableError(f"{host} is out of reach")


def published_checksum(text: str, file: str) -> str:
    """Return the sha256 of ``file`` from a checksum file: bare, or one line for each file."""
    for line in text.splitlines():
        digest, _, name = line.strip().partition(" ")
        if len(digest) == 64 and name.strip().lstrip("*") in {"", file}:  # noqa: PLR2004
            return digest.lower()
    raise UnavailableError(f"no checksum is published for {file}")


def _open(url: str, timeout: float) -> HTTPResponse:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"{url} is not a web address")
    response: HTTPResponse = urllib.request.urlopen(url, timeout=timeout)  # noqa: S310 - looked at above
    return response


def _save(url: str, path: Path, show: Callable[[int, int | None], None]) -> str:
    digest, done = hashlib.sha256(), 0
    with (
        _open(url, _READ_SECONDS) as response,
        path.open("wb") as out,
    ):
        total = int(response.headers.get("Content-Length") or 0) or None
        while chunk := response.read(_CHUNK):
            digest.update(chunk)
            out.write(chunk)
            done += len(chunk)
            show(done, total)
    return digest.hexdigest()


def _extract(archive: Path, member: str, target: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            source = tar.extractfile(member)
            if source is None:
                raise UnavailableError(f"{member} is not a file in the archive")
            with source, target.open("wb") as out:
                shutil.copyfileobj(source, out, _CHUNK)
    except (tarfile.TarError, KeyError) as error:
        raise UnavailableError(f"the archive holds no {member}") from error
