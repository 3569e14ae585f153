"""`python -m reliability.bench.echo`: an HTTPS server that reads a review and decides nothing.

What it takes under the same load, TLS, HTTP, Python and the machine take. It runs as a
process of its own, as the webhook does, until SIGTERM.
"""

from __future__ import annotations

import argparse
import ssl
import sys

import orjson
from aiohttp import web

from sim.controlplane import ProcessSpec, Ready
from sim.controlplane.layout import Layout
from sim.module.install import ROOT

NAME = "echo"
ANSWER = orjson.dumps({"response": {"uid": "0" * 36, "allowed": True, "patchType": "JSONPatch", "patch": "0" * 1000}})


def spec(layout: Layout, port: int) -> ProcessSpec:
    """How it is started on a control plane's certificate."""
    cert, key = layout.cert("server")
    argv = (sys.executable, "-m", "reliability.bench.echo", f"--port={port}", f"--cert={cert}", f"--key={key}")
    ready = Ready(urls=(f"https://127.0.0.1:{port}/",), ca=str(layout.ca))
    return ProcessSpec(
        name=NAME, argv=argv, env={"PYTHONPATH": str(ROOT)}, ready=ready, ports={"health": port}, stage=5
    )


async def _answer(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(body=ANSWER, content_type="application/json")


def main() -> None:
    """Serve."""
    parser = argparse.ArgumentParser(prog="reliability.bench.echo", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cert", required=True)
    parser.add_argument("--key", required=True)
    args = parser.parse_args()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(args.cert, args.key)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", _answer)
    web.run_app(app, host="127.0.0.1", port=args.port, ssl_context=tls, print=None, access_log=None)


if __name__ == "__main__":
    main()
