"""Brings a control plane up in a directory and takes it down again.

``up`` returns when the API server answers and every component works; nothing then depends
on the process that called it. ``down`` ends exactly what was recorded and removes what
``up`` made. Both hold a lock on the directory itself, so two of them never interleave; two
directories know nothing of each other.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sim.controlplane import client, components, containers, files
from sim.controlplane.layout import Layout
from sim.controlplane.plane import ControlPlane, status
from sim.controlplane.ports import free_ports
from sim.controlplane.spec import ProcessSpec
from sim.controlplane.state import read_state
from tools import programs
from tools.errors import UserError
from tools.programs import Progress, Silent

_TRIES = 3
_READY_SECONDS = 180.0
_TAKEN = "address already in use"


@dataclass(frozen=True, slots=True)
class _Options:
    """What may differ between control planes."""

    flags: Mapping[str, Sequence[str]]
    optional: Mapping[str, bool]
    audit_policy: Path | None

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that this needs."""
        chosen = (name for name, wanted in self.optional.items() if wanted)
        return ("etcd", "kube-apiserver", "kubectl", *chosen)


class _PortTakenError(Exception):
    """Another process took a port between choice and use."""


def up(
    folder: Path | str,
    *,
    extra_apiserver_flags: Sequence[str] = (),
    extra_controller_manager_flags: Sequence[str] = (),
    extra_scheduler_flags: Sequence[str] = (),
    extra_kwok_flags: Sequence[str] = (),
    extra_etcd_flags: Sequence[str] = (),
    with_controller_manager: bool = True,
    with_scheduler: bool = True,
    with_kwok: bool = True,
    audit_policy: Path | None = None,
    progress: Progress | None = None,
) -> ControlPlane:
    """Start a control plane in ``folder`` and return when all of it works.

    An extra flag replaces ours of the same name. Remains of a control plane that was killed
    are cleaned first; one that is up is a UserError. With CONTROL_PLANE=testcontainers each
    program runs in a container (:mod:`sim.controlplane.containers`); all else is the same.
    """
    options = _Options(
        {
            "etcd": extra_etcd_flags,
            "kube-apiserver": extra_apiserver_flags,
            "kube-controller-manager": extra_controller_manager_flags,
            "kube-scheduler": extra_scheduler_flags,
            "kwok": extra_kwok_flags,
        },
        {
            "kube-controller-manager": with_controller_manager,
            "kube-scheduler": with_scheduler,
            "kwok": with_kwok,
        },
        audit_policy,
    )
    if sys.platform != "linux":
        raise UserError(f"a control plane cannot run on {sys.platform}", expected="Linux")
    layout, progress = Layout.of(folder), progress or Silent()
    paths = programs.ensure(options.programs, progress=progress)
    with files.alone(layout):
        if status(layout.root).up:
            raise UserError(f"a control plane is up in {layout.root}", do="`make down` ends it")
        for _ in range(_TRIES):
            files.clean(layout)
            try:
                with progress.task(f"starting a control plane in {layout.root}"):
                    return _start(layout, paths, options)
            except _PortTakenError:
                continue
            except BaseException:
                client.stop_all(layout)  # its logs stay: the error names them
                raise
        files.clean(layout)
        raise UserError(f"ports that were free were taken by others, {_TRIES} times")


def down(folder: Path | str) -> bool:
    """End the control plane of ``folder`` and remove its data; False where none was."""
    layout = Layout.of(folder)
    if not layout.root.is_dir():
        return False
    with files.alone(layout):
        was = read_state(layout.state) is not None
        files.clean(layout)
        with suppress(OSError):
            layout.root.rmdir()  # only where nothing else is in it
    return was


def _start(layout: Layout, paths: Mapping[str, Path], options: _Options) -> ControlPlane:
    ports = dict(zip(components.PORTS, free_ports(len(components.PORTS)), strict=True))
    ctx = components.Context(layout, paths, ports)
    files.write(ctx)
    contained = containers.backend(layout, paths)
    client.start_supervisor(layout)
    flags = options.flags
    audit = _audit_flags(layout, options.audit_policy)
    base = [
        contained(components.etcd(ctx, flags["etcd"])),
        contained(components.apiserver(ctx, [*audit, *flags["kube-apiserver"]])),
    ]
    _run(layout, base)
    optional = {
        "kube-controller-manager": components.controller_manager,
        "kube-scheduler": components.scheduler,
        "kwok": components.kwok,
    }
    rest = [contained(make(ctx, flags[name])) for name, make in optional.items() if options.optional[name]]
    _run(layout, rest)
    plane = ControlPlane(
        dir=layout.root,
        server=ctx.server,
        kubeconfig=layout.kubeconfig,
        ca=layout.ca,
        ports=ports,
        processes=tuple(spec.name for spec in (*base, *rest)),
    )
    plane.save()
    return plane


def _run(layout: Layout, specs: Sequence[ProcessSpec]) -> None:
    """Start processes together and wait for all."""
    for spec in specs:
        client.add_process(layout.root, spec)
    for spec in specs:
        try:
            client.wait_ready(layout.root, spec.name, _READY_SECONDS, max_restarts=2)
        except UserError as error:
            if any(_TAKEN in client.log_tail(layout, other.name, 200) for other in specs):
                raise _PortTakenError from error
            raise


def _audit_flags(layout: Layout, policy: Path | None) -> list[str]:
    if policy is None:
        return []
    log = layout.log("audit")
    return [f"--audit-policy-file={policy.absolute()}", f"--audit-log-path={log}"]
