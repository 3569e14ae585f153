"""The page's own files, read once: what is not among them is not served, whatever a path says."""

from __future__ import annotations

import hashlib
import mimetypes
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = Path(__file__).parent / "static"
INDEX: Final = "index.html"
TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
NOT_MODIFIED, NOT_FOUND = 304, 404


@dataclass(frozen=True, slots=True)
class File:
    """One file."""

    body: bytes
    content_type: str
    tag: str
    """Its ETag."""


def read(folder: Path = FOLDER) -> dict[str, File]:
    """Files by their path below the folder; none where there is no such folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    return {path.relative_to(folder).as_posix(): _file(path) for path in found}


def _file(path: Path) -> File:
    body = path.read_bytes()
    kind = TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')


def serve(files: Mapping[str, File], request: web.Request) -> web.Response:
    """A file; the page itself at `/`, whose views are behind the `#` of its address."""
    file = files.get(request.path.strip("/") or INDEX)
    if file is None:
        return web.Response(status=NOT_FOUND, text="There is no such file.\n")
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("If-None-Match") == file.tag:
        return web.Response(status=NOT_MODIFIED, headers=headers)
    charset = "utf-8" if file.content_type.startswith("text/") else None
    return web.Response(body=file.body, content_type=file.content_type, charset=charset, headers=headers)
