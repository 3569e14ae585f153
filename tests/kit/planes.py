"""How tests bring a real control plane up: bare, with the module's chart, or with its processes and nodes.

Each is a context manager over an empty folder, takes seconds (minutes where programs must be built first), and leaves
nothing when it ends, also where it failed half-way. Fixtures give them to `WorkerPlane` (worker_plane.py), so that
one is up at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from reliability.kit.apiserver import Server
from sim import cluster, controlplane
from sim.cluster import Options
from sim.controlplane import ControlPlane
from sim.module.install import Tools, install_chart, install_crds
from sim.module.processes import Timers
from tools import programs

TIMERS: Final = Timers(lease_duration=10.0, renew_deadline=8.0, retry_period=2.0, watch_idle=60.0)
"""Of processes whose end and return tests wait for, and which keep their leases where they get no processor for
seconds. A lease renewed each half second and watches begun anew each 20 s were most of what a quiet cluster did, at
the cost of a fifth of a core."""
ALONE: Final = {"with_controller_manager": False, "with_scheduler": False, "with_kwok": False}
"""etcd and an API server: nothing acts by itself."""
ADMIN: Final = "admin"


@contextmanager
def plane(folder: Path, **options: Any) -> Iterator[ControlPlane]:
    """A control plane without anything of ours; `options`: of `controlplane.up`, as `**ALONE`."""
    try:
        yield controlplane.up(folder, **options)
    finally:
        controlplane.down(folder)


@contextmanager
def server(folder: Path, users: Mapping[str, str] | None = None) -> Iterator[Server]:
    """etcd and an API server that knows an administrator by a token, so that a proxy may end TLS.

    `users`: tokens by the names of more such administrators.
    """
    token, given = secrets.token_hex(16), folder / "tokens.csv"
    rows = {ADMIN: token, **(users or {})}
    given.write_text("".join(f'{word},{name},{name},"system:masters"\n' for name, word in rows.items()))
    with plane(folder / "plane", extra_apiserver_flags=[f"--token-auth-file={given}"], **ALONE) as made:
        yield Server(made, token)


@contextmanager
def with_chart(folder: Path, values: Mapping[str, str] | None = None, **options: Any) -> Iterator[ControlPlane]:
    """A control plane with CRDs, RBAC, policies and webhook configuration of the chart, and none of the processes."""
    with plane(folder, **options) as made:
        install(made, values)
        yield made


def install(made: ControlPlane, values: Mapping[str, str] | None = None) -> None:
    """CRDs and chart, as `make up` installs them."""
    given = tools(made)
    install_crds(given)
    install_chart(given, dict(values or {}))


def tools(made: ControlPlane) -> Tools:
    """Helm, and kubectl as the administrator."""
    return Tools(made.kubectl, programs.ensure(["helm"])["helm"], made.kubeconfig)


@contextmanager
def module(folder: Path, options: Options) -> Iterator[ControlPlane]:
    """What `make up` brings up: the module's processes, the simulated agent and nodes, as far as the options say."""
    try:
        yield cluster.bring_up(folder, options)
    finally:
        controlplane.down(folder)
