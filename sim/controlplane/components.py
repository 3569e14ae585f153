"""The command lines of the control plane's programs, as pure functions of where things lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.controlplane.layout import Layout
from sim.controlplane.spec import ProcessSpec, Ready

STAGES = Path(__file__).with_name("kwok-stages.yaml")

PORTS = (
    "etcd",
    "etcd-peer",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
)

# Controllers of volumes and clouds have nothing to do here and poll nonetheless.
_IDLE_CONTROLLERS = (
    "persistentvolume-attach-detach-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "ephemeral-volume-controller",
    "service-lb-controller",
    "node-route-controller",
    "cloud-node-lifecycle-controller",
)

# What these two would save in seconds of good-byes is removed a moment later.
_NO_GRACE = 0.2

# Clients limit themselves to 20 requests a second by default, which looks like slowness.
_CLIENT_LIMITS = ("--kube-api-qps=1000", "--kube-api-burst=2000")


@dataclass(frozen=True, slots=True)
class Context:
    """What all command lines are made from."""

    layout: Layout
    programs: Mapping[str, Path]
    ports: Mapping[str, int]

    @property
    def server(self) -> str:
        """The API server's URL."""
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    def kubeconfig(self, user: str) -> str:
        """Return the kubeconfig of a component."""
        return str(self.layout.pki / f"{user}.kubeconfig")


def merge_flags(base: Sequence[str], extra: Sequence[str]) -> list[str]:
    """Return ``base`` with ``extra`` added; an extra flag replaces ours of the same name.

    Merely appended, a list flag such as ``--etcd-servers`` would keep both values.
    """
    replaced = {flag.partition("=")[0] for flag in extra}
    return [flag for flag in base if flag.partition("=")[0] not in replaced] + list(extra)


def etcd(ctx: Context, extra: Sequence[str] = ()) -> ProcessSpec:
    """Return etcd without fsync: its data dies with the control plane anyway."""
    client = f"http://127.0.0.1:{ctx.ports['etcd']}"
    peer = f"http://127.0.0.1:{ctx.ports['etcd-peer']}"
    flags = [
        f"--data-dir={ctx.layout.etcd}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        # The default of 2 GB is soon reached by a benchmark's churn of 10 kB objects.
        f"--quota-backend-bytes={8 << 30}",
    ]
    return ProcessSpec(
        name="etcd",
        argv=(str(ctx.programs["etcd"]), *merge_flags(flags, extra)),
        ready=Ready(urls=(f"{client}/readyz",)),
        grace=_NO_GRACE,
        stage=0,
        ports={"client": ctx.ports["etcd"], "peer": ctx.ports["etcd-peer"]},
    )


def apiserver(ctx: Context, extra: Sequence[str] = (), name: str = "kube-apiserver") -> ProcessSpec:
    """Return kube-apiserver; another ``name`` is a further replica, its port in ctx.ports."""
    port = ctx.ports[name]
    pki = ctx.layout.pki
    cert, key = ctx.layout.cert("server")
    service_account = pki / "service-account.key"
    flags = [
        f"--etcd-servers=http://127.0.0.1:{ctx.ports['etcd']}",
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        # A machine without any network has no address to find by itself, and loopback is
        # refused; this one is reserved for documentation and routed nowhere.
        "--advertise-address=192.0.2.1",
        f"--cert-dir={pki}",
        f"--tls-cert-file={cert}",
        f"--tls-private-key-file={key}",
        f"--client-ca-file={ctx.layout.ca}",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={service_account}",
        f"--service-account-signing-key-file={service_account}",
    ]
    return ProcessSpec(
        name=name,
        argv=(str(ctx.programs["kube-apiserver"]), *merge_flags(flags, extra)),
        ready=Ready(urls=(f"https://127.0.0.1:{port}/readyz",), ca=str(ctx.layout.ca)),
        grace=_NO_GRACE,
        stage=1,
        ports={"https": port},
    )


def controller_manager(ctx: Context, extra: Sequence[str] = ()) -> ProcessSpec:
    """Return kube-controller-manager; ready when it has made the first ServiceAccount."""
    name = "kube-controller-manager"
    pki = ctx.layout.pki
    flags = [
        *_component_flags(ctx, name),
        f"--controllers=*,{','.join(f'-{name}' for name in _IDLE_CONTROLLERS)}",
        "--use-service-account-credentials",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        f"--root-ca-file={ctx.layout.ca}",
        f"--cluster-signing-cert-file={ctx.layout.ca}",
        f"--cluster-signing-key-file={pki / 'ca.key'}",
        "--service-cluster-ip-range=10.96.0.0/16",
        # A silent node is noticed as in a real cluster; KWOK renews a lease every 10 s.
        "--node-monitor-period=2s",
        "--node-monitor-grace-period=40s",
    ]
    works = f"{ctx.server}/api/v1/namespaces/default/serviceaccounts/default"
    return _component(ctx, name, merge_flags(flags, extra), "https", "/healthz", works)


def scheduler(ctx: Context, extra: Sequence[str] = ()) -> ProcessSpec:
    """Return kube-scheduler; ready when its caches are filled."""
    name = "kube-scheduler"
    flags = _component_flags(ctx, name)
    return _component(ctx, name, merge_flags(flags, extra), "https", "/readyz")


def kwok(ctx: Context, extra: Sequence[str] = ()) -> ProcessSpec:
    """Return KWOK, which plays the kubelet of the nodes that are annotated for it, only."""
    flags = [
        f"--kubeconfig={ctx.kubeconfig('kwok')}",
        f"--config={STAGES}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",
        "--cidr=10.244.0.1/16",
        "--node-ip=10.0.0.1",
        f"--server-address=127.0.0.1:{ctx.ports['kwok']}",
    ]
    return _component(ctx, "kwok", merge_flags(flags, extra), "http", "/healthz")


def _component_flags(ctx: Context, name: str) -> list[str]:
    cert, key = ctx.layout.cert("server")
    kubeconfig = ctx.kubeconfig(name)
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={ctx.ports[name]}",
        f"--tls-cert-file={cert}",
        f"--tls-private-key-file={key}",
        "--leader-elect=false",
        *_CLIENT_LIMITS,
    ]


def _component(ctx: Context, name: str, flags: Sequence[str], scheme: str, health: str, *works: str) -> ProcessSpec:
    cert, key = ctx.layout.cert("admin")
    port = ctx.ports[name]
    urls = (f"{scheme}://127.0.0.1:{port}{health}", *works)
    return ProcessSpec(
        name=name,
        argv=(str(ctx.programs[name]), *flags),
        ready=Ready(urls=urls, ca=str(ctx.layout.ca), cert=str(cert), key=str(key)),
        stage=2,
        ports={scheme: port},
    )
