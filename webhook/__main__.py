"""gpu-admission-webhook: flags and wiring."""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Namespace, Node, Secret, WebhookConfiguration
from controllers.api.resources import (
    GPUDEVICE,
    GPUPOOL,
    MUTATING_WEBHOOK,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    VALIDATING_WEBHOOK,
)
from controllers.api.tenant import TenantPod
from controllers.runtime.errors import ConfigurationError
from controllers.runtime.leader import Leader, LeaseSettings
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from controllers.runtime.settings import module_settings
from webhook import metrics
from webhook.api_server_probe import ApiServerProbe
from webhook.caches.access_reviews import AccessReviewCache
from webhook.caches.snapshot import Snapshot
from webhook.caches.stores import Stores
from webhook.certificate_controller import CertificateController
from webhook.certificate_stores import CertificateStores
from webhook.certs.rotation import DAY, Policy
from webhook.handlers.objects import ObjectReviewHandler
from webhook.handlers.pod_creation import PodCreationHandler
from webhook.reservations.reserve import Reserver
from webhook.server import Server
from webhook.serving_certificate import ServingCertificate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

log = structlog.get_logger()


def parser() -> argparse.ArgumentParser:
    """The flags."""
    flags = arguments(names.WEBHOOK, "Gives pods their GPU cards while they are created.")
    flags.add_argument("--host", default="127.0.0.1", help="address of the reviews' port; 0.0.0.0 or :: in a pod")
    flags.add_argument("--port", type=int, default=9443, help="its port; 0 lets the system choose")
    about = "a setting that, as it is, leaves something open (docs/security.md): told as a metric, and in the log"
    flags.add_argument("--open-setting", action="append", default=[], metavar="SETTING", help=about)
    flags.add_argument("--drain-seconds", type=float, default=2.0, help="serve so long after the signal to stop")
    flags.add_argument(
        "--contact-seconds", type=float, default=9.0, help="not ready after so long without an answer of the API server"
    )
    group, policy = flags.add_argument_group("certificates (fractions are allowed)"), Policy()
    group.add_argument("--certificate-days", type=float, default=policy.certificate / DAY, help="life of a certificate")
    group.add_argument("--authority-days", type=float, default=policy.authority / DAY, help="life of its authority")
    group.add_argument(
        "--certificate-renew-share", type=float, default=policy.renew_share, help="renew after this share of a life"
    )
    group.add_argument(
        "--certificate-settle", type=float, default=policy.settle, help="seconds for API servers to learn a caBundle"
    )
    return flags


def policy_of(args: argparse.Namespace) -> Policy:
    """How certificates are kept; raises ConfigurationError."""
    policy = Policy(
        args.certificate_days * DAY, args.authority_days * DAY, args.certificate_renew_share, args.certificate_settle
    )
    if not 0 < policy.renew_share < 1:
        raise ConfigurationError(f"--certificate-renew-share is {policy.renew_share:g}; expected between 0 and 1")
    if policy.certificate <= 0 or policy.authority < 2 * policy.certificate:
        raise ConfigurationError(
            f"--authority-days {args.authority_days:g} is too short for --certificate-days {args.certificate_days:g};"
            " an authority lives at least twice as long as a certificate"
        )
    return policy


async def wire(process: Process) -> None:
    """Put the process together and run it."""
    policy = policy_of(process.args)
    _tell_open(process.args.open_setting)
    settings = module_settings(process)
    stores = Stores(
        pools=process.reflect(GPUPOOL, GPUPool),
        devices=process.reflect(GPUDEVICE, GPUDevice),
        nodes=process.reflect(NODE, Node),
        namespaces=process.reflect(NAMESPACE, Namespace),
        pods=process.reflect(POD, TenantPod, scope=Scope(labels=names.LABEL_POOL, fields=names.TENANT_PODS)),
    )
    ours = Scope(fields=f"metadata.name={names.WEBHOOK_CONFIGURATION}")
    secret = Scope(namespace=names.NAMESPACE, fields=f"metadata.name={names.WEBHOOK_SECRET}")
    certificates = CertificateStores(
        secrets=process.reflect(SECRET, Secret, scope=secret),
        mutating=process.reflect(MUTATING_WEBHOOK, WebhookConfiguration, scope=ours),
        validating=process.reflect(VALIDATING_WEBHOOK, WebhookConfiguration, scope=ours),
    )
    serving = ServingCertificate(certificates)
    snapshot = Snapshot(stores, lambda: settings.current)
    reserver = Reserver(
        process.client, process.executor, stores.devices, is_bound=snapshot.is_bound, still_fits=snapshot.still_fits
    )
    reviews = AccessReviewCache(process.client)
    admission = PodCreationHandler(
        process.client, stores, snapshot, reserver, lambda: settings.current, access_reviews=reviews
    )
    objects = ObjectReviewHandler(process.client, stores, reviews, lambda: settings.current)
    server = Server(admission, objects, process.health, host=process.args.host, port=process.args.port)
    certificate_controller = CertificateController(process.client, certificates, policy, _candidate(process))
    patience = process.args.contact_seconds
    probe = ApiServerProbe(
        process.lease_client,
        lambda reachable: server.close_connections(away=not reachable),
        period=patience / 3,
        timeout=patience,
    )

    async def serve() -> None:
        await serving.loaded.wait()
        await server.start(serving.context)

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            # Not ready any more: whoever balances stops sending before the port closes.
            await server.drain(process.args.drain_seconds)
            await server.stop()
            await reserver.drain()

    process.background(certificate_controller.run)
    process.background(serve)
    process.background(probe.run)
    process.health.check("serving", lambda: server.serving)
    process.health.check("caBundle in place", serving.trusted)
    process.health.check("API server answers", lambda: probe.reachable)
    try:
        await process.run(work, lease=None, namespace=names.NAMESPACE)
    finally:
        await server.stop()


def _tell_open(settings: Sequence[str]) -> None:
    """Say once what the installation leaves open, by the settings that would close it."""
    for setting in settings:
        metrics.SETTING_OPEN.labels(setting).set(1)
    if settings:
        log.warning("these settings leave something open; docs/security.md tells what", settings=", ".join(settings))


def _candidate(process: Process) -> Callable[[], Leader]:
    """Candidates for the lease of the certificates; nothing else in the process depends on it."""
    args = process.args
    timing = LeaseSettings(args.lease_duration, args.renew_deadline, args.retry_period)

    def candidate() -> Leader:
        identity = f"{socket.gethostname()}_{os.getpid()}_{uuid4().hex[:8]}"
        return Leader(process.lease_client, names.WEBHOOK, names.NAMESPACE, identity, timing)

    return candidate


if __name__ == "__main__":
    sys.exit(main(parser(), names.MANAGER_ADMISSION, wire))
