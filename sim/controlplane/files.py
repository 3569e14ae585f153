"""Makes the files of a control plane, removes them again, and guards their directory."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sim.controlplane import client, containers, kubeconfig, pki
from sim.controlplane.components import Context
from sim.controlplane.layout import Layout
from sim.controlplane.state import write_atomically
from tools.errors import UserError

_USERS = {
    "admin": ("kubernetes-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager",),
    "kube-scheduler": ("system:kube-scheduler",),
    # It ends pods as kubelets do, to whom policies allow more than to people.
    "kwok": ("kwok", "system:masters", "system:nodes"),
}
"""Names and groups."""


def write(ctx: Context) -> None:
    """Make the authority, the certificates, the kubeconfigs and the links."""
    layout = ctx.layout
    for folder in (layout.root, layout.pki, layout.bin, layout.logs):
        folder.mkdir(parents=True, exist_ok=True)
    layout.pki.chmod(0o700)
    authority = pki.Authority.create(layout.pki)
    authority.server("server")
    pki.service_account_key(layout.pki)
    for name, (user, *groups) in _USERS.items():
        authority.client(name, user, *groups)
        cert, key = layout.cert(name)
        text = kubeconfig.render(
            server=ctx.server,
            ca=layout.ca.read_bytes(),
            user=user,
            cert=cert.read_bytes(),
            key=key.read_bytes(),
        )
        target = layout.kubeconfig if name == "admin" else Path(ctx.kubeconfig(name))
        write_atomically(target, text, mode=0o600)
    link = layout.bin / "kubectl"
    link.unlink(missing_ok=True)
    link.symlink_to(ctx.programs["kubectl"])


def clean(layout: Layout) -> None:
    """End what is recorded and remove what ``up`` makes; nothing else in the folder."""
    client.stop_all(layout)
    containers.sweep(layout)
    for path in layout.owned():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Hold the lock of the directory, which is on the directory itself: no file to leave."""
    try:
        layout.root.mkdir(parents=True, exist_ok=True)
        fd = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UserError(
            f"cannot use {layout.root}: {error.strerror}",
            expected="a directory that this user can write",
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another `up` or `down` is at work in {layout.root}", do="wait for it") from None
        yield
    finally:
        os.close(fd)
