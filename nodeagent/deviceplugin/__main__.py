"""nodeagent device-plugin: flags and wiring only."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.kube import Pod
from controllers.api.resources import GPUDEVICE, NODE, POD
from controllers.runtime.process import Process, arguments, main
from controllers.runtime.reflector import Scope
from nodeagent.deviceplugin import config
from nodeagent.deviceplugin.devices.allocate import AUTO, STRATEGIES
from nodeagent.deviceplugin.kubelet import Sockets
from nodeagent.deviceplugin.plugin import Caches, Intervals, Plugin
from nodeagent.deviceplugin.scanner import NodeScanner
from nodeagent.host.driver_probe import DriverProbe, Timing
from nodeagent.host.paths import add_path_flags, add_timing, host_paths, seconds
from nodeagent.host.program import STALL_INTERVAL, add_pool, need_node

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = (
    "Offers the cards of one pool on this node to kubelet as gpu.deckhouse.io/POOL, and reports which pod got which."
)
EPILOG = (
    "Ends with status 0 when told to (SIGTERM); 2 where it cannot work as it was started, which is also when another "
    "program serves on the pool's socket; 1 at anything unforeseen."
)
PLUGIN_DIR = "/var/lib/kubelet/device-plugins"
POD_RESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"
CDI_DIRS = ("etc/cdi", "var/run/cdi")
NODE_SECONDS = 2.0
"""For a question to the API server on which a registration with kubelet waits."""
DRIVER_PERIOD = 300.0  # seconds; what changes shows in the driver's files, and that is asked about at once


def parser() -> argparse.ArgumentParser:
    """The program's flags; folders of the host come from the environment in a pod."""
    made = arguments(names.MANAGER_PLUGIN, DESCRIPTION)
    made.epilog = EPILOG
    env = os.environ
    add_pool(made, "the GPUPool whose cards are offered")
    group = made.add_argument_group("kubelet and containers")
    group.add_argument(
        "--plugin-dir",
        type=Path,
        default=Path(env.get("KUBELET_PLUGIN_DIR") or PLUGIN_DIR),
        help=f"folder of kubelet's and the plugins' sockets (default: KUBELET_PLUGIN_DIR, else {PLUGIN_DIR})",
    )
    group.add_argument(
        "--pod-resources",
        type=Path,
        default=Path(env.get("KUBELET_POD_RESOURCES") or POD_RESOURCES),
        help=f"kubelet's socket of the PodResources API (default: KUBELET_POD_RESOURCES, else {POD_RESOURCES})",
    )
    group.add_argument(
        "--device-strategy",
        type=strategy,
        metavar="{" + ",".join(STRATEGIES) + "}",
        default=env.get("DEVICE_STRATEGY") or AUTO,
        help="how containers get their cards; auto: by CDI where a specification names the card and the runtime"
        " applies it, else by device nodes and environment (default: DEVICE_STRATEGY, else auto)",
    )
    group.add_argument(
        "--cdi-dir",
        type=Path,
        action="append",
        help="folder of CDI specifications, may be given again (default: /etc/cdi and /var/run/cdi below --root)",
    )
    group.add_argument(
        "--dev",
        type=Path,
        default=Path(env.get("HOST_DEV") or "/dev"),
        help="where the host's device nodes can be seen (default: HOST_DEV, else /dev)",
    )
    group.add_argument(
        "--mps-dir",
        type=Path,
        default=Path(env["MPS_DIR"]) if env.get("MPS_DIR") else None,
        help="the pool's folder of MPS on the host, where there is one (default: MPS_DIR, else none)",
    )
    add_path_flags(made)
    add_timing(made, "--check-period", 1.0, "between two looks at the bus and at the sockets")
    made.set_defaults(driver_period=DRIVER_PERIOD)
    made.add_argument("--report-period", type=seconds, default=30.0, help="between two unprovoked questions to kubelet")
    return made


def strategy(text: str) -> str:
    """A strategy, from a flag or from the environment."""
    if text not in STRATEGIES:
        raise ValueError(text)
    return text


def make_scanner(args: argparse.Namespace) -> NodeScanner:
    """What looks at the node."""
    where = host_paths(args)
    folders = tuple(args.cdi_dir or (where.root / folder for folder in CDI_DIRS))
    return NodeScanner(
        where,
        args.dev,
        folders,
        DriverProbe(where.library_roots, Timing(args.driver_period, args.driver_deadline)),
        mps=args.mps_dir,
    )


async def wire(process: Process) -> None:
    """Connect caches, node and kubelet, and live."""
    args = process.args
    node = need_node(process)
    sockets = Sockets(args.plugin_dir, args.pool)
    sockets.claim()
    looking = make_scanner(args)

    async def read() -> str:
        return await _runtime(process)

    async def runtime() -> None:
        await looking.learn_runtime(read)
        looking.rescan()

    plugin = Plugin(
        sockets,
        Caches(
            config.follow(process, args.pool, node),
            process.reflect(GPUDEVICE, GPUDevice, scope=Scope(fields=f"status.nodeName={node}")),
            process.reflect(POD, Pod, scope=Scope(fields=f"spec.nodeName={node}")),
        ),
        looking,
        process.executor,
        args.pod_resources,
        args.device_strategy,
        Intervals(args.check_period, args.report_period),
        runtime,
    )
    sessions = plugin.resources
    process.health.stall_interval = STALL_INTERVAL
    process.health.check("kubelet has the list of devices", lambda: sessions.listening)
    process.health.check("kubelet tells what containers hold", lambda: plugin.reported)

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(sessions.run(), name="sessions")
            await sessions.serving.wait()
            await runtime()
            group.create_task(plugin.run(), name="plugin")
            group.create_task(looking.follow_runtime(read, args.driver_period), name="runtime")

    try:
        await process.run(work, lease=None, namespace=names.NAMESPACE)
    finally:
        await looking.probe.close()


async def _runtime(process: Process) -> str:
    """The node's container runtime, as kubelet tells it (`containerd://1.7.35`); raises RuntimeFault, KeyError."""
    path = NODE.path(None, process.args.node)
    node = orjson.loads(await process.client.request("GET", path, timeout=NODE_SECONDS))
    return str(node["status"]["nodeInfo"]["containerRuntimeVersion"])


def run(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    return main(parser(), names.MANAGER_PLUGIN, wire, list(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(run())
