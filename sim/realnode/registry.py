"""`python -m sim.realnode.registry --port N [ARCHIVE…]`: a registry on loopback that gives away images of archives.

Archives are OCI layouts in a tar, as `image.write_images` makes them; an image's host is left out of its address, so
that a runtime may be told that any host is here. What it does not have it answers as real ones do. It reads its
archives once, and runs until SIGTERM.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.controlplane.spec import ProcessSpec, Ready
from sim.module.install import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterable

NAME: Final = "registry"
STAGE: Final = 2
"""The registry's: it ends after the runtime that asks it."""
NAMED: Final = "io.containerd.image.name"
"""The annotation of an archive's index that tells an image's whole name."""
UNKNOWN: Final = b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}'


class Registry:
    """A registry that serves from its creation until `close`, in threads of its own."""

    def __init__(self, archives: Iterable[Path] = (), port: int = 0) -> None:
        """`port`: 0 lets the system choose."""
        content: dict[str, tuple[str, bytes]] = {"": ("application/json", b"{}")}
        for archive in archives:
            content |= _content(archive)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, (kind, body) = _answer(content, self.path)
                self.send_response(status)
                self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - by this name the server finds it

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def name(self) -> str:
        """The registry's address as images name it; runtimes ask one on loopback without TLS."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def process(port: int, archives: Iterable[Path]) -> ProcessSpec:
    """The registry as a process beside a node."""
    argv = (sys.executable, "-m", "sim.realnode.registry", f"--port={port}", *map(str, archives))
    return ProcessSpec(
        name=NAME,
        argv=argv,
        env={"PYTHONPATH": str(ROOT)},
        ready=Ready(urls=(f"http://127.0.0.1:{port}/v2/",)),
        stage=STAGE,
    )


def _answer(content: dict[str, tuple[str, bytes]], path: str) -> tuple[int, tuple[str, bytes]]:
    """Status, and type and text: of the registry itself, a manifest by tag or digest, or a blob."""
    asked = path.removeprefix("/v2").strip("/").replace("/blobs/", "/manifests/")
    repository, _, what = asked.rpartition("/manifests/")
    found = content.get(what) or content.get(f"{repository}:{what}")
    return (200, found) if found else (404, ("application/json", UNKNOWN))


def _content(archive: Path) -> dict[str, tuple[str, bytes]]:
    """Type and bytes, by digest, and of a manifest by its name without the host, as `e2e/show:1`."""
    with tarfile.open(archive) as tar:
        files = {name: file.read() for name in tar.getnames() if (file := tar.extractfile(name)) is not None}
    blobs = {f"sha256:{name.rpartition('/')[2]}": body for name, body in files.items() if name.startswith("blobs/")}
    made = {digest: ("application/octet-stream", body) for digest, body in blobs.items()}
    for entry in json.loads(files["index.json"])["manifests"]:
        manifest = (entry["mediaType"], blobs[entry["digest"]])
        made |= {entry["digest"]: manifest, entry["annotations"][NAMED].partition("/")[2]: manifest}
    return made


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="sim.realnode.registry", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("archives", nargs="*", type=Path)
    args = parser.parse_args(argv)
    signal.pthread_sigmask(signal.SIG_BLOCK, ends := {signal.SIGTERM, signal.SIGINT})
    registry = Registry(args.archives, args.port)
    signal.sigwait(ends)
    registry.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
