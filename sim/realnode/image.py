"""Images as archives: an OCI layout with one layer, which holds one static program under several names."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tools.programs.golang import host_platform

HOST: Final = "registry.local"
"""The host in the names of all images here; no machine has this name."""
PAUSE: Final = f"{HOST}/e2e/pause:1"
SHOW: Final = f"{HOST}/e2e/show:1"
AGENT: Final = f"{HOST}/gpu-control-plane/nodeagent:dev"
"""The chart's default for the module's own pods on nodes; what runs in ours is a stand-in."""
ENTRYPOINTS: Final = {PAUSE: "/bin/pause", SHOW: "/bin/show", AGENT: "/bin/stand-in"}
_LINKS: Final = ("pause", "show", "stand-in", "python3")
"""Names of the program; `python3` is the command of the module's own pods."""
_MEDIA: Final = "application/vnd.oci.image"


@dataclass(frozen=True, slots=True)
class Image:
    """An image of one layer."""

    entrypoint: str
    layer: bytes
    """Its files, as a tar archive; `/etc`, `/proc` and the like are made by the runtime."""
    path: str = "/bin"
    """Where it finds programs."""


def write(archive: Path, program: Path) -> None:
    """Write the archive of the node's own images."""
    layer = _layer(program.read_bytes())
    write_images(archive, {name: Image(entrypoint, layer) for name, entrypoint in ENTRYPOINTS.items()})


def write_images(archive: Path, images: Mapping[str, Image]) -> None:
    """Write an archive of images by name, as `ctr images import` and our registry take it."""
    blobs: dict[str, bytes] = {}
    manifests = [_image(name, image, blobs) for name, image in images.items()]
    index = {"schemaVersion": 2, "mediaType": f"{_MEDIA}.index.v1+json", "manifests": manifests}
    with tarfile.open(archive, "w") as tar:
        _file(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _file(tar, "index.json", _json(index))
        for digest, blob in blobs.items():
            _file(tar, f"blobs/sha256/{digest.removeprefix('sha256:')}", blob)


def _image(name: str, image: Image, blobs: dict[str, bytes]) -> dict[str, Any]:
    """Add the image's blobs; returns what the index says of it."""
    system, arch = host_platform()
    layer = image.layer
    config = _json(
        {
            "architecture": arch,
            "os": system,
            "config": {"Entrypoint": [image.entrypoint], "Env": [f"PATH={image.path}"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_MEDIA}.manifest.v1+json",
            "config": _descriptor(f"{_MEDIA}.config.v1+json", config),
            "layers": [_descriptor(f"{_MEDIA}.layer.v1.tar", layer)],
        }
    )
    blobs |= {_digest(layer): layer, _digest(config): config, _digest(manifest): manifest}
    platform = {"architecture": arch, "os": system}
    marks = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    return {**_descriptor(f"{_MEDIA}.manifest.v1+json", manifest), "platform": platform, "annotations": marks}


def _layer(program: bytes) -> bytes:
    """One program under all its names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        _file(tar, "bin/payload", program, mode=0o755)
        for name in _LINKS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "payload"
            tar.addfile(link)
    return content.getvalue()


def _file(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
